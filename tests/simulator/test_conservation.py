"""What must add up over whole runs: requests, tokens, blocks and bookings, whoever routes and whatever dies."""

import dataclasses
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.worlds import Talk, played, talks
from warmroute.engine_model import EngineModel, EngineOptions, Step
from warmroute.simulator.ledger import NOBODY, NOT_YET, Requests
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.run import simulate
from warmroute.simulator.workload import EventPath, Happening, Session, Stage, WorkerAdded, WorkerLost
from warmroute.simulator.workloads import scaled, workload
from warmroute.simulator.world import World

ROOMY = EngineOptions(
    block_size=16, num_blocks=400, max_num_batched_tokens=512, max_num_seqs=8, request_overhead_s=0.02
)
# Evictions, preemptions and queues all the time; behind it tiers that keep what it cannot.
TIGHT = dataclasses.replace(ROOMY, num_blocks=60, max_num_seqs=4, host_blocks=50, disk_blocks=50)
FLEET = [ROOMY, TIGHT, TIGHT]
BUSY = Talk(sessions=25, turns=4, prefixes=4, over_s=6.0)

LOSSY = EventPath(delay_s=0.05, loss=0.2)
DEATHS: list[Happening] = [
    WorkerLost(2.0, 1, for_s=1.5),
    WorkerLost(3.1, 2),
    WorkerAdded(4.0, ROOMY),
    WorkerLost(5.0, 0, for_s=0.5),
]


def asked(sessions: list[Session]) -> Counter[tuple[int, int]]:
    """Requests by the lengths of prompt and answer."""
    return Counter((len(turn.prompt), len(turn.answer)) for session in sessions for turn in session.turns)


def assert_each_ends_once(requests: Requests, sessions: list[Session]) -> None:
    wanted = asked(sessions)
    assert len(requests) == wanted.total()
    assert Counter(requests.prompt_tokens) == Counter(p for p, _ in wanted.elements())
    whole = Counter(
        (requests.prompt_tokens[row], requests.output_tokens[row])
        for row in range(len(requests))
        if not requests.failed[row]
    )
    assert not whole - wanted, "an answer is not as long as it should be"
    for row, failed in enumerate(requests.failed):
        assert_in_order(requests, row)
        assert bool(failed) == (requests.output_tokens[row] == 0)
        assert 0 <= requests.cached[row] <= requests.prompt_tokens[row]
        if requests.first_at[row] != NOT_YET:
            assert requests.worker[row] != NOBODY
            assert requests.cached[row] < requests.prompt_tokens[row]


def assert_in_order(requests: Requests, row: int) -> None:
    reached = [requests.arrived_at[row], requests.sent_at[row], requests.first_at[row], requests.ended_at[row]]
    happened = [at for at in reached if at != NOT_YET]
    assert happened == sorted(happened)
    assert requests.ended_at[row] != NOT_YET


def assert_gauges_are_possible(world: World) -> None:
    gauges = world.ledger.gauges
    for pod, running, usages in zip(world.fleet.pods, gauges.running, gauges.kv_usage, strict=True):
        assert all(0 <= number <= pod.options.max_num_seqs for number in running)
        assert all(0.0 <= usage <= 1.0 for usage in usages)
    assert all(waiting >= 0 for each in gauges.waiting for waiting in each)


@pytest.mark.parametrize("name", ARMS)
def test_every_request_ends_once_under_every_policy(name: str) -> None:
    sessions = talks(11, BUSY)
    ledger, world = played(ARMS[name], sessions, FLEET, happenings=DEATHS, event_path=LOSSY)
    assert_each_ends_once(ledger.requests, sessions)
    assert_gauges_are_possible(world)
    assert any(ledger.requests.failed)
    assert len(world.fleet.pods) == 4


DEATH = st.builds(WorkerLost, st.floats(0.1, 8.0), st.integers(0, 2), st.none() | st.floats(0.1, 4.0))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000), st.lists(DEATH, max_size=5), st.sampled_from(["warmroute", "round-robin", "dynamo-kv"]))
def test_every_request_ends_once_whoever_dies(seed: int, deaths: list[WorkerLost], name: str) -> None:
    sessions = talks(seed)
    arm = ARMS.get(name, ARMS["llm-d-precise"])
    ledger, world = played(arm, sessions, FLEET, happenings=deaths, event_path=LOSSY)
    assert_each_ends_once(ledger.requests, sessions)
    assert_gauges_are_possible(world)


@pytest.mark.parametrize("name", ["warmroute", "round-robin", "llm-d-precise", "least-loaded", "longest-prefix"])
@pytest.mark.parametrize("engine", [ROOMY, TIGHT], ids=["roomy", "tight"])
def test_engines_have_counted_what_the_ledger_says(name: str, engine: EngineOptions) -> None:
    sessions = talks(5, BUSY)
    ledger, world = played(ARMS[name], sessions, [engine] * 3)
    requests = ledger.requests
    assert requests.failed == [""] * len(requests)
    for pod in world.fleet.pods:
        rows, state = [row for row in range(len(requests)) if requests.worker[row] == pod.position], pod.state()
        prompts = sum(requests.prompt_tokens[row] for row in rows)
        assert state.prompt_tokens == state.prefix_queries == prompts
        assert state.generation_tokens == sum(requests.output_tokens[row] for row in rows)
        hits = state.prefix_hits + state.host_hits + state.disk_hits
        assert hits == sum(requests.cached[row] for row in rows)
        assert state.kv_usage == 0.0
    if engine is TIGHT and name == "round-robin":
        assert sum(pod.state().preemptions for pod in world.fleet.pods) > 0
        assert sum(pod.state().host_hits for pod in world.fleet.pods) > 0


class Counting(EngineModel):
    """Remembers how many tokens of each request's prompt it computed."""

    computed: ClassVar[Counter[str]] = Counter()

    def step(self, now: float, most_iterations: int = 1) -> Step | None:
        step = super().step(now, most_iterations)
        for chunk in step.batch.chunks if step is not None else ():
            self.computed[chunk.request_id] += chunk.tokens
        return step


@pytest.mark.parametrize("name", ["warmroute", "round-robin", "least-loaded"])
def test_each_prompt_token_is_computed_once_or_cached(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "computed", Counter())
    monkeypatch.setattr("warmroute.simulator.pod.EngineModel", Counting)
    ledger, world = played(ARMS[name], talks(6, BUSY), [ROOMY] * 3)
    assert sum(pod.state().preemptions for pod in world.fleet.pods) == 0
    requests = ledger.requests
    # Requests are named by the order in which they came, as rows are.
    expected = {f"r{row + 1}": requests.prompt_tokens[row] - requests.cached[row] for row in range(len(requests))}
    assert dict(Counting.computed) == expected
    assert sum(requests.cached) > 0


@pytest.mark.parametrize("name", ["multi-turn", "worker-restart", "events-lossy", "mixed-hardware", "churn"])
def test_what_the_list_asks_for_is_what_comes_out(name: str) -> None:
    played = scaled(workload(name, None), duration_s=8.0)
    run = simulate(played, ARMS["warmroute"], seed=2)
    turns = [turn for stage in played.stages(2) for session in stage.sessions for turn in session.turns]
    requests = run.ledger.requests
    assert len(requests) == len(turns)
    whole = [row for row in range(len(turns)) if not requests.failed[row]]
    assert sum(requests.prompt_tokens) == sum(len(turn.prompt) for turn in turns)
    if len(whole) == len(turns):
        assert sum(requests.output_tokens) == sum(len(turn.answer) for turn in turns)
    assert run.summary.failed == len(turns) - len(whole)


def test_stages_share_nothing_but_caches() -> None:
    """Twice the same stage: the second one finds everything, and is as long as the first one at most."""
    sessions = talks(8)
    ledger, _ = played(ARMS["warmroute"], [Stage("one", sessions), Stage("two", sessions)], [ROOMY] * 3)
    requests, half = ledger.requests, len(ledger.requests) // 2
    assert list(requests.stage) == [0] * half + [1] * half
    assert sum(requests.cached[half:]) > sum(requests.cached[:half])
