"""What workers say of themselves is read in every form they say it, and nothing is made up."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from warmroute.gateway.discovery import (
    WorkerMetrics,
    configured_sources,
    reachable,
    read_kv_event_sources,
    read_metrics,
    read_models,
    read_server_info,
)
from warmroute.kv_event import EventSource
from warmroute.worker import WorkerFacts, WorkerSpec

_WORKER = "http://10.1.2.3:8000"

_VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",num_gpu_blocks="160",enable_prefix_caching="True"} 1.0
"""


def test_vllm_metrics_over_all_ranks() -> None:
    assert read_metrics(_VLLM) == WorkerMetrics(9, 0.25, 32, 160, waiting=2)


def test_sglang_metrics() -> None:
    text = 'sglang:num_running_reqs{m="x"} 1.0\nsglang:num_queue_reqs{m="x"} 5.0\nsglang:token_usage{m="x"} 0.5\n'
    assert read_metrics(text) == WorkerMetrics(6, 0.5, None, None, waiting=5)


def test_the_capacity_is_that_of_one_rank() -> None:
    """vLLM sums its blocks over the ranks and says the sum for each of them."""
    text = "".join(
        f'vllm:cache_config_info{{block_size="16",engine="{rank}",num_gpu_blocks="4000"}} 1.0\n' for rank in range(4)
    )
    assert read_metrics(text).capacity_blocks == 1_000


def test_metrics_without_the_figures_tell_nothing() -> None:
    assert read_metrics("up 1\n") == WorkerMetrics()
    assert read_metrics("<html>not found</html>") == WorkerMetrics()
    assert read_metrics("vllm:num_requests_running NaN\nvllm:num_requests_running_max 3\n") == WorkerMetrics()


_VALUES = st.integers(0, 10**6) | st.floats(0, 1e6, allow_nan=False)
_LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\x85"), max_size=6)


@given(st.lists(st.tuples(st.sampled_from(["running", "waiting", "other"]), _LABELS, _VALUES), max_size=8))
def test_the_quick_reading_equals_prometheus_clients_own(samples: list[tuple[str, str, float]]) -> None:
    lines = []
    for kind, label, value in samples:
        escaped = label.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'vllm:num_requests_{kind}{{model_name="{escaped}",engine="0"}} {value}')
    page = "\n".join(lines) + "\n"
    totals = {"running": 0.0, "waiting": 0.0}
    seen = set()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            kind = sample.name.removeprefix("vllm:num_requests_")
            totals[kind] = totals.get(kind, 0.0) + sample.value
            seen.add(kind)
    expected = int(totals["running"] + totals["waiting"]) if "running" in seen else None
    assert read_metrics(page).requests == expected


def test_figures_that_nobody_means_are_left_out() -> None:
    assert read_metrics("vllm:num_requests_running NaN\n") == WorkerMetrics()
    assert read_metrics("vllm:num_requests_running 1e999\n") == WorkerMetrics()
    for digits in (str(2**31), "9" * 30, "9" * 10_000):
        text = f'vllm:cache_config_info{{block_size="{digits}",num_gpu_blocks="160"}} 1.0\n'
        assert read_metrics(text) == WorkerMetrics(capacity_blocks=160)
    assert read_server_info({"page_size": 2**70}, _WORKER) == (WorkerFacts(), ())


def test_models_and_adapters() -> None:
    body = {"data": [{"id": "m", "max_model_len": 4096}, {"id": "ad", "parent": "m"}, {"no": "id"}, 7]}
    assert read_models(body) == ({"m": False, "ad": True}, 4096)


def test_vllm_event_sources_by_rank() -> None:
    body = {
        "0": {"publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5567", "topic": "kv"},
        "1": {"publisher": "zmq", "endpoint": "tcp://10.9.9.9:5558", "replay_endpoint": None, "topic": ""},
    }
    assert read_kv_event_sources(body, _WORKER) == (
        EventSource("tcp://10.1.2.3:5557", "tcp://10.1.2.3:5567", "kv", rank=0),
        EventSource("tcp://10.9.9.9:5558", None, "", rank=1),
    )
    assert read_kv_event_sources({"10": body["0"], "9": body["1"], "x": body["0"], "9" * 5000: body["0"]}, _WORKER) == (
        EventSource("tcp://10.9.9.9:5558", None, "", rank=9),
        EventSource("tcp://10.1.2.3:5557", "tcp://10.1.2.3:5567", "kv", rank=10),
    )
    (only,) = read_kv_event_sources({"3": body["0"]}, _WORKER)
    assert only.rank is None, "an engine with one rank is not addressed by it"
    assert read_kv_event_sources({"0": {"publisher": "null", "endpoint": "tcp://*:5557"}}, _WORKER) == ()


def test_sglang_server_info() -> None:
    body = {
        "page_size": 64,
        "max_total_num_tokens": 6400,
        "kv_events": {
            "publisher": "zmq",
            "endpoint_host": "0.0.0.0",
            "endpoint_port_base": 5557,
            "replay_endpoint_port_base": 6557,
            "topic": "t",
            "block_size": 64,
            "dp_size": 2,
        },
    }
    facts, sources = read_server_info(body, _WORKER)
    assert facts == WorkerFacts(block_size=64, capacity_blocks=100)
    assert sources == (
        EventSource("tcp://10.1.2.3:5557", "tcp://10.1.2.3:6557", "t", rank=0),
        EventSource("tcp://10.1.2.3:5558", "tcp://10.1.2.3:6558", "t", rank=1),
    )
    assert read_server_info({"kv_events": None}, _WORKER) == (WorkerFacts(), ())


def test_a_configured_publisher_is_one_for_each_rank_on_the_ports_from_there() -> None:
    spec = WorkerSpec(_WORKER, kv_events="tcp://h:5557", kv_replay="tcp://h:5657", kv_topic="t")
    assert configured_sources(WorkerSpec(_WORKER)) == ()
    assert configured_sources(spec) == (EventSource("tcp://h:5557", "tcp://h:5657", "t"),)
    assert configured_sources(dataclasses.replace(spec, kv_ranks=2)) == (
        EventSource("tcp://h:5557", "tcp://h:5657", "t", rank=0),
        EventSource("tcp://h:5558", "tcp://h:5658", "t", rank=1),
    )
    without_replay = dataclasses.replace(spec, kv_replay=None, kv_ranks=3)
    assert [source.replay_endpoint for source in configured_sources(without_replay)] == [None] * 3


@pytest.mark.parametrize(
    ("endpoint", "worker", "expected"),
    [
        ("tcp://*:1", "http://h:8000", "tcp://h:1"),
        ("tcp://0.0.0.0:1", "http://h:8000", "tcp://h:1"),
        ("tcp://[::]:1", "http://[fd00::2]:8000", "tcp://[fd00::2]:1"),
        ("tcp://127.0.0.1:1", "http://h:8000", "tcp://127.0.0.1:1"),
        ("ipc:///tmp/x", "http://h:8000", "ipc:///tmp/x"),
        ("tcp://[::", "http://h:8000", "tcp://[::"),
    ],
)
def test_a_wildcard_host_becomes_the_workers_own(endpoint: str, worker: str, expected: str) -> None:
    assert reachable(endpoint, worker) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON, st.sampled_from(["data", "kv_events", "0"]))
def test_any_answer_is_read_without_a_fault(inner: Any, key: str) -> None:
    endpoint = {"endpoint": f"tcp://{inner}", "endpoint_port_base": 5557, "endpoint_host": inner}
    for body in (inner, {key: inner}, {key: [inner]}, {key: endpoint | {"endpoint_port_base": inner}}, {key: endpoint}):
        read_models(body)
        read_kv_event_sources(body, _WORKER)
        read_server_info(body, _WORKER)
