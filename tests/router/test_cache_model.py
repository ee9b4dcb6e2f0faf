"""What is believed of a worker without KV events is what such an engine does."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_model.worlds import Run, options
from router.fleet import MODEL
from router.naive_cache import NaiveCache
from warmroute.engine_model import EngineModel, Request
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Decision, Outcome, Router, RouteRequest
from warmroute.worker import WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

_SIZE = 4
_CAPACITY = 24

Serve = Callable[[Sequence[int], Sequence[int]], int]


class Blind:
    """A router and a worker that publishes nothing; `serve` is its engine: prompt and answer in, cached tokens out."""

    def __init__(self, serve: Serve, capacity: int = _CAPACITY, reports: bool = True) -> None:
        self.router = Router(WorkerTable(), PrefixIndex(), POLICIES["warmroute"]())
        self.worker = self.router.add_worker(WorkerSpec("http://blind:1"))
        self.router.learn(self.worker, WorkerFacts({MODEL: False}, _SIZE, capacity))
        self.router.table.set_status(self.worker, WorkerStatus.READY)
        self.serve = serve
        self.reports = reports
        self.now = 0.0

    def dispatch(self, prompt: Sequence[int]) -> Decision:
        self.now += 1.0
        request = RouteRequest("r", MODEL, list(prompt), len(prompt), True)
        decision = self.router.route(request, self.now, random.Random(0))
        assert isinstance(decision, Decision)
        return decision

    def ask(self, prompt: Sequence[int], answer: Sequence[int]) -> tuple[int, int]:
        """One request after the other: predicted and reported cached tokens."""
        decision = self.dispatch(prompt)
        cached = self.serve(prompt, answer)
        reported = cached if self.reports else None
        ended = Outcome(True, False, self.now, self.now, 200, len(prompt), len(answer), reported)
        self.router.settle(decision, ended)
        self.router.index.check_integrity()
        return decision.cached_tokens, cached


def engine(capacity: int = _CAPACITY) -> Serve:
    """The engine model, one request at a time."""
    model = EngineModel(options(num_blocks=capacity, max_model_len=capacity * _SIZE))
    names = iter(range(1_000_000))

    def serve(prompt: Sequence[int], answer: Sequence[int]) -> int:
        name = str(next(names))
        model.submit(Request(name, list(prompt), list(answer)), 0.0)
        return Run(model).all().cached[name]

    return serve


class Talk:
    """Conversations over one system prompt; each turn says something new, and so does each answer."""

    def __init__(self, system: int) -> None:
        self.system = list(range(900, 900 + system))
        self.turns: dict[int, list[int]] = {}
        self._next = 1000

    def fresh(self, count: int) -> list[int]:
        self._next += count
        return list(range(self._next - count, self._next))

    def turn(self, conversation: int, said: int, answered: int, limit: int) -> tuple[list[int], list[int]]:
        """The next turn of a conversation, or its first one once it has grown too long."""
        prompt = [*self.turns.get(conversation, self.system), *self.fresh(said)]
        if len(prompt) + answered > limit:
            prompt = [*self.system, *self.fresh(said)]
        answer = self.fresh(answered)
        self.turns[conversation] = prompt + answer
        return prompt, answer


_TURNS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 13), st.integers(1, 17)),  # conversation, tokens said, tokens answered
    max_size=40,
)


@pytest.mark.parametrize("kind", ["naive", "engine"])
@given(turns=_TURNS, system=st.integers(_SIZE, 13), reports=st.booleans())
def test_conversations_are_predicted_exactly_evictions_included(
    kind: str, turns: list[tuple[int, int, int]], system: int, reports: bool
) -> None:
    serve = NaiveCache(_CAPACITY, _SIZE).serve if kind == "naive" else engine()
    blind, talk = Blind(serve, reports=reports), Talk(system)
    for conversation, said, answered in turns:
        predicted, cached = blind.ask(*talk.turn(conversation, said, answered, _CAPACITY * _SIZE))
        assert predicted == cached
