"""A candidate with one figure moved is one that could be, and has all else as it was."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from diagnostics.decided import BLOCK, candidate, candidates
from warmroute.block import Overlap
from warmroute.diagnostics.lever import Figure, Lever, idle, towards_the_best, towards_the_worst
from warmroute.policy import Candidate
from warmroute.worker import LARGEST_COUNT, Load

PROMPT = 10 * BLOCK


def lever(of: Candidate, figure: Figure, *, best: bool) -> Lever:
    """The candidate's lever for a figure."""
    levers = towards_the_best(of) if best else towards_the_worst(of)
    return next(each for each in levers if each.figure is figure)


def test_blocks_that_come_lie_on_the_gpu_up_to_that_of_the_last_token() -> None:
    cached = lever(candidate(0, PROMPT, Overlap(device=2, host=1)), Figure.CACHED_TOKENS, best=True)
    assert cached.steps == 6, "the last token is always computed, and its block with it"
    assert (cached.moved(4).overlap, cached.moved(4).cached_tokens) == (Overlap(device=6, host=1), 7 * BLOCK)
    assert cached.moved(6).uncached_tokens == BLOCK


def test_blocks_that_go_are_the_expected_ones_then_the_furthest() -> None:
    of = candidate(0, PROMPT + 1, Overlap(device=2, host=1, disk=1, remote=1, predicted=2))
    cached = lever(of, Figure.CACHED_TOKENS, best=False)
    assert cached.steps == 7
    overlaps = [cached.moved(steps).overlap for steps in (2, 3, 5, 6, 7)]
    assert overlaps == [
        Overlap(device=2, host=1, disk=1, remote=1),
        Overlap(device=2, host=1, disk=1),
        Overlap(device=2),
        Overlap(device=1),
        Overlap(),
    ]


def test_of_what_a_session_left_whole_blocks_come_and_go_as_well() -> None:
    of = replace(candidate(0, PROMPT), cached_tokens=4 * BLOCK + 5)
    more, less = (lever(of, Figure.CACHED_TOKENS, best=best) for best in (True, False))
    assert (more.moved(1).cached_tokens, more.moved(1).overlap) == (5 * BLOCK, Overlap(device=5))
    assert (less.moved(1).cached_tokens, less.moved(1).overlap) == (3 * BLOCK, Overlap())


def test_who_waits_in_the_engine_is_the_first_to_go_and_the_last_to_come() -> None:
    of = candidate(0, PROMPT, load=Load(requests=9, decoding=4, queued_tokens=70, waiting=3))
    fewer, more = (lever(of, Figure.REQUESTS, best=best) for best in (True, False))
    assert fewer.steps == 9
    assert fewer.moved(2).load == Load(7, 4, 70, 1)
    assert fewer.moved(5).load == Load(4, 2, 70, 0)
    assert fewer.moved(9).load == Load(0, 0, 70, 0)
    assert more.moved(2).load == Load(11, 4, 70, 5)


def test_where_nobody_waits_streams_come_and_go() -> None:
    of = candidate(0, PROMPT, load=Load(requests=5, decoding=4, queued_tokens=70))
    fewer, more = (lever(of, Figure.REQUESTS, best=best) for best in (True, False))
    assert fewer.moved(2).load == Load(3, 2, 70)
    assert more.moved(2).load == Load(7, 6, 70)


def test_queued_tokens_stand_as_deep_in_their_prompts_as_those_that_are_there() -> None:
    of = candidate(0, PROMPT, load=Load(requests=1, queued_tokens=100, queued_attended=5_000))
    fewer, more = (lever(of, Figure.QUEUED_TOKENS, best=best) for best in (True, False))
    assert fewer.moved(40).load == Load(1, 0, 60, 0, 3_000)
    assert more.moved(100).load == Load(1, 0, 200, 0, 10_000)
    first = lever(candidate(0, PROMPT), Figure.QUEUED_TOKENS, best=False)
    assert first.moved(10).load == Load(0, 0, 10, 0, 10 * PROMPT // 2)


def test_what_cannot_become_better_or_worse_is_no_lever() -> None:
    best = candidate(0, PROMPT, Overlap(device=10))
    assert towards_the_best(best) == ()
    assert [each.figure for each in towards_the_worst(best)] == list(Figure)
    assert Figure.CACHED_TOKENS not in [each.figure for each in towards_the_worst(candidate(0, PROMPT))]
    assert towards_the_best(candidate(0, 0)) == ()


def test_an_idle_worker_holds_what_it_held() -> None:
    of = candidate(0, PROMPT, Overlap(device=3), Load(4, 2, 90, 1, 50))
    assert idle(of) == replace(of, load=Load())


@given(candidates(1_000, 0), st.data())
def test_each_step_moves_its_figure_alone_and_the_first_ones_least(of: Candidate, data: st.DataObject) -> None:
    moving = data.draw(st.sampled_from([*towards_the_best(of), *towards_the_worst(of)]))
    near = data.draw(st.integers(1, min(moving.steps, 100)))
    far = data.draw(st.integers(near, moving.steps))
    values = [moving.figure.of(each) for each in (of, moving.moved(near), moving.moved(far))]
    assert values == sorted(values, reverse=moving.sign < 0)
    assert values[0] != values[1]
    changed = moving.moved(far)
    for figure in Figure:
        assert (figure.of(changed) == figure.of(of)) or figure is moving.figure
    load = changed.load
    assert min(load.requests, load.decoding, load.queued_tokens, load.waiting, load.queued_attended) >= 0
    assert load.decoding <= load.requests
    assert (changed.worker, changed.lane, changed.rates) == (of.worker, of.lane, of.rates)
    if moving.figure is Figure.CACHED_TOKENS:
        assert changed.cached_tokens == changed.overlap.blocks * changed.block_size < of.prompt_tokens
        assert load == of.load
    else:
        assert changed.overlap == of.overlap
        assert figure_steps(moving, far) <= LARGEST_COUNT


def figure_steps(moving: Lever, steps: int) -> int:
    """By how much so many steps move the figure."""
    return abs(moving.figure.of(moving.moved(steps)) - moving.figure.of(moving.candidate))
