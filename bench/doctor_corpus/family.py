"""A family of the corpus: requests that ought to share a prefix, and what is known to be wrong with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from bench.doctor_corpus.application import Application
from bench.doctor_corpus.asked import Asked, JsonObject

from warmroute.doctor import Kind, Logged


@dataclass(frozen=True, slots=True)
class Expected:
    """A finding that is right: its kind, and the fields, or parents of the field, at which it may lie."""

    kind: Kind
    fields: tuple[str, ...]

    def is_at(self, field_name: str) -> bool:
        """Whether a finding's field lies within one of those expected."""
        return any(field_name == each or field_name.startswith((f"{each}.", f"{each}[")) for each in self.fields)


@dataclass(frozen=True, slots=True)
class Case:
    """What a scenario has made up: the requests as they were sent, and the same without the fault.

    healthy: equal to `sent` where nothing is wrong.
    """

    application: Application
    sent: Sequence[Asked]
    healthy: Sequence[Asked]
    expected: tuple[Expected, ...] = ()


Scenario = Callable[[Random], Case]


@dataclass(frozen=True, slots=True)
class Family:
    """name: kind, scenario and number. times_s: of each request, whether or not its envelope tells it.

    healthy: each body without the fault. expected: the findings that there ought to be, none where all is well.
    """

    name: str
    scenario: str
    language: str
    requests: list[Logged] = field(repr=False)
    times_s: list[float] = field(repr=False)
    healthy: list[JsonObject] = field(repr=False)
    expected: tuple[Expected, ...]
