"""A log as a workload: its requests at its times, or each after the answer before it in its session."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.engine_model import EngineOptions
from warmroute.request_log.blocks import BlockedRequest, Blocking
from warmroute.request_log.reading import open_log
from warmroute.simulator.logs.continuations import successors
from warmroute.simulator.logs.requests import read_all
from warmroute.simulator.tokens import Text
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn, Workload
from warmroute.simulator.workloads import scaled
from warmroute.simulator.workloads.seeds import seed_of


@dataclass(frozen=True, slots=True)
class BlockTokens:
    """`count` token ids that stand for a prompt of which the blocks are known: equal where its blocks are.

    rest_seed: of the tokens behind the last known block, which are like nothing else.
    """

    blocks: "array[int]" = field(repr=False)
    block_tokens: int
    count: int
    rest_seed: int

    def __len__(self) -> int:
        return self.count

    def ids(self) -> "array[int]":
        """Each block's ids are the two halves of its hash in turn."""
        halves, size = array("I", self.blocks.tobytes()), self.block_tokens
        made = array("I", bytes(halves.itemsize * len(self.blocks) * size))
        for place in range(size):
            made[place::size] = halves[place % 2 :: 2]
        lacking = self.count - len(made)
        return made + Text(self.rest_seed, lacking).ids() if lacking > 0 else made[: self.count]


@dataclass(frozen=True, slots=True)
class Part:
    """`count` ids of another text, from the one at `start` on; behind its end come ids that are like nothing else."""

    whole: BlockTokens
    start: int
    count: int
    rest_seed: int

    def __len__(self) -> int:
        return self.count

    def ids(self) -> "array[int]":
        made = self.whole.ids()[self.start : self.start + self.count]
        return made + Text(self.rest_seed, self.count - len(made)).ids() if len(made) < self.count else made


@dataclass(frozen=True, slots=True)
class LoggedWorkload:
    """Requests in the order of their times, on a fleet of `engine`s.

    closed_loop: a request of a session comes after the answer before it and the same pause as in the log, so that
    slower engines get it later. Without it every request comes when it came. Answers are as long as in the log, and
    what the next turn of their session repeats of them is in it (see `continuations.py`).
    """

    name: str
    about: str
    fleet: FleetPlan
    requests: Sequence[BlockedRequest] = field(repr=False)
    closed_loop: bool = False

    def stages(self, seed: int) -> Iterator[Stage]:
        """One stage, the same for every seed: nothing in a log is left to chance."""
        sessions = self._conversations() if self.closed_loop else self._single()
        yield Stage("log", sorted(sessions, key=lambda session: session.start_s))

    def _single(self) -> Iterator[Session]:
        begin_s, turns = self.requests[0].at_s, _Turns(self.requests)
        for number, request in enumerate(self.requests):
            yield Session(request.at_s - begin_s, (turns.turn(number, None, 0.0),), request.session)

    def _conversations(self) -> Iterator[Session]:
        begin_s, turns = self.requests[0].at_s, _Turns(self.requests)
        by_session: dict[str | None, list[int]] = {}
        for number, request in enumerate(self.requests):
            by_session.setdefault(request.session, []).append(number)
        for number in by_session.pop(None, []):
            yield Session(self.requests[number].at_s - begin_s, (turns.turn(number, None, 0.0),))
        for name, numbers in by_session.items():
            start_s = self.requests[numbers[0]].at_s
            yield Session(start_s - begin_s, turns.conversation(numbers), name)


class _Turns:
    """Turns of logged requests, by their positions."""

    def __init__(self, requests: Sequence[BlockedRequest]) -> None:
        self._requests = requests
        self._successors = successors(requests)

    def turn(self, number: int, after: int | None, wait_s: float) -> Turn:
        """The turn of one request."""
        request, successor = self._requests[number], self._successors[number]
        count, seed = max(1, request.answer_tokens or 1), seed_of("logged answer", number)
        if successor is None:
            return Turn(self._prompt(number), Text(seed, count), after, wait_s, request.max_tokens)
        whole, prompt_tokens = self._prompt(successor), request.prompt_tokens
        prompt = Part(whole, 0, prompt_tokens, seed)
        return Turn(prompt, Part(whole, prompt_tokens, count, seed), after, wait_s, request.max_tokens)

    def conversation(self, numbers: Sequence[int]) -> list[Turn]:
        """Each turn follows the one that had ended last when it came; requests side by side follow the same."""
        start_s = self._requests[numbers[0]].at_s
        turns, ends = list[Turn](), list[tuple[float, int]]()
        for position, number in enumerate(numbers):
            request = self._requests[number]
            before = max((end for end in ends if end[0] <= request.at_s), default=None)
            since_s = start_s if before is None else before[0]
            turns.append(self.turn(number, None if before is None else before[1], request.at_s - since_s))
            ends.append((request.at_s if request.ended_at_s is None else request.ended_at_s, position))
        return turns

    def _prompt(self, number: int) -> BlockTokens:
        request = self._requests[number]
        return BlockTokens(request.blocks, request.block_tokens, request.prompt_tokens, seed_of("logged rest", number))


@dataclass(frozen=True, slots=True)
class LogSource:
    """How a process comes by the workload of a log: from `path`, where it lies anonymized and ready to be played."""

    name: str
    path: Path
    engine: EngineOptions
    closed_loop: bool = False
    speed: float = 1.0
    duration_s: float | None = None

    def open(self) -> Workload:
        """The workload, for one worker; how many there are is said elsewhere."""
        reading, requests = open_log(str(self.path), "anonymized")
        log = read_all(reading, requests, Blocking(), keep_times=True)
        about = f"{len(log.requests)} requests of a log"
        workload = LoggedWorkload(self.name, about, FleetPlan((self.engine,)), log.requests, self.closed_loop)
        return scaled(workload, self.speed, self.duration_s)
