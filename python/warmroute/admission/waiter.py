"""One request that waits for a worker with room."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Waiter:
    """What decides on a request's turn; times are seconds, `deadline` and `arrived_at` of one monotonic clock.

    work_s: the prefill that is left for it on the best worker.
    number, waiting: the queue's own.
    """

    model: str | None
    tenant: str
    priority: int
    work_s: float
    arrived_at: float
    deadline: float
    number: int = field(default=0, init=False)
    waiting: bool = field(default=False, init=False)
