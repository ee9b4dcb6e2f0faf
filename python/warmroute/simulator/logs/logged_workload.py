"""A log as a workload: its requests at its times, or each after the answer before it in its session."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from warmroute.engine_model import EngineOptions
from warmroute.simulator.logs.blocks import BlockedRequest, Blocking
from warmroute.simulator.logs.reading import open_log
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
class LoggedWorkload:
    """Requests in the order of their times, on a fleet of `engine`s.

    closed_loop: a request of a session comes after the answer before it and the same pause as in the log, so that
    slower engines get it later. Without it every request comes when it came. Answers are as long as in the log.
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
        begin_s = self.requests[0].at_s
        for number, request in enumerate(self.requests):
            yield Session(request.at_s - begin_s, (_turn(number, request, None, 0.0),), request.session)

    def _conversations(self) -> Iterator[Session]:
        begin_s = self.requests[0].at_s
        numbered = sorted(enumerate(self.requests), key=lambda each: (each[1].session or "", each[0]))
        for name, group in groupby(numbered, key=lambda each: each[1].session):
            if name is None:
                for number, request in group:
                    yield Session(request.at_s - begin_s, (_turn(number, request, None, 0.0),))
            else:
                yield _conversation(name, list(group), begin_s)


def _conversation(name: str, numbered: Sequence[tuple[int, BlockedRequest]], begin_s: float) -> Session:
    """Each turn follows the one that had ended last when it came; requests side by side follow the same."""
    start_s = numbered[0][1].at_s
    turns = list[Turn]()
    ends = list[tuple[float, int]]()
    for position, (number, request) in enumerate(numbered):
        before = max((end for end in ends if end[0] <= request.at_s), default=None)
        since_s = start_s if before is None else before[0]
        turns.append(_turn(number, request, None if before is None else before[1], request.at_s - since_s))
        ends.append((request.at_s if request.ended_at_s is None else request.ended_at_s, position))
    return Session(start_s - begin_s, turns, name)


def _turn(number: int, request: BlockedRequest, after: int | None, wait_s: float) -> Turn:
    prompt = BlockTokens(request.blocks, request.block_tokens, request.prompt_tokens, seed_of("logged rest", number))
    answer = Text(seed_of("logged answer", number), max(1, request.answer_tokens or 1))
    return Turn(prompt, answer, after, wait_s, request.max_tokens)


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
