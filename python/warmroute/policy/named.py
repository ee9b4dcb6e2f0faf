"""A policy by the name that a person writes after `--policy`: one of the router's, or one of their own."""

from collections.abc import Callable, Iterable, Mapping

from warmroute.config import nearest
from warmroute.errors import ConfigError
from warmroute.policy.cost_model import CostModelPolicy
from warmroute.policy.least_loaded import LeastLoadedPolicy
from warmroute.policy.longest_prefix import LongestPrefixPolicy
from warmroute.policy.own import SHAPE, check_shape, is_own, own_policy
from warmroute.policy.protocol import Policy
from warmroute.policy.random_choice import RandomPolicy
from warmroute.policy.round_robin import RoundRobinPolicy
from warmroute.policy.weighted import WeightedPolicy

POLICIES: Mapping[str, Callable[[], Policy]] = {
    CostModelPolicy.name: CostModelPolicy,
    WeightedPolicy.name: WeightedPolicy,
    LongestPrefixPolicy.name: LongestPrefixPolicy,
    LeastLoadedPolicy.name: LeastLoadedPolicy,
    RoundRobinPolicy.name: RoundRobinPolicy,
    RandomPolicy.name: RandomPolicy,
}


def check_policy_name(name: str) -> None:
    """ConfigError unless this names a policy, or could name one of a person's own: nothing is imported here."""
    if is_own(name):
        check_shape(name)
    elif name not in POLICIES:
        raise no_such_policy(name, POLICIES)


def no_such_policy(name: str, known: Iterable[str]) -> ConfigError:
    """What to say of a name that is neither one of `known` nor shaped like one of a person's own."""
    return ConfigError(f"there is no policy '{name}' (one of your own is {SHAPE}){nearest(name, known)}")


def policy_named(name: str) -> Policy:
    """A new policy of this name. Raises ConfigError where there is none, or it cannot be made."""
    check_policy_name(name)
    return own_policy(name)[1] if is_own(name) else POLICIES[name]()
