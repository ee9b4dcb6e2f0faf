"""Times in logs: seconds, milliseconds and finer since 1970, ISO 8601, and what web servers write."""

import math
from datetime import UTC, datetime
from typing import Any

from warmroute.request_log.request import BrokenLine

# A number of seconds above a limit would lie beyond the year 5000, so it counts something finer.
_FINER = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_WEB_SERVER = "%d/%b/%Y:%H:%M:%S %z"


def seconds(value: Any) -> float:
    """The time in seconds since 1970, or since the log's own beginning where it counts from there.

    What names no zone is taken as UTC. Raises BrokenLine.
    """
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BrokenLine(f"its time is {_kind(value)}, neither a number nor a text")
    return _of_number(value)


def _of_number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise BrokenLine("its time is beyond all clocks") from error
    if not math.isfinite(number) or abs(number) > 1e20:
        raise BrokenLine("its time is beyond all clocks")
    return next((number / finer for limit, finer in _FINER if abs(number) > limit), number)


def _of_text(text: str) -> float:
    try:
        return _of_number(float(text))
    except ValueError:
        pass  # No number; then it is a date.
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = _of_web_server(text)
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def _of_web_server(text: str) -> datetime:
    try:
        return datetime.strptime(text, _WEB_SERVER)
    except ValueError as error:
        raise BrokenLine("its time is neither a number nor a date as in ISO 8601") from error


def _kind(value: Any) -> str:
    return {bool: "true or false", list: "a list", dict: "an object"}.get(type(value), "null")
