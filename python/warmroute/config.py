"""One declaration per option: a dataclass field gives the default, the type, the help, the variable and the flag.

    @dataclass(frozen=True, slots=True)
    class ServeConfig:
        port: int = option(8080, "port to listen on")

makes `--port`, `WARMROUTE_PORT` and the key `port` of a TOML file, in rising order of weight: default, file,
environment, command line. Unknown keys are errors that name the nearest known one.
"""

import argparse
import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from warmroute.errors import ConfigError

ConfigT = TypeVar("ConfigT")
_ENV_PREFIX = "WARMROUTE_"
_METADATA_KEY = "warmroute.option"

# What a time in seconds may be: anything that a timer can wait for. Beyond it stand typing errors, NaN and infinity.
SHORTEST_S = 0.001
LONGEST_S = 1e7


@dataclass(frozen=True, slots=True)
class _Option:
    help: str
    flag: str | None
    env: str | None
    choices: tuple[str, ...]
    metavar: str | None
    live: bool
    words: tuple[str, ...]


def option(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    env: str | None = None,
    choices: Iterable[str] = (),
    metavar: str | None = None,
    live: bool = False,
    words: Iterable[str] = (),
) -> Any:
    """A dataclass field that is also a flag, a variable and a key of the file.

    `flag` and `env` override the derived names (`--snake-case`, `WARMROUTE_SNAKE_CASE`). Field types: str, int,
    float, bool, one of these or None, and `tuple[str, ...]` (a flag that may be repeated). `live`: a running router
    takes a new value over; without it a change needs a restart. `words` may stand where else a number does: the type
    is then `int | str`.
    """
    declared = _Option(help, flag, env, tuple(choices), metavar, live, tuple(words))
    return dataclasses.field(default=default, metadata={_METADATA_KEY: declared})


def add_arguments(parser: argparse._ActionsContainer, config_class: type[Any]) -> None:
    """Give `parser` one flag for each option of `config_class`; flags not given leave no trace in the namespace."""
    for field, declared, kind in _options(config_class):
        parser.add_argument(_flag(field, declared), **_argument(field, declared, kind))


def from_namespace(
    config_class: type[ConfigT],
    namespace: argparse.Namespace,
    *,
    environ: Mapping[str, str] | None = None,
    file_values: Mapping[str, Any] | None = None,
    **fixed: Any,
) -> ConfigT:
    """Build `config_class` from its defaults, `file_values`, `environ` and the flags in `namespace`.

    `fixed` gives fields that are no options. A file may serve several classes, so keys of others are passed over
    here: `reject_unknown_keys` is for them. Raises ConfigError for a value of the wrong type or an unknown choice.
    """
    values: dict[str, Any] = dict(fixed)
    given = dict(file_values or {})
    for field, declared, kind in _options(config_class):
        variable = declared.env or _ENV_PREFIX + field.name.upper()
        if field.name in given:
            values[field.name] = _typed(given[field.name], kind, declared, f"key '{field.name}'")
        if environ and variable in environ and not _is_service_link(environ[variable], kind):
            values[field.name] = _parsed(environ[variable], kind, declared, variable)
        if hasattr(namespace, field.name):
            values[field.name] = _listed(getattr(namespace, field.name))
    return config_class(**values)


def option_names(*config_classes: type[Any]) -> list[str]:
    """The keys that a file may hold for these classes."""
    return [field.name for config_class in config_classes for field, _, _ in _options(config_class)]


def changed_options(old: ConfigT, new: ConfigT) -> tuple[list[str], list[str]]:
    """The options whose values differ: those that a running router takes over, and those that need a restart."""
    live: list[str] = []
    fixed: list[str] = []
    for field, declared, _ in _options(type(old)):
        if getattr(old, field.name) != getattr(new, field.name):
            (live if declared.live else fixed).append(field.name)
    return live, fixed


def reject_unknown_keys(given: Iterable[str], known: Iterable[str], *, where: str) -> None:
    """Raise ConfigError for the first key of `given` that is not in `known`, naming the nearest known key."""
    known_keys = list(known)
    for key in given:
        if key not in known_keys:
            raise ConfigError(f"unknown key '{key}' in {where}{nearest(key, known_keys)}")


def check_range(options: Any, least: float, most: float, *names: str) -> None:
    """Raise ConfigError for the first of the named options that lies outside `least` .. `most`; NaN lies nowhere."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            raise ConfigError(f"{name} must lie between {least:g} and {most:g}, not {value}")


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or the list of what exists."""
    candidates = sorted(known)
    close = difflib.get_close_matches(word, candidates, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known: {', '.join(candidates)}"


def _options(config_class: type[Any]) -> list[tuple["dataclasses.Field[Any]", _Option, Any]]:
    hints = typing.get_type_hints(config_class)
    return [
        (field, field.metadata[_METADATA_KEY], hints[field.name])
        for field in dataclasses.fields(config_class)
        if _METADATA_KEY in field.metadata
    ]


def _flag(field: "dataclasses.Field[Any]", declared: _Option) -> str:
    return declared.flag or "--" + field.name.replace("_", "-")


def _argument(field: "dataclasses.Field[Any]", declared: _Option, kind: Any) -> dict[str, Any]:
    argument: dict[str, Any] = {
        "dest": field.name,
        "default": argparse.SUPPRESS,
        "help": _help(field, declared),
    }
    if kind is bool:
        return argument | {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(kind) is tuple:
        argument["action"] = "append"
    if declared.choices:
        argument["choices"] = declared.choices
    return argument | {"type": _or_word(_scalar(kind), declared), "metavar": declared.metavar}


def _help(field: "dataclasses.Field[Any]", declared: _Option) -> str:
    text = declared.help.replace("%", "%%")
    if field.default in (None, (), "") or isinstance(field.default, bool):
        return text
    return f"{text} (default: {field.default})"


def _is_service_link(text: str, kind: Any) -> bool:
    """Kubernetes sets WARMROUTE_PORT=tcp://10.96.0.7:8080 in every pod beside a Service named warmroute."""
    return text.startswith("tcp://") and _scalar(kind) is not str


def _scalar(kind: Any) -> Callable[[str], Any]:
    """The plain type behind `kind`: `int | None` and `tuple[int, ...]` are made of ints."""
    if typing.get_origin(kind) in (tuple, types.UnionType, typing.Union):
        return next(part for part in typing.get_args(kind) if part not in (type(None), Ellipsis))  # type: ignore[no-any-return]
    return kind  # type: ignore[no-any-return]


def _or_word(scalar: Callable[[str], Any], declared: _Option) -> Callable[[str], Any]:
    if not declared.words:
        return scalar

    def number_or_word(text: str) -> Any:
        return text if text in declared.words else scalar(text)

    return number_or_word


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _parsed(text: str, kind: Any, declared: _Option, source: str) -> Any:
    if kind is bool:
        if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
            raise ConfigError(f"{source} must be true or false, not '{text}'")
        return text.lower() in ("1", "true", "yes", "on")
    scalar = _scalar(kind)
    if typing.get_origin(kind) is tuple:
        return tuple(_converted(part.strip(), scalar, declared, source) for part in text.split(",") if part.strip())
    return _converted(text, scalar, declared, source)


def _typed(value: Any, kind: Any, declared: _Option, source: str) -> Any:
    scalar = _scalar(kind)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{source} must be a list")
        return tuple(_of_type(part, scalar, declared, source) for part in value)
    return _of_type(value, scalar, declared, source)


def _of_type(value: Any, scalar: Any, declared: _Option, source: str) -> Any:
    if value in declared.words:
        return value
    if scalar is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, scalar) or (isinstance(value, bool) and scalar is not bool):
        raise ConfigError(f"{source} must be of type {scalar.__name__}, not {value!r}")
    _check_choice(value, declared, source)
    return value


def _converted(text: str, scalar: Callable[[str], Any], declared: _Option, source: str) -> Any:
    try:
        value = _or_word(scalar, declared)(text)
    except ValueError as error:
        raise ConfigError(f"{source} must be of type {getattr(scalar, '__name__', scalar)}, not '{text}'") from error
    _check_choice(value, declared, source)
    return value


def _check_choice(value: Any, declared: _Option, source: str) -> None:
    if declared.choices and value not in declared.choices:
        raise ConfigError(f"{source} cannot be '{value}'{nearest(str(value), declared.choices)}")
