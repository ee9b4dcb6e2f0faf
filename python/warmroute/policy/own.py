"""A policy of one's own, `package.module:Class`: found where Python finds modules, and in the current folder.

Whatever a person's module does when it is imported, and whatever it holds, comes out as a ConfigError that says what to
mend: a running router that is told of a broken one goes on with the one that it has.
"""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from warmroute.config import nearest
from warmroute.errors import ConfigError
from warmroute.policy.protocol import Policy

SHAPE = "package.module:Class"
"""How a policy of one's own is named."""


def is_own(name: str) -> bool:
    """Whether a name is meant as that of a policy of one's own."""
    return ":" in name


def own_policy(name: str) -> tuple[Callable[[], Policy], Policy]:
    """What makes the policy of this name, a class as a rule, and the first that it made. Raises ConfigError.

    A module is run once in the life of a process; one that gave no policy is forgotten, so that it can be mended.
    """
    module_name, class_name = _parts(name)
    known_before = module_name in sys.modules
    try:
        make = _found(name, _imported(name, module_name), class_name)
        return make, _made(name, make)
    except ConfigError:
        if not known_before:
            sys.modules.pop(module_name, None)
        raise


def check_shape(name: str) -> None:
    """ConfigError unless a name has the shape of one that could be imported."""
    _parts(name)


def _parts(name: str) -> tuple[str, str]:
    module_name, _, class_name = name.partition(":")
    is_module = all(part.isidentifier() for part in module_name.split(".")) and not module_name.endswith(".py")
    if not is_module or not class_name.isidentifier():
        raise ConfigError(f"a policy of your own is named {SHAPE}, not '{name}'{_as_module(module_name, class_name)}")
    return module_name, class_name


def _as_module(path: str, class_name: str) -> str:
    """A hint for who wrote a file's path."""
    words = path.removesuffix(".py").removeprefix("./").split("/")
    written = f"{'.'.join(words)}:{class_name}"
    return f"; write {written}" if all(word.isidentifier() for word in [*words, class_name]) else ""


def _imported(name: str, module_name: str) -> ModuleType:
    try:
        folder = os.getcwd()
        if folder not in sys.path:
            sys.path.insert(0, folder)
        importlib.invalidate_caches()  # the file may be younger than what was read of its folder
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"the policy {name} cannot be found: there is no module {error.name} in {folder} and none installed; "
                "start in the folder that holds it, or name that in PYTHONPATH"
            ) from error
        raise _broken(name, "imported", error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, "imported", error) from error


def _found(name: str, module: ModuleType, class_name: str) -> Callable[[], Policy]:
    if not hasattr(module, class_name):
        there = [each for each, value in vars(module).items() if _is_policy_class(value, module)]
        hint = nearest(class_name, there) if there else "; it has no class with costs"
        raise ConfigError(f"the policy {name} cannot be found: {module.__file__} has no {class_name}{hint}")
    make: Callable[[], Policy] = getattr(module, class_name)
    return make


def _is_policy_class(value: Any, module: ModuleType) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__ and hasattr(value, "costs")


def _made(name: str, make: Callable[[], Policy]) -> Policy:
    try:
        policy = make()
    except (Exception, SystemExit) as error:
        raise _broken(name, "made", error, "; it is made without arguments") from error
    wrong = _wrong_with(policy)
    if wrong:
        raise ConfigError(
            f"{name} is no policy: {', '.join(wrong)}; it needs name and unit, which are texts, and "
            "costs(request, candidates, rng): see warmroute.policy.protocol"
        )
    return policy


def _wrong_with(policy: Policy) -> list[str]:
    wrong = [f"it has no {part}" for part in ("name", "unit", "costs") if not hasattr(policy, part)]
    if wrong:
        return wrong
    wrong = [f"its {part} is no text" for part in ("name", "unit") if not isinstance(getattr(policy, part), str)]
    if inspect.iscoroutinefunction(policy.costs):
        wrong.append("its costs must not be async, as a decision waits for nothing")
    elif not _takes(policy.costs, "request", "candidates", "rng"):
        wrong.append("its costs takes other arguments")
    return wrong


def _takes(call: Callable[..., Any], *arguments: str) -> bool:
    """Whether `call` can be given so many arguments, by position."""
    try:
        inspect.signature(call).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # what is written in C may not tell
        return callable(call)
    return True


def _broken(name: str, verb: str, error: BaseException, hint: str = "") -> ConfigError:
    """`hint` is for an error that does not come from a line of the person's own."""
    told = " ".join(f"{type(error).__name__}: {error}".split())
    return ConfigError(f"the policy {name} cannot be {verb}: {told}{_where(error) or hint}")


def _where(error: BaseException) -> str:
    """The last line that an error came from, outside of this module; that of a syntax error stands in its text."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or not frames or frames[-1].filename == __file__:
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno})"
