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


def test_the_answer_is_found_by_the_prompt_that_goes_on_after_it() -> None:
    blind, talk = Blind(engine()), Talk(4)
    blind.ask(*talk.turn(0, 5, 12, 96))
    assert blind.ask(*talk.turn(0, 3, 1, 96)) == (20, 20)  # 9 + 12 tokens, the last of which is in no block


def test_answers_of_unknown_length_are_not_counted_on() -> None:
    blind, talk = Blind(lambda _prompt, _answer: 0, reports=False), Talk(4)
    decision = blind.dispatch(talk.turn(0, 5, 12, 96)[0])
    blind.router.settle(decision, Outcome(True, False, 1.0, 1.0, 200))
    assert blind.ask(*talk.turn(0, 3, 1, 96))[0] == 8


def test_a_prompt_that_differs_before_the_answer_does_not_find_it() -> None:
    blind = Blind(engine())
    blind.ask([1, 2, 3, 4, 5, 6], range(100, 110))
    assert blind.ask([1, 2, 3, 4, 5, 7, *range(100, 110)], [8]) == (4, 4)


def test_of_several_prompts_with_the_same_blocks_each_finds_its_own_answer() -> None:
    blind = Blind(engine())
    ends = {end: list(range(100 * end, 100 * end + end + 6)) for end in (5, 6, 7)}
    for end, answer in ends.items():
        blind.ask([1, 2, 3, 4, end], answer)
    for end, answer in ends.items():
        predicted, cached = blind.ask([1, 2, 3, 4, end, *answer, 9, 9, 9, 9], [8])
        assert predicted == cached == (5 + len(answer) - 1) // 4 * 4


def test_answers_that_are_never_taken_up_are_soon_not_counted_on_and_counted_on_again_when_they_are() -> None:
    """Chat templates drop the reasoning of earlier turns: then no prompt contains the answer that was generated."""
    blind, talk = Blind(engine(200)), Talk(4)
    errors = []
    for conversation in range(8):
        prompt, _ = talk.turn(conversation, 5, 12, 800)
        blind.ask(prompt, talk.fresh(12))  # reasoning, which no later prompt contains
        predicted, cached = blind.ask(*talk.turn(conversation, 3, 1, 800))
        errors.append(predicted - cached)
    assert errors == [12, 12, 12, 0, 0, 0, 0, 0]
    for conversation in range(8, 12):
        blind.ask(*talk.turn(conversation, 5, 12, 800))
        predicted, cached = blind.ask(*talk.turn(conversation, 3, 1, 800))
        errors.append(predicted - cached)
    assert errors[8:] == [-12, 0, 0, 0]


def test_an_engine_that_keeps_nothing_is_believed_after_a_few_reports() -> None:
    blind = Blind(lambda _prompt, _answer: 0)
    assert [blind.ask(range(13), [1])[0] for _ in range(8)] == [0, 12, 12, 12, 0, 0, 0, 0]
    blind.serve = NaiveCache(_CAPACITY, _SIZE).serve  # it was told to keep them from now on
    assert [blind.ask(range(13), [1]) for _ in range(4)] == [(0, 0), (0, 12), (12, 12), (12, 12)]


def test_one_short_report_does_not_unlearn_what_the_engine_has_just_computed() -> None:
    blind = Blind(NaiveCache(8, _SIZE).serve, capacity=100)  # smaller than told
    for start in (0, 100):
        blind.ask(range(start, start + 29), [1])
    assert blind.ask(range(29), [1]) == (28, 0)
    assert blind.ask(range(29), [1]) == (28, 28)


def test_missing_figures_correct_nothing() -> None:
    blind = Blind(lambda _prompt, _answer: 0, reports=False)
    assert [blind.ask(range(13), [1])[0] for _ in range(8)] == [0] + [12] * 7


def test_a_worker_that_was_away_is_taken_as_empty() -> None:
    blind = Blind(NaiveCache(_CAPACITY, _SIZE).serve)
    talk = Talk(4)
    blind.ask(*talk.turn(0, 5, 12, 96))
    blind.router.came_up(blind.worker)
    assert blind.ask(*talk.turn(0, 3, 1, 96))[0] == 0


@pytest.mark.parametrize("status", [None, 400, 503])
def test_a_request_that_was_never_computed_leaves_nothing_behind(status: int | None) -> None:
    blind, talk = Blind(engine()), Talk(4)
    blind.ask(*talk.turn(0, 5, 12, 96))
    prompt, answer = talk.turn(0, 30, 1, 96)
    for _ in range(3):
        decision = blind.dispatch(prompt)
        assert decision.cached_tokens == 20
        blind.router.settle(decision, Outcome(status is not None, status is None, blind.now, status=status))
    assert blind.ask(prompt, answer) == (20, 20), "the answer before it is still there"


def test_once_events_are_heard_guesses_end() -> None:
    blind = Blind(engine())
    blind.ask(range(13), [1])
    lane = blind.worker.lanes[0]
    blind.router.expect_events(lane, True)
    assert blind.dispatch(range(13)).cached_tokens == 0
    assert lane.followed


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 9), st.sampled_from("sdfr"))))
def test_any_interleaving_keeps_the_index_whole_and_within_the_capacity(
    steps: list[tuple[int, int, int, str]],
) -> None:
    blind, talk = Blind(lambda _prompt, _answer: 0), Talk(4)
    waiting: list[tuple[Decision, int]] = []
    for conversation, said, answered, action in steps:
        if action == "s" or not waiting:
            prompt, answer = talk.turn(conversation, said, answered, _CAPACITY * _SIZE)
            waiting.append((blind.dispatch(prompt), len(answer)))
        elif action == "r":
            blind.router.came_up(blind.worker)
        else:
            decision, tokens = waiting.pop(said % len(waiting))
            cached = None if answered == 0 else said * _SIZE
            ended = Outcome(action == "d", action == "f", blind.now, None, None, None, tokens, cached)
            blind.router.settle(decision, ended)
        blind.router.index.check_integrity()
        assert blind.router.index.blocks(blind.worker.lanes[0].key) <= _CAPACITY


def test_answers_are_remembered_for_so_many_prompts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmroute.cache_model._MOST_ENDS", 2)
    blind, talk = Blind(lambda _prompt, _answer: 0, capacity=1_000, reports=False), Talk(4)
    for conversation in range(3):
        blind.ask(*talk.turn(conversation, 5, 12, 4_000))
    predicted = [blind.ask(*talk.turn(conversation, 3, 1, 4_000))[0] for conversation in range(3)]
    assert predicted == [8, 20, 20], "of the first only the prompt is found again"
