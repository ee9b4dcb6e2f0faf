"""An arm by the name that a person writes: one of the list, or a policy of their own."""

from warmroute.policy import is_own, no_such_policy, own_policy
from warmroute.simulator.arm import Arm
from warmroute.simulator.rivals import ARMS


def arm_named(name: str) -> Arm:
    """The arm of this name, or the policy `package.module:Class`, which is looked for in the current folder as well.

    Such a policy stands where ours does: it hears KV events, and requests wait while every worker is full. ConfigError
    where there is none, or it cannot be made.
    """
    if is_own(name):
        return _own(name)
    if name not in ARMS:
        raise no_such_policy(name, ARMS)
    return ARMS[name]


def _own(name: str) -> Arm:
    make, _ = own_policy(name)
    about = next(iter((make.__doc__ or "").strip().splitlines()), "a policy of your own")
    return Arm(name, about, make, source=name, holds_back=True)
