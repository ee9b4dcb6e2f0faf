"""Many iterations planned as one step give what single ones give: the same answers, times, admissions and KV events."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine_model.worlds import options, request
from warmroute.block import Namespace
from warmroute.engine_model import EngineModel, EngineOptions, KvChange, Request, Step


@dataclass
class Told:
    """What an engine did, with times: of events the end of the iteration that caused them."""

    admitted: list[tuple[float, str, int]] = field(default_factory=list)
    preempted: list[tuple[float, str]] = field(default_factory=list)
    finished: list[tuple[float, str]] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)
    changes: list[KvChange] = field(default_factory=list)
    known_at: list[tuple[float, int]] = field(default_factory=list)
    """At each time of `looks`, how many changes had been told."""
    steps: int = 0


@dataclass(frozen=True)
class Event:
    at: float
    request: Request | None = None
    abort: str | None = None


def drive(engine: EngineModel, events: Sequence[Event], most: int) -> Told:
    """Run `events` through; between two of them the engine is asked for what it has done to its cache so far."""
    told, now, queue, step = Told(), 0.0, list(events), None
    while True:
        until = queue[0].at if queue else float("inf")
        if step is None:
            wake_at = engine.wake_at(now)
            if wake_at is not None and wake_at < until:
                now = wake_at
                step = started(engine, now, most, told)  # None where all that is there is being loaded
                continue
        elif step.ends_at < until:
            now = finished(engine, step, told)
            step = None
            continue
        if not queue:
            return told
        now = max(now, happen(engine, queue.pop(0), step, told))


def started(engine: EngineModel, now: float, most: int, told: Told) -> Step | None:
    step = engine.step(now, most)
    engine.check_integrity()
    if step is None:
        return None
    told.steps += 1
    told.admitted += [(now, name, cached) for name, cached in step.admitted]
    told.preempted += [(now, name) for name in step.preempted]
    return step


def finished(engine: EngineModel, step: Step, told: Told) -> float:
    now = step.ends_at
    result = engine.complete(step)
    engine.check_integrity()
    told.changes += result.changes
    for output in result.outputs:
        told.tokens[output.request_id] += output.new_tokens
    told.finished += [(now, output.request_id) for output in result.outputs if output.finished]
    return now


def happen(engine: EngineModel, event: Event, step: Step | None, told: Told) -> float:
    if step is not None:
        told.changes += engine.changes_until(step, event.at)
    told.known_at.append((event.at, len(told.changes)))
    if event.request is not None:
        engine.submit(event.request, event.at)
    if event.abort is not None:
        engine.abort(event.abort, event.at)
    return event.at


def assert_equal(one: Told, many: Told) -> None:
    assert many.admitted == one.admitted
    assert many.preempted == one.preempted
    assert many.finished == one.finished
    assert many.known_at == one.known_at
    assert many.changes == one.changes


_PLANS = st.lists(
    st.tuples(
        st.integers(0, 2),  # which family of prefixes
        st.integers(1, 30),  # prompt tokens
        st.integers(1, 40),  # answer tokens
        st.integers(0, 12),  # iterations before it comes
        st.sampled_from([0, 0, 0, 5, 30]),  # iterations after which it is aborted, if at all
    ),
    max_size=12,
)


def planned(plan: Sequence[tuple[int, int, int, int, int]], shift: float = 0.0) -> list[Event]:
    """Events at half iterations and `shift` later, so that none comes when an iteration ends."""
    events, at = [], 0.5 + shift
    for number, (family, prompt, answer, delay, patience) in enumerate(plan):
        at += delay
        # An answer goes on as a longer prompt of its family does: what one generates another may wait for.
        ids = [family * 100 + position // 3 for position in range(prompt + answer)]
        events.append(Event(at, Request(str(number), ids[:prompt], ids[prompt:], Namespace())))
        if patience:
            events.append(Event(at + patience + 0.25, abort=str(number)))
    return sorted(events, key=lambda event: event.at)


def world(capacity: int, block_size: int, overhead_s: float, **changes: float) -> EngineOptions:
    return options(
        num_blocks=capacity // block_size,
        block_size=block_size,
        max_model_len=70,
        max_num_batched_tokens=16,
        max_num_seqs=4,
        request_overhead_s=overhead_s,
        **changes,
    )


def assert_twins_agree(engine: EngineOptions, plan: list[tuple[int, int, int, int, int]], shift: float = 0.0) -> None:
    one, many = (drive(EngineModel(engine, 5), planned(plan, shift), most) for most in (1, 10_000))
    assert_equal(one, many)
    aborted = {event.abort for event in planned(plan)}
    assert {name: n for name, n in many.tokens.items() if name not in aborted} == {
        name: n for name, n in one.tokens.items() if name not in aborted
    }


@settings(deadline=None, max_examples=300)
@given(_PLANS, st.sampled_from([72, 80, 280]), st.sampled_from([1, 2, 4]), st.sampled_from([0.0, 2.75]))
@example([(0, 20, 40, 0, 0), (0, 20, 40, 3, 0), (1, 30, 10, 0, 5)], 80, 4, 0.0)
# Somebody who waits for room finds, a token later, a block that another has generated, and needs one less.
@example([(1, 10, 30, 4, 0), (1, 18, 33, 1, 0), (0, 5, 17, 5, 0), (0, 19, 9, 0, 0)], 72, 4, 0.0)
def test_many_iterations_are_single_ones_planned_at_once(
    plan: list[tuple[int, int, int, int, int]], capacity: int, block_size: int, overhead_s: float
) -> None:
    assert_twins_agree(world(capacity, block_size, overhead_s), plan)


@settings(deadline=None, max_examples=200)
@given(_PLANS, st.sampled_from([72, 80, 280]), st.sampled_from([1, 2, 4]))
def test_they_are_so_while_answers_slow_them_down(
    plan: list[tuple[int, int, int, int, int]], capacity: int, block_size: int
) -> None:
    """All times are sums of powers of two, so that sums and the closed form are equal to the last bit; and as nothing
    comes at a multiple of 1/1024 s, nothing comes when an iteration ends.
    """
    slowing = world(capacity, block_size, 2.75, step_per_context_token_s=2.0**-10, step_per_running_s=2.0**-4)
    assert_twins_agree(slowing, plan, shift=2.0**-12)


@settings(deadline=None, max_examples=200)
@given(_PLANS, st.sampled_from([72, 80]), st.sampled_from([2, 4]), st.sampled_from([3, 9, 40]), st.booleans())
def test_they_are_so_while_prefixes_are_loaded(
    plan: list[tuple[int, int, int, int, int]], capacity: int, block_size: int, tier_blocks: int, slow: bool
) -> None:
    tiers = {
        "host_blocks": tier_blocks,
        "disk_blocks": tier_blocks,
        "prefill_tokens_per_s": 0.25,
        "host_load_tokens_per_s": 0.5 if slow else 4.0,
        "disk_load_tokens_per_s": 0.5,
    }
    assert_twins_agree(world(capacity, block_size, 0.0, **tiers), plan, shift=2.0**-12)


def test_an_answer_of_a_thousand_tokens_is_two_steps() -> None:
    engine = EngineModel(options(num_blocks=300, prefill_tokens_per_s=1e300))
    told = drive(engine, [Event(0.5, request("a", range(8), 1000))], 10_000)
    assert (told.steps, told.finished) == (2, [(1000.5, "a")])


def test_an_arrival_cuts_the_step_in_work() -> None:
    engine = EngineModel(options(num_blocks=300, prefill_tokens_per_s=1e300))
    events = [Event(0.5, request("a", range(8), 1000)), Event(100.0, request("b", range(8), 2))]
    told = drive(engine, events, 10_000)
    assert told.admitted == [(0.5, "a", 0), (100.5, "b", 4)]
    assert told.finished == [(102.5, "b"), (1000.5, "a")]
