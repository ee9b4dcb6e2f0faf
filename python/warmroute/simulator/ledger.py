"""What is written down of a simulation: a row for each request, and gauges at equal distances."""

from array import array
from dataclasses import dataclass, field

NOT_YET = -1.0
NOBODY = -1


@dataclass(slots=True)
class Requests:
    """One row per request, in the order of arrival; times in seconds, `NOT_YET` where that did not happen.

    cached: prompt tokens that the engine did not compute. predicted: those that the router had expected.
    worker: the position of the worker that answered, `NOBODY` where none did. failed: why, in one word; "" where whole.
    """

    stage: "array[int]" = field(default_factory=lambda: array("l"))
    arrived_at: "array[float]" = field(default_factory=lambda: array("d"))
    sent_at: "array[float]" = field(default_factory=lambda: array("d"))
    first_at: "array[float]" = field(default_factory=lambda: array("d"))
    ended_at: "array[float]" = field(default_factory=lambda: array("d"))
    prompt_tokens: "array[int]" = field(default_factory=lambda: array("l"))
    output_tokens: "array[int]" = field(default_factory=lambda: array("l"))
    cached: "array[int]" = field(default_factory=lambda: array("l"))
    predicted: "array[int]" = field(default_factory=lambda: array("l"))
    worker: "array[int]" = field(default_factory=lambda: array("l"))
    failed: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.failed)

    def begin(self, stage: int, now: float, prompt_tokens: int) -> int:
        """A new row; its number."""
        self.stage.append(stage)
        self.arrived_at.append(now)
        for times in (self.sent_at, self.first_at, self.ended_at):
            times.append(NOT_YET)
        self.prompt_tokens.append(prompt_tokens)
        for counts in (self.output_tokens, self.cached, self.predicted):
            counts.append(0)
        self.worker.append(NOBODY)
        self.failed.append("")
        return len(self.failed) - 1


@dataclass(slots=True)
class Gauges:
    """Samples of the whole fleet. At each of `at` (seconds): `held` requests waited in the router, and of each worker,
    by its position, `running` and `waiting` requests and the share `kv_usage` of its blocks in use.

    A worker that joins later has fewer samples: the last ones.
    """

    at: "array[float]" = field(default_factory=lambda: array("d"))
    stage: "array[int]" = field(default_factory=lambda: array("l"))
    held: "array[int]" = field(default_factory=lambda: array("l"))
    running: "list[array[int]]" = field(default_factory=list)
    waiting: "list[array[int]]" = field(default_factory=list)
    kv_usage: "list[array[float]]" = field(default_factory=list)

    def add_worker(self) -> None:
        """One more worker is sampled from now on."""
        self.running.append(array("l"))
        self.waiting.append(array("l"))
        self.kv_usage.append(array("d"))

    def sample(self, worker: int, running: int, waiting: int, kv_usage: float) -> None:
        self.running[worker].append(running)
        self.waiting[worker].append(waiting)
        self.kv_usage[worker].append(kv_usage)


@dataclass(slots=True)
class Ledger:
    """All that is known of one simulation once it is over."""

    requests: Requests = field(default_factory=Requests)
    gauges: Gauges = field(default_factory=Gauges)
    stage_names: list[str] = field(default_factory=list)
