"""A log on fleets: where routing by prefix pays, where it does not, and that the same gives the same."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from request_log.test_vllm import lines_0_10
from warmroute.errors import ConfigError
from warmroute.request_log import Blocking, open_log
from warmroute.simulator.logs import LogRequests, read_all
from warmroute.simulator.replay import ReplayPlan, as_one_comparison, cut_at, replay
from warmroute.simulator.report import page

POLICIES = ("random", "round-robin", "llm-d-precise", "warmroute")
PAIR = ("round-robin", "warmroute")


def log_of(folder: Path, lines: Iterator[dict[str, Any]]) -> LogRequests:
    path = folder / "traffic.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    reading, requests = open_log(str(path))
    return read_all(reading, requests, Blocking())


def shared_prefixes(
    prefixes: int, tokens: int, requests: int, per_s: float, answer: int = 30
) -> Iterator[dict[str, Any]]:
    """Questions behind long instructions, of which each worker's cache holds a part."""
    rng = random.Random(3)
    at_s = 1_770_982_413.0
    for number in range(requests):
        at_s += rng.expovariate(per_s)
        prefix = f"instruction {rng.randrange(prefixes):03} " * (tokens * 4 // 16)
        question = f"question {number} " * 20
        yield {"ts": at_s, "prompt": prefix + question, "usage": {"completion_tokens": answer}}


def unrelated(requests: int, per_s: float) -> Iterator[dict[str, Any]]:
    rng = random.Random(4)
    at_s = 0.0
    for number in range(requests):
        at_s += rng.expovariate(per_s)
        yield {"ts": at_s, "prompt": f"{number} " * 2_500, "usage": {"completion_tokens": 100}}


def test_where_prefixes_are_many_and_long_routing_by_them_pays(tmp_path: Path) -> None:
    log = log_of(tmp_path, shared_prefixes(prefixes=100, tokens=6_000, requests=700, per_s=12.0))
    result = replay(log, ReplayPlan((4,), POLICIES), tmp_path, jobs=1)
    reuse = result["reuse"]
    assert reuse["reusable_share"] > 0.8
    assert reuse["share_with_the_cache_of_one_worker"] < 0.7 * reuse["reusable_share"]
    assert reuse["workers_for_share_of_reusable"]["90%"] >= 2
    policies = {name: its["summary"] for name, its in result["fleets"][0]["policies"].items()}
    assert policies["warmroute"]["cached_token_share"] > policies["round-robin"]["cached_token_share"] + 0.3
    assert policies["warmroute"]["ttft_mean_s"] < policies["round-robin"]["ttft_mean_s"] / 2
    advice = result["recommendation"]
    assert advice["reasons"][0] == "helps"
    assert "pays for this traffic" in advice["text"]
    assert result["alone"]["ttft_p90_s"] > policies["warmroute"]["ttft_p90_s"]


def test_where_nothing_repeats_it_does_not_and_that_is_said(tmp_path: Path) -> None:
    log = log_of(tmp_path, unrelated(requests=300, per_s=8.0))
    result = replay(log, ReplayPlan((2, 4), PAIR, ttft_p90_s=0.6), tmp_path, jobs=1)
    advice = result["recommendation"]
    assert result["reuse"]["reusable_share"] < 0.01
    assert "helps" not in advice["reasons"]
    assert "little-reuse" in advice["reasons"]
    assert "there is little for prefix-aware routing to find" in advice["text"]


def test_where_one_worker_is_enough_that_is_said(tmp_path: Path) -> None:
    log = log_of(tmp_path, shared_prefixes(prefixes=4, tokens=2_000, requests=60, per_s=0.5))
    result = replay(log, ReplayPlan((2,), PAIR), tmp_path, jobs=1)
    assert result["recommendation"]["reasons"] == ["one-worker-is-enough"]
    assert result["recommendation"]["workers_needed"] == {"round-robin": 1, "warmroute": 1}
    assert "would not help" in result["recommendation"]["text"]


def test_nothing_is_lost_and_nothing_is_computed_twice(tmp_path: Path) -> None:
    log = log_of(tmp_path, shared_prefixes(prefixes=5, tokens=1_000, requests=50, per_s=5.0))
    result = replay(log, ReplayPlan((2,), PAIR), tmp_path, jobs=1)
    for its in result["fleets"][0]["policies"].values():
        assert (its["summary"]["requests"], its["summary"]["failed"]) == (50, 0)
        assert its["summary"]["cached_token_share"] <= result["fleets"][0]["bounds"]["cached_token_share"] + 1e-9
    assert result["fleets"][0]["workload"]["prompt_tokens"] == result["reuse"]["prompt_tokens"]
    assert result["fleets"][0]["workload"]["answer_tokens"] == result["reuse"]["answer_tokens"] == 50 * 30


def test_the_same_log_gives_the_same_bytes_in_one_process_and_in_several(tmp_path: Path) -> None:
    log = log_of(tmp_path, shared_prefixes(prefixes=5, tokens=1_000, requests=40, per_s=5.0))
    one, two = (replay(log, ReplayPlan((3, 2, 2), PAIR), tmp_path, jobs=jobs) for jobs in (1, 2))
    assert json.dumps(one) == json.dumps(two)
    assert [fleet["workers"] for fleet in one["fleets"]] == [2, 3]


def test_a_faster_clock_brings_more_load(tmp_path: Path) -> None:
    log = log_of(tmp_path, unrelated(requests=80, per_s=2.0))
    slow, fast = (
        replay(log, ReplayPlan((2,), ("round-robin",), speed=speed), tmp_path, jobs=1) for speed in (1.0, 20.0)
    )
    assert fast["alone"]["ttft_mean_s"] > 2 * slow["alone"]["ttft_mean_s"]


def test_a_closed_loop_needs_sessions(tmp_path: Path) -> None:
    log = log_of(tmp_path, unrelated(requests=5, per_s=2.0))
    with pytest.raises(ConfigError, match="no sessions"):
        replay(log, ReplayPlan((2,), PAIR, closed_loop=True), tmp_path, jobs=1)
    lines = ({**line, "session_id": f"s{at % 2}"} for at, line in enumerate(unrelated(requests=6, per_s=2.0)))
    result = replay(log_of(tmp_path, lines), ReplayPlan((2,), PAIR, closed_loop=True), tmp_path, jobs=1)
    assert result["fleets"][0]["workload"]["sessions"] == 2


def test_what_fits_no_engine_is_an_error_or_left_out(tmp_path: Path) -> None:
    long = {"ts": 1, "prompt": "x" * 4_000_000}
    with pytest.raises(ConfigError, match="no request of the log fits"):
        replay(log_of(tmp_path, iter([long])), ReplayPlan((2,), PAIR), tmp_path, jobs=1)
    result = replay(
        log_of(tmp_path, iter([long, {"ts": 2, "prompt": "short"}])), ReplayPlan((2,), PAIR), tmp_path, jobs=1
    )
    assert result["log"]["left_out"] == {"too long": 1}
    assert result["log"]["answers_by_mean_share"] == 1.0


def test_prompts_that_the_log_has_cut_off_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    for longest, cut in ((200, 50), (10_000, None)):
        texts = [(f"{number} " * (number + 5) * 10)[:longest] for number in range(20)]
        path.write_text("\n".join(lines_0_10(text, name=f"r-{number}") for number, text in enumerate(texts)))
        reading, requests = open_log(str(path))
        assert cut_at(read_all(reading, requests, Blocking()).requests) == cut


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"workers": (1,)}, "two workers"),
        ({"engine": "qwen3-32b-h100-tp"}, "did you mean 'qwen3-32b-h100-tp2'"),
        ({"policies": ("warmrout",)}, "warmroute"),
        ({"speed": 0.0}, "speed"),
        ({"ttft_p90_s": float("nan")}, "ttft-p90"),
    ],
)
def test_plans_that_cannot_be(plan: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ReplayPlan(**plan)


def test_the_page_has_every_fleet(tmp_path: Path) -> None:
    log = log_of(tmp_path, shared_prefixes(prefixes=5, tokens=1_000, requests=30, per_s=5.0))
    result = replay(log, ReplayPlan((2, 3), PAIR), tmp_path, jobs=1)
    drawn = page(as_one_comparison(result))
    for label in ("warmroute, 2 workers", "round-robin, 3 workers"):
        assert label in drawn
    assert "One worker is enough" in drawn
