"""The script that compares the simulator with emulated engines runs, and what it computes is what it says."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from bench.simulator_trust import kolmogorov_smirnov
from bench.simulator_trust_workload import Conversations, answer_text
from hypothesis import given
from hypothesis import strategies as st
from tools.trust_tables import trust

_ROOT = Path(__file__).resolve().parents[2]
SAMPLES = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=30).map(sorted)


@given(SAMPLES, SAMPLES)
def test_the_distance_of_two_samples(one: list[float], other: list[float]) -> None:
    def share(sample: list[float], most: float) -> float:
        return sum(value <= most for value in sample) / len(sample)

    most = max(abs(share(one, value) - share(other, value)) for value in [*one, *other])
    assert kolmogorov_smirnov(one, other) == pytest.approx(most)
    assert kolmogorov_smirnov(one, one) == 0.0


def test_seeds_move_moments_only() -> None:
    small = Conversations(agents=2, over_s=4.0, turns=3, instructions=50, message=(5, 9))
    (one,), (same,), (other,) = (list(small.stages(seed)) for seed in (1, 1, 2))
    assert one == same
    turns, moved = ([turn for session in stage.sessions for turn in session.turns] for stage in (one, other))
    assert [turn.prompt for turn in turns] == [turn.prompt for turn in moved]
    shifts = [abs(turn.wait_s - later.wait_s) for turn, later in zip(turns, moved, strict=True)]
    assert 0 < max(shifts) < small.spread_s


def test_each_prompt_holds_the_answers_before_it() -> None:
    (stage,) = Conversations(agents=2, over_s=4.0, turns=3, instructions=50, message=(5, 9)).stages()
    for session in stage.sessions:
        for before, turn in zip(session.turns, session.turns[1:], strict=False):
            history = before.prompt.ids() + before.answer.ids()
            assert turn.prompt.ids()[: len(history)] == history
        assert [turn.after for turn in session.turns] == [None, 0, 1]
    turn = random.Random(0).choice(stage.sessions[0].turns)
    assert len(answer_text(turn)) > len(turn.answer)  # words, not letters


@pytest.mark.timeout(120)
def test_a_quick_run_sends_what_it_simulates() -> None:
    command = [sys.executable, "bench/simulator_trust.py", "--json", "--quick", "--simulations", "2"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    for told in shown["policies"].values():
        for run in [*told["simulated"], *told["sent"]]:
            assert (run["requests"], run["failed"]) == (shown["workload"]["requests"], 0)
            assert sum(run["requests_per_worker"]) == run["requests"]
        # Nothing is evicted in so short a time, so both sides find the same in their caches.
        assert told["simulated"][0]["cached_token_share"] == told["sent"][0]["cached_token_share"]
    assert "| `warmroute` |" in trust(shown)
