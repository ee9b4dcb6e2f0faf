"""Small sessions, and what the tests look at."""

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from warmroute.block import Namespace, hash_blocks
from warmroute.simulator.tokens import Tokens
from warmroute.simulator.workload import Session, Turn, Workload

TRACES = Path(__file__).resolve().parents[3] / "../shared/traces"

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the recorded traces are not beside this checkout")


def text(length: int, start: int = 0) -> "array[int]":
    """Ids that count up from `start`."""
    return array("I", range(start, start + length))


def turns(sessions: Iterable[Session]) -> list[Turn]:
    """All turns, session by session."""
    return [turn for session in sessions for turn in session.turns]


def only_stage(workload: Workload, seed: int = 1) -> Sequence[Session]:
    """The sessions of a workload of one stage."""
    (stage,) = workload.stages(seed)
    return stage.sessions


def shared_tokens(one: Tokens, other: Tokens) -> int:
    """How many ids both begin with."""
    first, second = one.ids(), other.ids()
    return next(
        (place for place, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first)
    )


def shared_blocks(one: Tokens, other: Tokens, block_size: int = 64) -> int:
    """How many leading blocks both have, as an engine and the router would find."""
    hashes = [hash_blocks(tokens.ids(), block_size, Namespace()) for tokens in (one, other)]
    return sum(1 for ours, theirs in zip(*hashes, strict=False) if ours == theirs)
