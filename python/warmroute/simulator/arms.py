"""An arm by the name that a person writes: one of the list, or a policy of their own."""

import importlib
import os
import sys
from collections.abc import Callable

from warmroute.config import nearest
from warmroute.errors import ConfigError
from warmroute.policy import Policy
from warmroute.simulator.arm import Arm
from warmroute.simulator.rivals import ARMS


def arm_named(name: str) -> Arm:
    """The arm of this name, or the policy `package.module:Class`, which is looked for in the current folder as well.

    Such a policy stands where ours does: it hears KV events, and requests wait while every worker is full. ConfigError
    where there is none, or it cannot be made.
    """
    if ":" in name:
        return _own(name)
    if name not in ARMS:
        raise ConfigError(f"unknown policy '{name}'{nearest(name, ARMS)}; one of your own is package.module:Class")
    return ARMS[name]


def _own(name: str) -> Arm:
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise ConfigError(f"a policy of your own is named package.module:Class, not '{name}'")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        make: Callable[[], Policy] = getattr(importlib.import_module(module_name), class_name)
        policy = make()
    except Exception as error:  # whatever a person's own module does
        raise ConfigError(f"the policy {name} cannot be made: {type(error).__name__}: {error}") from error
    lacking = [part for part in ("name", "unit", "costs") if not hasattr(policy, part)]
    if lacking:
        raise ConfigError(f"{name} is no policy: it has no {', no '.join(lacking)}")
    about = next(iter((make.__doc__ or "").strip().splitlines()), "a policy of your own")
    return Arm(name, about, make, source=name, holds_back=True)
