"""The measuring scripts run, and their result has what the documents render. What they measure here means nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]

_INDEX_FIGURES = {
    "lookup_us_p50",
    "lookup_us_p99",
    "lookup_us_p50_6250",
    "lookup_us_p99_6250",
    "warmroute_floor_us_p50",
    "store_blocks_per_s",
    "store_blocks_per_s_lists",
    "bytes_per_block",
    "after_removal_memory_ratio",
}
_BESIDE_DYNAMO = {
    "dynamo_lookup_us_p50",
    "dynamo_floor_us_p50",
    "lookup_ratio_dynamo_over_warmroute",
    "lookup_ratio_net_of_floors",
    "dynamo_store_blocks_per_s",
}


def run(script: str, *flags: str, timeout_s: float = 50) -> dict[str, Any]:
    """The one JSON object that a quick run prints."""
    command = [sys.executable, f"bench/{script}.py", "--json", "--quick", *flags]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_the_index_is_measured() -> None:
    shown = run("prefix_index", "--without-dynamo")
    assert all(shown[name] > 0 for name in _INDEX_FIGURES)
    assert all(shown[name] is None for name in _BESIDE_DYNAMO)
    assert shown["after_removal"].keys() == {"rss_start", "rss_end", "nodes_start", "nodes_end"}
    assert shown["after_removal_nodes"] == shown["after_removal"]["nodes_start"] == 0
    assert {row["workers"] for row in shown["scaling"]["workers"]} == {8, 16}
    assert {row["tokens"] for row in shown["scaling"]["prompt_tokens"]} == {1_024, 4_096}


def test_decisions_are_measured() -> None:
    shown = run("decision")
    fleets = ["4", "40"]
    assert [list(shown[f"decision_us_{figure}"]) for figure in ("p50", "p99", "max")] == [fleets] * 3
    for fleet in shown["fleets"]:
        assert all(count > 0 for count in fleet["requests_in_flight"].values())
        assert fleet["settle_us"]["repeats"] > 0
        for found in fleet["decision_us"].values():
            assert found.keys() == shown["prompt_tokens"].keys() == fleet["parts_us"].keys()
            for of_length in found.values():
                assert 0 < of_length["all"]["median"] <= of_length["all"]["p99"] <= of_length["all"]["max"]
                assert of_length["by_case"].keys() == {"nobody", "one", "some", "head"}


def test_the_intake_of_events_is_measured() -> None:
    shown = run("kv_ingest", "--without-dynamo")
    assert shown["warmroute_blocks_per_s"] > 0
    assert shown["dynamo_blocks_per_s"] is None
    assert shown["loop_stall_ms_max"] >= shown["loop_stall_ms_p99"] >= 0
    assert shown["frames"] * shown["frame_blocks"] == shown["blocks"]


@pytest.mark.timeout(300)  # the load generator may have to be built
def test_the_relay_is_measured() -> None:
    shown = run("relay", "--without-peers", timeout_s=280)
    assert shown["cpu_ratio_over_best_peer"]["200B"] is None
    assert shown["cells"].keys() == {"direct", "warmroute"}
    cells = shown["cells"]["warmroute"][0]
    assert cells.keys() == {"200B", "streams16", "8kB-with-pauses", "200B-one-core"}
    for cell in cells.values():
        assert cell["requests"] > 0
        assert cell["errors"] == {}
        assert cell["bodies_changed"] == 0
    counted = shown["mechanism"]["warmroute"][0]
    assert counted["event_subscribers"] == shown["workers"]
    assert shown["idle_streams"]["warmroute"]["streams"] == 20
    assert shown["one_process"][0]["workers"] == 2
