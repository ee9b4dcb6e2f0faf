"""The engine's rules, each in a world small enough to count by hand."""

import pytest

from engine_model.worlds import Run, options, request
from warmroute.block import Namespace
from warmroute.engine_model import EngineModel, KvCleared, KvRemoved, KvStored, Output, Request
from warmroute.errors import ConfigError


def run_one(engine: EngineModel, name: str, prompt: range, answer: int = 1) -> Run:
    engine.submit(request(name, prompt, answer), 0.0)
    return Run(engine).all()


def test_a_prompt_is_computed_in_chunks_of_the_token_budget() -> None:
    engine = EngineModel(options(max_num_batched_tokens=8))
    run = run_one(engine, "a", range(20))
    assert run.outputs == [Output("a", 1, 1, True)]
    assert run.now == pytest.approx(3.0)  # 8 + 8 + 4 tokens
    stored = [change for change in run.changes if isinstance(change, KvStored)]
    assert [len(change.block_hashes) for change in stored] == [2, 2, 1]
    assert [change.parent for change in stored] == [None, stored[0].block_hashes[-1], stored[1].block_hashes[-1]]
    assert [list(change.token_ids) for change in stored] == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]


def test_generated_tokens_fill_blocks_except_the_last_one() -> None:
    run = run_one(EngineModel(options()), "a", range(6), answer=3)
    stored = [change for change in run.changes if isinstance(change, KvStored)]
    assert [list(change.token_ids) for change in stored] == [[0, 1, 2, 3], [4, 5, 1000, 1001]]
    run = run_one(EngineModel(options()), "b", range(6), answer=2)
    assert len([change for change in run.changes if isinstance(change, KvStored)]) == 1


@pytest.mark.parametrize(("tokens", "hit"), [(3, 0), (4, 0), (5, 4), (8, 4), (9, 8), (12, 8), (13, 12)])
def test_the_last_token_is_always_computed(tokens: int, hit: int) -> None:
    engine = EngineModel(options())
    run_one(engine, "first", range(tokens))
    assert run_one(engine, "second", range(tokens)).cached == {"second": hit}


def test_a_full_hit_makes_a_second_copy_of_the_last_block() -> None:
    engine = EngineModel(options())
    run_one(engine, "a", range(8))
    run_one(engine, "b", range(8))
    assert sorted(engine.cached_hashes().values()) == [1, 2]


def test_the_next_turn_finds_the_answer_in_the_cache() -> None:
    engine = EngineModel(options())
    run_one(engine, "first", range(6), answer=6)  # 11 tokens computed: 2 full blocks
    engine.submit(Request("second", [*range(6), *range(1000, 1006), 7, 8], [1]), 0.0)
    run = Run(engine).all()
    assert run.cached == {"second": 8}


def test_a_request_without_room_preempts_nobody_and_waits() -> None:
    engine = EngineModel(options(num_blocks=4))
    engine.submit(request("a", range(12)), 0.0)
    engine.submit(request("b", range(100, 108)), 0.0)
    run = Run(engine)
    run.step()
    assert run.finished() == ["a"]
    assert not run.preempted
    run.all()
    assert run.finished() == ["a", "b"]


def test_the_youngest_is_preempted_and_computes_anew_from_what_is_cached() -> None:
    engine = EngineModel(options(num_blocks=4, max_model_len=16))
    engine.submit(request("old", range(7), answer=9), 0.0)
    engine.submit(request("young", range(100, 107), answer=9), 0.0)
    run = Run(engine).all()
    assert run.preempted.count("young") >= 1
    assert "old" not in run.preempted
    assert run.finished() == ["old", "young"]
    assert run.tokens_of("old") == run.tokens_of("young") == 9
    assert engine.state().preemptions == len(run.preempted)
    assert run.cached == {"old": 0, "young": 0}  # of the first admission


def test_removals_precede_the_store_that_caused_them() -> None:
    engine = EngineModel(options(num_blocks=4))
    run_one(engine, "a", range(15))
    run = Run(engine)
    engine.submit(request("b", range(100, 108)), 0.0)
    run.all()
    kinds = [type(change) for change in run.changes]
    assert kinds == [KvRemoved, KvStored]  # the partial block went first, it had no hash


def test_a_step_takes_base_plus_running_plus_prefill() -> None:
    engine = EngineModel(
        options(step_base_s=0.5, step_per_running_s=0.25, prefill_tokens_per_s=10.0, max_num_batched_tokens=100)
    )
    engine.submit(request("a", range(20), answer=2), 0.0)
    engine.submit(request("b", range(100, 110), answer=2), 0.0)
    step = engine.step(0.0)
    assert step is not None
    assert step.duration_s == pytest.approx(0.5 + 2 * 0.25 + 30 / 10)
    engine.complete(step)
    step = engine.step(step.ends_at)
    assert step is not None
    assert step.duration_s == pytest.approx(0.5 + 2 * 0.25)


def test_a_request_waits_for_its_overhead_and_no_longer() -> None:
    engine = EngineModel(options(request_overhead_s=0.15))
    assert engine.wake_at(1.0) is None
    engine.submit(request("a", range(4)), 1.0)
    assert engine.wake_at(1.0) == pytest.approx(1.15)
    assert engine.step(1.1) is None
    assert engine.state().waiting == 0
    assert engine.step(1.15) is not None


def test_not_more_requests_run_than_may() -> None:
    engine = EngineModel(options(max_num_seqs=2))
    for name in "abc":
        engine.submit(request(name, range(4), answer=2), 0.0)
    step = engine.step(0.0)
    assert step is not None
    assert [admission.request_id for admission in step.admitted] == ["a", "b"]
    assert (engine.state().running, engine.state().waiting) == (2, 1)


@pytest.mark.parametrize("moment", ["arriving", "waiting", "running", "in step"])
def test_an_aborted_request_leaves_nothing_behind(moment: str) -> None:
    engine = EngineModel(options(max_num_seqs=1, request_overhead_s=1.0 if moment == "arriving" else 0.0))
    if moment == "waiting":
        engine.submit(request("first", range(4), answer=5), 0.0)
    engine.submit(request("a", range(9), answer=5), 0.0)
    step = None if moment == "arriving" else engine.step(0.0)
    if step is not None and moment != "in step":
        engine.complete(step)
    assert engine.abort("a")
    assert not engine.abort("a")
    engine.check_integrity()
    if step is not None and moment == "in step":
        assert engine.complete(step).outputs == []
    if moment == "waiting":
        assert engine.abort("first")
    assert engine.wake_at(5.0) is None
    assert engine.state().kv_usage == 0.0


def test_an_aborted_prompt_stays_cached() -> None:
    engine = EngineModel(options())
    engine.submit(request("a", range(9), answer=5), 0.0)
    step = engine.step(0.0)
    assert step is not None
    engine.complete(step)
    engine.abort("a")
    assert run_one(engine, "b", range(9)).cached == {"b": 8}


def test_a_reset_waits_for_the_blocks_to_be_free() -> None:
    engine = EngineModel(options())
    engine.submit(request("a", range(9), answer=2), 0.0)
    run = Run(engine)
    run.step()
    assert not engine.reset_prefix_cache()
    run.all()
    assert engine.cached_hashes()
    assert engine.reset_prefix_cache()
    assert engine.cached_hashes() == {}
    assert engine.take_changes() == [KvCleared()]
    assert run_one(engine, "b", range(9)).cached == {"b": 0}


def test_usage_counts_held_blocks_only() -> None:
    engine = EngineModel(options(num_blocks=10))
    engine.submit(request("a", range(9), answer=2), 0.0)
    run = Run(engine)
    run.step()
    assert engine.state().kv_usage == pytest.approx(0.3)
    run.all()
    assert engine.state().kv_usage == 0.0


def test_counters_count_tokens() -> None:
    engine = EngineModel(options())
    run_one(engine, "a", range(9), answer=3)
    run_one(engine, "b", range(9), answer=2)
    state = engine.state()
    assert (state.prefix_queries, state.prefix_hits) == (18, 8)
    assert (state.prompt_tokens, state.generation_tokens) == (18, 5)


def test_namespaces_and_engines_do_not_share_hashes() -> None:
    engine, other = EngineModel(options(), seed=1), EngineModel(options(), seed=2)
    for salt in (None, "", "tenant", "tenant 2"):
        engine.submit(Request(f"a{salt}", list(range(8)), [1], Namespace(salt=salt)), 0.0)
    engine.submit(Request("adapter", list(range(8)), [1], Namespace(adapter="tenant")), 0.0)
    run = Run(engine).all()
    assert set(run.cached.values()) == {0}
    assert len(engine.cached_hashes()) == 10
    run_one(other, "a", range(8))
    assert not set(engine.cached_hashes()) & set(other.cached_hashes())
    same = EngineModel(options(), seed=2)
    run_one(same, "a", range(8))
    assert same.cached_hashes() == other.cached_hashes()


def test_without_prefix_caching_nothing_is_found_or_told() -> None:
    engine = EngineModel(options(enable_prefix_caching=False))
    run_one(engine, "a", range(9))
    run = run_one(engine, "b", range(9))
    assert run.cached == {"b": 0}
    assert run.changes == []
    assert engine.state().prefix_queries == 0


def test_the_context_is_what_the_blocks_hold_or_less() -> None:
    assert options(num_blocks=8).context_tokens == 32
    engine = EngineModel(options(max_model_len=20))
    assert engine.fits(19, 1)
    assert not engine.fits(20, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_size": 0}, "block_size must be at least 1"),
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1"),
        ({"prefill_tokens_per_s": 0.0}, "prefill_tokens_per_s must be above 0"),
        ({"step_base_s": -1.0}, "step_base_s must not be negative"),
        ({"max_model_len": 257}, "257 is more than the 256 tokens of KV"),
    ],
)
def test_impossible_engines_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(**changes)


def test_a_prompt_is_admitted_only_if_it_fits_whole() -> None:
    engine = EngineModel(options(num_blocks=10, max_num_batched_tokens=8))
    engine.submit(request("a", range(20), answer=9), 0.0)
    engine.submit(request("b", range(100, 124)), 0.0)  # 6 blocks, where 5 or less are left
    run = Run(engine)
    while "a" not in run.finished():
        run.step()
        assert "b" not in run.cached
    run.all()
    assert not run.preempted
    assert run.finished() == ["a", "b"]


def test_only_the_ends_of_answers_are_told_where_that_is_enough() -> None:
    every, ends = EngineModel(options()), EngineModel(options())
    outputs: dict[bool, list[Output]] = {True: [], False: []}
    for every_token, engine in ((True, every), (False, ends)):
        engine.submit(request("a", range(4), 1), 0.0)
        engine.submit(request("b", range(100, 104), 4), 0.0)
        for now in range(4):
            step = engine.step(float(now))
            assert step is not None
            outputs[every_token] += engine.complete(step, every_token=every_token).outputs
    assert outputs[False] == [output for output in outputs[True] if output.is_first or output.finished]
    assert [(output.request_id, output.generated) for output in outputs[False]] == [("a", 1), ("b", 1), ("b", 4)]
    assert ends.state() == every.state()
