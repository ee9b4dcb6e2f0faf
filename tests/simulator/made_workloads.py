"""Small workloads whose every request is known, for tests of what is done with workloads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from warmroute.engine_model import EngineOptions
from warmroute.simulator.tokens import Joined, Text
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn, Workload

ENGINE = EngineOptions(block_size=16, num_blocks=1_000)


def turn(prefix: int, prefix_tokens: int, own: int, own_tokens: int, answer_tokens: int = 4, **more: object) -> Turn:
    """A prompt of a shared text and one of its own."""
    prompt = Joined((Text(prefix, prefix_tokens), Text(10_000 + own, own_tokens)))
    return Turn(prompt, Text(20_000 + own, answer_tokens), **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Made:
    """Exactly these stages, whatever the seed."""

    made: tuple[Stage, ...]
    fleet: FleetPlan = field(default_factory=lambda: FleetPlan((ENGINE, ENGINE)))
    name: str = "made"
    about: str = "made by hand"

    def stages(self, seed: int) -> Iterator[Stage]:
        yield from self.made


@dataclass(frozen=True, slots=True)
class Shared:
    """Requests behind a few shared prefixes, one every `gap_s`; a source that any process can open."""

    requests: int = 40
    gap_s: float = 0.05
    name: str = "shared"
    speed: float = 1.0
    duration_s: float | None = None

    def open(self) -> Workload:
        sessions = [
            Session(number * self.gap_s, (turn(number % 4, 320, number, 64),), f"s{number}")
            for number in range(self.requests)
        ]
        return Made((Stage("warm-up", sessions[:4], counted=False), Stage("play", sessions[4:], rate=1 / self.gap_s)))


def write_trace(path: Path, requests: int = 60, prefixes: Sequence[int] = (0, 1, 2, 3)) -> Path:
    """A trace in Mooncake's format, a request every 50 ms: two blocks of a shared prefix and one of its own."""
    lines = [
        msgspec.json.encode(
            {
                "timestamp": 50 * number,
                "input_length": 1300,
                "output_length": 8,
                "hash_ids": [*(10 * prefixes[number % len(prefixes)] + block for block in range(2)), 1000 + number],
            }
        )
        for number in range(requests)
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path
