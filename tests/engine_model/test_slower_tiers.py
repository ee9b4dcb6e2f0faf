"""Blocks that leave the GPU for CPU memory and disk and come back, in worlds that were worked out by hand.

4 blocks of 4 tokens on the GPU. A step takes 1 s and 1 s for each prompt token. `a` has 3 blocks; `b` takes all 4, of
which it fills 3, and so pushes those of `a` out, the last one first.
"""

from collections.abc import Sequence

import pytest

from engine_model.timetable import Row, timetable
from engine_model.worlds import options, request
from warmroute.block import Tier
from warmroute.engine_model import Admission, EngineModel, KvChange, KvCleared, KvRemoved, KvStored, Request, Step
from warmroute.errors import ConfigError

_A, _B = range(12), range(100, 115)


def engine_with(**changes: float) -> EngineModel:
    tiers = {"host_load_tokens_per_s": 8.0, "disk_load_tokens_per_s": 4.0}
    return EngineModel(options(**({"num_blocks": 4, "prefill_tokens_per_s": 1.0} | tiers | changes)))


def told(engine: EngineModel, arrived: Request, now: float) -> tuple[Step, list[KvChange]]:
    """The one step of a request whose prompt is computed at once and answered with a token, and what it changed."""
    engine.submit(arrived, now)
    step = engine.step(now)
    if step is None:
        wake_at = engine.wake_at(now)
        assert wake_at is not None
        assert wake_at > now
        step = engine.step(wake_at)
    assert step is not None
    return step, engine.complete(step).changes


def moves(changes: Sequence[KvChange], names: dict[int, str]) -> list[str]:
    """Changes in short: `+C a0` where CPU memory got the first block of `a`, `-G a0` where the GPU lost it."""
    short: list[str] = []
    for change in changes:
        assert not isinstance(change, KvCleared)
        medium = "GCD"[change.tier]
        if isinstance(change, KvStored):
            short.append(f"+{medium} " + " ".join(names[block_hash] for block_hash in change.block_hashes))
        else:
            short.append(f"-{medium} {names[change.block_hash]}")
    return short


def named(name: str, changes: Sequence[KvChange]) -> dict[int, str]:
    """Names for the blocks that the GPU got."""
    stored = [change for change in changes if isinstance(change, KvStored) and change.tier is Tier.DEVICE]
    return {h: f"{name}{at}" for at, h in enumerate(h for change in stored for h in change.block_hashes)}


def test_evicted_blocks_go_from_tier_to_tier_and_get_lost() -> None:
    engine = engine_with(host_blocks=2, disk_blocks=1)
    _, first = told(engine, request("a", _A), 0.0)
    _, second = told(engine, request("b", _B), 13.0)
    names = named("a", first) | named("b", second)
    assert moves(first, names) == ["+G a0 a1 a2"]
    assert moves(second, names) == [
        *("+C a2", "-G a2", "+C a1", "-G a1"),
        *("+D a2", "-C a2", "+C a0", "-G a0"),  # CPU memory is full
        "+G b0 b1 b2",
    ]
    _, third = told(engine, request("c", range(200, 215)), 30.0)
    names |= named("c", third)
    assert moves(third, names) == [
        *("-D a2", "+D a1", "-C a1", "+C b2", "-G b2"),  # and disk as well
        *("-D a1", "+D a0", "-C a0", "+C b1", "-G b1"),
        *("-D a0", "+D b2", "-C b2", "+C b0", "-G b0"),
        "+G c0 c1 c2",
    ]
    assert [len(engine.cached_hashes(tier)) for tier in Tier] == [3, 2, 1, 0]


def test_a_prefix_is_loaded_from_cpu_memory_and_the_rest_computed() -> None:
    """8 tokens at 8 per second, then 4 that are computed, of a block that got lost."""
    engine = engine_with(host_blocks=2)
    rows = timetable(engine, [(0.0, request("a", _A)), (13.0, request("b", _B)), (30.0, request("a again", _A))])
    assert rows == [
        Row(0, 13, "a[0:12]", finished="a"),
        Row(13, 29, "b[0:15]", finished="b"),
        Row(31, 36, "a again[8:12]", finished="a again"),
    ]
    state = engine.state()
    assert (state.prefix_queries, state.prefix_hits, state.host_hits, state.disk_hits) == (39, 0, 8, 0)


def test_who_is_loaded_counts_as_waiting_and_is_admitted_with_both_numbers() -> None:
    engine = engine_with(host_blocks=4)
    told(engine, request("a", _A), 0.0)
    told(engine, request("b", _B), 13.0)
    engine.submit(request("a again", _A), 30.0)
    assert engine.step(30.0) is None
    state = engine.state()
    assert (state.running, state.waiting, state.kv_usage) == (0, 1, 0.5)
    assert engine.wake_at(30.0) == 31.0
    step = engine.step(31.0)
    assert step is not None
    assert step.admitted == [Admission("a again", 8)]
    assert step.loaded == {"a again": {Tier.HOST: 8}}


def test_what_was_loaded_is_announced_with_its_tokens_and_stays_where_it_was() -> None:
    engine = engine_with(host_blocks=8)
    _, first = told(engine, request("a", _A), 0.0)
    _, second = told(engine, request("b", _B), 13.0)
    names = named("a", first) | named("b", second)
    _, third = told(engine, request("a again", _A), 30.0)
    assert moves(third, names) == ["+C b2", "-G b2", "+G a0 a1", "+C b1", "-G b1", "+G a2"]
    loaded = third[2]
    assert isinstance(loaded, KvStored)
    assert (list(loaded.token_ids), loaded.parent, loaded.block_size) == ([*range(8)], None, 4)
    assert set(named("a", first)) <= set(engine.cached_hashes(Tier.HOST))


def test_a_prefix_comes_from_disk_where_there_is_no_other_tier() -> None:
    engine = engine_with(disk_blocks=4)
    rows = timetable(engine, [(0.0, request("a", _A)), (13.0, request("b", _B)), (30.0, request("a again", _A))])
    assert rows[-1] == Row(32, 37, "a again[8:12]", finished="a again")  # 8 tokens at 4 per second
    assert engine.state().disk_hits == 8


def test_tiers_are_read_side_by_side() -> None:
    """a0 in CPU memory, a1 and a2 on disk: 0.5 s and 1 s, so it starts after the longer one."""
    engine = engine_with(host_blocks=1, disk_blocks=4)
    rows = timetable(engine, [(0.0, request("a", _A)), (13.0, request("b", _B)), (30.0, request("a again", _A))])
    assert rows[-1] == Row(31, 36, "a again[8:12]", finished="a again")
    assert (engine.state().host_hits, engine.state().disk_hits) == (4, 4)


def test_loads_from_one_tier_take_their_turn() -> None:
    """8 blocks, and two prompts of 3: the first load ends after 1 s, the other one a second later."""
    engine = engine_with(num_blocks=8, host_blocks=8)
    arrivals = [
        (0.0, request("a", _A)),
        (13.0, request("b", range(100, 112))),
        (26.0, request("c", range(200, 231))),
        (60.0, request("a again", _A)),
        (60.0, request("b again", range(100, 112))),
    ]
    assert timetable(engine, arrivals)[3:] == [
        Row(61, 66, "a again[8:12]", finished="a again"),
        Row(66, 71, "b again[8:12]", finished="b again"),
    ]


def test_what_comes_slower_than_it_is_computed_is_computed() -> None:
    engine = engine_with(host_blocks=4, host_load_tokens_per_s=1.0)  # as fast as computing
    rows = timetable(engine, [(0.0, request("a", _A)), (13.0, request("b", _B)), (30.0, request("a again", _A))])
    assert rows[-1] == Row(30, 43, "a again[0:12]", finished="a again")


def test_others_go_on_while_a_prefix_is_loaded() -> None:
    """8 blocks; `d` decodes. 8 tokens at 4 per second come from 62 to 64 s, and then it has company."""
    engine = engine_with(num_blocks=8, host_blocks=8, host_load_tokens_per_s=4.0)
    arrivals = [
        (0.0, request("a", _A)),
        (13.0, request("b", range(100, 131))),
        (60.0, request("d", [7], answer=6)),
        (61.5, request("a again", _A)),
    ]
    rows = timetable(engine, arrivals)
    assert rows[2:] == [
        Row(60, 62, "d[0:1]"),
        Row(62, 63, "d"),
        Row(63, 64, "d"),
        Row(64, 69, "d a again[8:12]", finished="a again"),
        Row(69, 70, "d"),
        Row(70, 71, "d", finished="d"),
    ]
    planned = timetable(engine_with(num_blocks=8, host_blocks=8, host_load_tokens_per_s=4.0), arrivals, most=100)
    assert [row.work for row in planned[2:]] == ["d[0:1]", "d x2", "d a again[8:12]", "d x2"]
    assert [row.end for row in planned[2:]] == [62, 64, 69, 71]


def test_who_is_loaded_is_the_first_to_give_up_its_blocks() -> None:
    """5 blocks. `d` takes its third at 49 s, which is the last, and needs a fourth at 53 s, while `a again` has 2 that
    are loaded for 6.4 s from 48 s on. It gives them up, and loads again when `d` has ended.
    """
    engine = engine_with(num_blocks=5, host_blocks=8, host_load_tokens_per_s=1.25)
    arrivals = [
        (0.0, request("a", _A)),
        (13.0, request("b", range(100, 119))),
        (40.0, request("d", [7] * 7, answer=9)),
        (48.0, request("a again", _A)),
    ]
    rows = timetable(engine, arrivals)
    assert [row for row in rows if row.preempted] == [Row(53, 54, "d", preempted="a again")]
    assert rows[-1].work == "a again[8:12]"
    assert rows[-1].start == pytest.approx(56 + 6.4)
    assert engine.state().preemptions == 1


def test_others_are_scheduled_although_somebody_before_them_gives_up_its_load() -> None:
    """`a again` comes first and is loaded from 60 s on, for 13.3 s; at 68 s `d` needs a second block, and none is left.

    When both have ended, a load would come after the first one, which goes on, and end later than the computation.
    """
    engine = engine_with(host_blocks=8, prefill_tokens_per_s=0.5, host_load_tokens_per_s=0.6)
    arrivals = [
        (0.0, request("a", _A)),
        (25.0, request("b", _B)),
        (60.0, request("a again", _A)),
        (60.0, request("d", [7], answer=6)),
        (60.0, request("e", [8], answer=6)),
    ]
    assert timetable(engine, arrivals)[2:] == [
        Row(60, 65, "d[0:1] e[0:1]"),
        *(Row(at, at + 1, "d e") for at in (65, 66, 67)),
        Row(68, 69, "d e", preempted="a again"),
        Row(69, 70, "d e", finished="d e"),
        Row(70, 95, "a again[0:12]", finished="a again"),
    ]


def test_the_end_of_a_loaded_prefix_is_given_up_before_its_beginning() -> None:
    engine = engine_with(host_blocks=2)
    _, first = told(engine, request("a", _A), 0.0)
    _, second = told(engine, request("b", _B), 13.0)
    names = named("a", first) | named("b", second)
    _, third = told(engine, request("a again", _A), 30.0)
    assert moves(third, names) == [
        *("-C a1", "+C b2", "-G b2"),
        "+G a0 a1",
        *("-C a0", "+C b1", "-G b1"),
        "+G a2",
    ]


def test_who_waits_for_room_can_have_that_of_an_aborted_load_at_once() -> None:
    engine = engine_with(host_blocks=4)
    told(engine, request("a", _A), 0.0)
    told(engine, request("b", _B), 13.0)
    engine.submit(request("a again", _A), 30.0)
    engine.submit(request("x", range(200, 209)), 30.0)
    assert engine.step(30.0) is None
    assert engine.wake_at(30.5) == 31.0
    engine.abort("a again", 30.5)
    assert engine.wake_at(30.5) == 30.5
    step = engine.step(30.5)
    assert step is not None
    assert [chunk.request_id for chunk in step.batch.chunks] == ["x"]


def test_who_is_loaded_and_finds_no_room_then_keeps_what_came() -> None:
    """As above, but loaded after 4 s: at 52 s `d` has 3 blocks, and there is none for the rest of the prompt."""
    engine = engine_with(num_blocks=5, host_blocks=8, host_load_tokens_per_s=2.0)
    arrivals = [
        (0.0, request("a", _A)),
        (13.0, request("b", range(100, 119))),
        (40.0, request("d", [7] * 7, answer=6)),
        (48.0, request("a again", _A)),
    ]
    rows = timetable(engine, arrivals)
    assert rows[-2:] == [
        Row(52, 53, "d", preempted="a again", finished="d"),
        Row(53, 58, "a again[8:12]", finished="a again"),
    ]
    state = engine.state()
    assert (state.host_hits, state.prefix_hits) == (8, 0)  # the first admission counts


@pytest.mark.parametrize("moment", ["loading", "loaded"])
def test_a_loaded_request_can_be_aborted(moment: str) -> None:
    engine = engine_with(host_blocks=4)
    told(engine, request("a", _A), 0.0)
    told(engine, request("b", _B), 13.0)
    engine.submit(request("a again", _A), 30.0)
    engine.step(30.0)
    if moment == "loaded":
        engine.step(31.0)
    engine.check_integrity()
    assert engine.abort("a again", 31.0)
    engine.check_integrity()
    assert engine.state().waiting == engine.state().running == 0
    assert engine.state().kv_usage == 0.0


def test_a_reset_drops_every_tier() -> None:
    engine = engine_with(host_blocks=2, disk_blocks=2)
    told(engine, request("a", _A), 0.0)
    told(engine, request("b", _B), 13.0)
    assert engine.reset_prefix_cache()
    assert [engine.cached_hashes(tier) for tier in Tier] == [{}, {}, {}, {}]
    assert engine.take_changes() == [KvCleared()]


def test_a_copy_that_stays_on_the_gpu_is_not_written_anywhere() -> None:
    """The full hit of `same` computes its last block anew: of two copies the older one goes, and then the other."""
    engine = EngineModel(options(num_blocks=4, host_blocks=4))
    for at, prompt in enumerate((range(8), range(8), range(100, 104))):
        told(engine, request(str(at), prompt), float(at))
    _, changes = told(engine, request("3", range(200, 204)), 3.0)
    assert [type(change) for change in changes] == [KvRemoved, KvStored]
    assert engine.cached_hashes(Tier.HOST) == {}
    _, changes = told(engine, request("4", range(300, 304)), 4.0)
    assert [(type(change), change.tier) for change in changes if not isinstance(change, KvCleared)] == [
        (KvStored, Tier.HOST),
        (KvRemoved, Tier.DEVICE),
        (KvStored, Tier.DEVICE),
    ]


def test_without_tiers_nothing_is_said_of_them() -> None:
    engine = engine_with()
    arrivals = [(0.0, request("a", _A)), (13.0, request("b", _B)), (30.0, request("a again", _A))]
    assert timetable(engine, arrivals)[-1].work == "a again[0:12]"
    assert engine.cached_hashes(Tier.HOST) == engine.cached_hashes(Tier.DISK) == {}


@pytest.mark.parametrize("changes", [{"host_blocks": -1}, {"disk_blocks": -1}, {"host_load_tokens_per_s": 0.0}])
def test_impossible_tiers_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        engine_with(**changes)
