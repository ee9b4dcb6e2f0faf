"""Traces in Mooncake's format: one JSON object a line, with a prompt's length and the ids of its blocks.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353, 2354]}

`timestamp` is in milliseconds. Equal ids stand for equal blocks behind equal prefixes, so every id becomes a text of
its own (kvcache-ai/Mooncake, FAST25-release/README.md). A last block may be shorter than the others.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from warmroute.errors import ConfigError
from warmroute.simulator.tokens import Joined, Text, Tokens
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.lines import read_records
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2, with_context
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage
from warmroute.simulator.workloads.window import Window

MOONCAKE_BLOCK_TOKENS = 512

_WORKERS = 8
_FEWEST_CONTEXT_TOKENS = 40_960
# Beyond these a line is a mistake, and would take all memory, or samples without end.
_LONGEST = 2**24  # tokens
_LONGEST_SPAN_S = 366 * 86_400.0


class _Line(msgspec.Struct, frozen=True):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int | str]


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """A recorded request: a time in seconds, lengths in tokens, the ids of the blocks that the prompt begins with."""

    at_s: float
    prompt_tokens: int
    answer_tokens: int
    block_ids: list[int | str]


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """Recorded requests, each a session of its own, as nothing says which of them belong together.

    window: the part that is played; None: all, at the speed at which it was recorded.
    jitter_s: what the recording has rounded times to; requests are spread that far.
    longest: prompts with answers of more tokens are left out.
    """

    requests: list[BlockRequest] = field(repr=False)
    block_tokens: int
    window: Window | None = None
    jitter_s: float = 0.0
    longest: int | None = None

    def sessions(self, seed: int) -> Iterator[Session]:
        rng = random.Random(seed_of(seed, "times"))
        window = self.window or Window(float("inf"))
        for number, (at_s, request) in enumerate(window.cut(self._fitting(rng), rng)):
            answer = Text(seed_of(seed, "answer", number), request.answer_tokens)
            yield Session(at_s, (Turn(self._prompt(request, seed, number), answer),))

    def _fitting(self, rng: random.Random) -> Iterator[BlockRequest]:
        for request in self.requests:
            if self.longest is None or request.prompt_tokens + request.answer_tokens <= self.longest:
                at_s = request.at_s + rng.uniform(0.0, self.jitter_s)
                yield BlockRequest(at_s, request.prompt_tokens, request.answer_tokens, request.block_ids)

    def _prompt(self, request: BlockRequest, seed: int, number: int) -> Tokens:
        parts, rest = list[Text](), request.prompt_tokens
        for block_id in request.block_ids:
            parts.append(Text(seed_of(seed, "block", block_id), min(rest, self.block_tokens)))
            rest -= parts[-1].count
        if rest:
            parts.append(Text(seed_of(seed, "tail", number), rest))
        return Joined(tuple(parts))


def read_block_trace(path: Path, block_tokens: int) -> list[BlockRequest]:
    """The requests of a file in Mooncake's format, in its order; times count from its earliest request.

    A prompt may have fewer ids than blocks: what follows them is like nothing else. An answer of no tokens counts as
    one, which every engine gives. ConfigError names the line that is wrong.
    """
    try:
        lines = read_records(path, _Line)
    except ConfigError as error:
        if not isinstance(error.__cause__, msgspec.ValidationError):
            raise
        raise ConfigError(
            f"{error}; Mooncake's format is read here, logs of other kinds by `warmroute replay`"
        ) from error
    earliest = min(line.timestamp for _, line in lines)
    return [_request(path, number, line, earliest, block_tokens) for number, line in lines]


def trace_file(path: Path, block_tokens: int = MOONCAKE_BLOCK_TOKENS) -> SingleStage:
    """The whole of a trace, on eight of the published benchmark's pods with room for its longest request."""
    requests = read_block_trace(path, block_tokens)
    longest = max(request.prompt_tokens + request.answer_tokens for request in requests)
    pod = with_context(QWEN_32B_H100_TP2, max(_FEWEST_CONTEXT_TOKENS, longest))
    about = f"{len(requests)} requests from a file in Mooncake's format, with blocks of {block_tokens} tokens"
    return SingleStage(path.name, about, FleetPlan((pod,) * _WORKERS), BlockTrace(requests, block_tokens))


def _request(path: Path, number: int, line: _Line, earliest_ms: float, block_tokens: int) -> BlockRequest:
    blocks = -(-line.input_length // block_tokens)
    if not (1 <= line.input_length <= _LONGEST and 0 <= line.output_length <= _LONGEST):
        raise ConfigError(
            f"{path}, line {number}: input_length must lie between 1 and {_LONGEST}, output_length between 0 and that"
        )
    if len(line.hash_ids) > blocks:
        raise ConfigError(
            f"{path}, line {number}: {len(line.hash_ids)} hash_ids, but {line.input_length} tokens are {blocks} blocks"
            f" of {block_tokens}; is it another block size?"
        )
    at_s = (line.timestamp - earliest_ms) / 1000
    if at_s > _LONGEST_SPAN_S:
        raise ConfigError(
            f"{path}, line {number}: its timestamp is {at_s / 86_400:,.0f} days after the earliest one; it counts"
            " milliseconds (`warmroute replay` shortens long pauses)"
        )
    return BlockRequest(at_s, line.input_length, max(1, line.output_length), line.hash_ids)
