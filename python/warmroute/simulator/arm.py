"""What is compared: a policy, and what stands around it where it is at home."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warmroute.policy import Policy


@dataclass(frozen=True, slots=True)
class Knob:
    """A policy's main setting: its published default, the values that are tried, and how a policy is made with one."""

    name: str
    default: float
    values: Sequence[float]
    make: Callable[[float], Policy]


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison.

    make: a new policy, with its published defaults. One that is a `RouterObserver` as well is told what the router
    decided and what became of it.
    scrape_interval_s: between two looks at the workers' metrics.
    hears_events: the router hears KV events; else it guesses caches from what it sent, as ours does then.
    holds_back: requests wait in the router while every worker is full, as ours does.
    source: where algorithm and defaults are published.
    """

    name: str
    about: str
    make: Callable[[], Policy]
    source: str
    scrape_interval_s: float = 1.0
    hears_events: bool = True
    holds_back: bool = False
    knob: Knob | None = None
