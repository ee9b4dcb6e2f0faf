"""What a comparison's object holds, on a small workload."""

import json
from typing import Any

import pytest

from simulator.made_workloads import Shared
from warmroute.errors import ConfigError
from warmroute.simulator.comparison import Question, compare, distance, tasks
from warmroute.simulator.many import RunFailed
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.task import RunTask

PROMISED = {
    "output_tokens_per_s", "ttft_mean_s", "ttft_p90_s", "queue_mean", "kv_usage_mean", "cached_token_share", "failed",
}  # fmt: skip


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    question = Question(Shared(), ("random", "warmroute"), (1, 2), command="warmroute simulate ...")
    return compare(question, jobs=1)


def test_names_at_every_level(compared: dict[str, Any]) -> None:
    assert list(compared) == [
        "command", "workload", "workers", "seeds", "speed", "duration_s", "bounds", "policies", "environment",
    ]  # fmt: skip
    assert compared["workload"] == {
        "name": "made", "about": "made by hand", "sessions": 36, "requests": 36, "prompt_tokens": 36 * 384,
        "answer_tokens": 144,
    }  # fmt: skip
    assert (compared["workers"], compared["seeds"], compared["speed"]) == (2, [1, 2], 1.0)
    assert [each["seed"] for each in compared["bounds"]["by_seed"]] == [1, 2]
    assert list(compared["policies"]) == ["random", "warmroute"]
    for policy in compared["policies"].values():
        assert policy["summary"].keys() >= PROMISED
        assert [run["seed"] for run in policy["runs"]] == [1, 2]
        for run in policy["runs"]:
            assert run["summary"].keys() >= PROMISED
            assert [stage["counted"] for stage in run["stages"]] == [False, True]
            assert all(stage.keys() >= PROMISED for stage in run["stages"])
            assert run["failures"] == {}


def test_a_summary_is_the_mean_over_the_seeds_with_its_spread(compared: dict[str, Any]) -> None:
    summary = compared["policies"]["random"]["summary"]
    of_runs = [run["summary"]["ttft_mean_s"] for run in compared["policies"]["random"]["runs"]]
    assert of_runs[0] != of_runs[1]
    assert summary["ttft_mean_s"] == pytest.approx(sum(of_runs) / 2)
    assert summary["spread"]["ttft_mean_s"] == [min(of_runs), max(of_runs)]
    assert summary["failed"] == 0


def test_distance_is_told_in_terms_of_the_bounds(compared: dict[str, Any]) -> None:
    policy, bounds = compared["policies"]["warmroute"], compared["bounds"]
    assert policy["distance"]["ttft_p90_ratio"] == pytest.approx(policy["summary"]["ttft_p90_s"] / bounds["ttft_p90_s"])
    share = policy["summary"]["cached_token_share"] / bounds["cached_token_share"]
    assert policy["distance"]["cached_share_of_bound"] == pytest.approx(share)
    assert all(ratio >= 1.0 for name, ratio in policy["distance"].items() if name.startswith("ttft"))


def test_a_distance_from_nothing_is_none() -> None:
    names = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "cached_token_share")
    far = distance(dict.fromkeys(names, 1.0), dict.fromkeys(names, None) | {"cached_token_share": 0.0})
    assert set(far.values()) == {None}


def test_series_are_bounded_and_of_the_runs_own_time(compared: dict[str, Any]) -> None:
    series = compared["policies"]["warmroute"]["runs"][0]["series"]
    assert len(series["ttft_s"]) == 200
    assert [stage["name"] for stage in series["stages"]] == ["warm-up", "play"]
    assert len(series["load"]["workers"]) == 2


def test_floats_have_nine_digits_at_most(compared: dict[str, Any]) -> None:
    def floats(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [found for item in value.values() for found in floats(item)]
        if isinstance(value, list):
            return [found for item in value for found in floats(item)]
        return [value] if isinstance(value, float) else []

    found = floats(compared)
    assert len(found) > 1_000
    assert all(value == float(f"{value:.9g}") for value in found)


def test_the_same_question_gives_the_same_bytes(compared: dict[str, Any]) -> None:
    again = compare(Question(Shared(), ("random", "warmroute"), (1, 2), command="warmroute simulate ..."), jobs=2)
    assert json.dumps(again) == json.dumps(compared)


def test_tuning_tries_every_value_and_keeps_the_best() -> None:
    question = Question(Shared(24), ("dynamo", "random"), (1,), tuned=True)
    knob = ARMS["dynamo"].knob
    assert knob is not None
    runs = [task for task in tasks(question) if isinstance(task, RunTask)]
    assert [run.knob for run in runs if run.policy == "dynamo"] == [
        None, *(value for value in knob.values if value != knob.default),
    ]  # fmt: skip
    result = compare(question, jobs=1)["policies"]
    tuned = result["dynamo"]["tuned"]
    assert [tried["value"] for tried in tuned["tried"]] == sorted(knob.values)
    assert tuned["summary"]["ttft_mean_s"] == min(tried["ttft_mean_s"] for tried in tuned["tried"])
    assert result["dynamo"]["knob"] == {"name": knob.name, "value": knob.default}
    assert result["random"]["knob"] is None
    assert result["random"]["tuned"] is None


def test_of_equal_values_the_default_is_kept() -> None:
    # One request: no setting can matter.
    tuned = compare(Question(Shared(5), ("dynamo",), (1,), tuned=True), jobs=1)["policies"]["dynamo"]["tuned"]
    assert len({tried["ttft_mean_s"] for tried in tuned["tried"]}) == 1
    assert ARMS["dynamo"].knob is not None
    assert tuned["knob"]["value"] == ARMS["dynamo"].knob.default


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(Shared(), ("warmrout",), (1,)), "did you mean 'warmroute'"),
        (Question(Shared(), (), (1,)), "a policy and a seed"),
        (Question(Shared(), ("random",), (1,), workers=0), "at least 1"),
        (Question(Shared(), ("nowhere.at_all:Mine",), (1,)), "cannot be found: there is no module nowhere"),
        (
            Question(Shared(), ("collections:OrderedDict",), (1,)),
            "is no policy: it has no name, it has no unit, it has no costs",
        ),
        (Question(Shared(), (":Mine",), (1,)), "package.module:Class"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_runs(question: Question, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compare(question, jobs=1)


def test_a_policy_that_raises_ends_the_comparison() -> None:
    broken = f"{Broken.__module__}:Broken"
    with pytest.raises(RunFailed, match=r"Broken on shared, seed 1: the policy raised an error"):
        compare(Question(Shared(), (broken,), (1,)), jobs=1)


class Broken:
    """A policy with a fault in it."""

    name = "broken"
    unit = "nothing"

    def costs(self, request: object, candidates: object, rng: object) -> list[object]:
        raise ZeroDivisionError
