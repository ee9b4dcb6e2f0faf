"""The example of a policy of one's own is what the documentation shows, and does what that says."""

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.standby import PATIENCE_S, Standby

from policy.test_policies import candidate
from simulator.made_workloads import write_trace
from warmroute.policy import POLICIES, Candidate, PolicyRequest, cheapest
from warmroute.worker import Load, Rates

_ROOT = Path(__file__).resolve().parents[2]
_FILE = (_ROOT / "examples" / "standby.py").read_text()
_PAGE = (_ROOT / "docs" / "policies.md").read_text()
_MOST_LINES = 30


def test_the_example_in_the_documentation_is_the_file() -> None:
    assert re.findall(r"^```python\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL) == [_FILE]
    assert _FILE.count("\n") <= _MOST_LINES


def test_all_that_a_policy_is_given_is_explained_and_nothing_else() -> None:
    section = _PAGE.partition("## What it is given")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert explained == {name for given in (PolicyRequest, Candidate, Load, Rates) for name in parts(given)}


def parts(given: type[Any]) -> set[str]:
    fields = {field.name for field in dataclasses.fields(given)}
    return fields | {name for name, value in vars(given).items() if isinstance(value, property)}


def named(name: str, **load: int) -> Candidate:
    made = candidate(**load)
    made.worker.name = name
    return made


def chosen(*candidates: Candidate) -> str:
    rng = random.Random(0)
    costs = Standby().costs(PolicyRequest(1601, 100.0, 0), candidates, rng)
    return candidates[cheapest(costs, rng)].worker.name


def test_a_rented_worker_is_left_idle_until_the_wait_elsewhere_is_too_long() -> None:
    rate = 10_000
    assert chosen(named("standby-1"), named("own", queued_tokens=int(0.9 * PATIENCE_S * rate))) == "own"
    assert chosen(named("standby-1"), named("own", queued_tokens=int(1.1 * PATIENCE_S * rate))) == "standby-1"


def test_its_costs_are_the_routers_own_and_the_rent() -> None:
    request, fleet = PolicyRequest(1601, 100.0, 0), [named("standby-1", held=9), named("own", requests=3)]
    own = POLICIES["warmroute"]().costs(request, fleet, random.Random(0))
    costs = Standby().costs(request, fleet, random.Random(0))
    assert [cost.total for cost in costs] == [own[0].total + PATIENCE_S, own[1].total]
    assert [dict(cost.terms) for cost in costs] == [
        {**own[0].terms, "standby_s": PATIENCE_S},
        {**own[1].terms, "standby_s": 0.0},
    ]


def simulated(folder: Path, *flags: str) -> dict[str, Any]:
    """The example beside the router's own policy, for prompts unlike each other, on two workers; one is rented."""
    trace = write_trace(folder / "trace.jsonl", requests=200, prefixes=range(200))
    policies = ("--policy", "warmroute", "--policy", "examples.standby:Standby")
    done = subprocess.run(
        [sys.executable, "-m", "warmroute", "simulate", "--workload", str(trace), "--workers", "2", *policies, *flags,
         "--jobs", "1", "--json"],
        cwd=_ROOT, env=os.environ | {"STANDBY": "worker-1"}, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)["policies"]
    return told


def uneven(policy: dict[str, Any]) -> float:
    """The requests of the worker that had the most, over the mean: 2 where one of two had them all."""
    ratio: float = policy["summary"]["load_ratio"]
    return ratio


def test_in_the_simulator_light_traffic_stays_off_the_rented_worker_and_heavy_traffic_does_not(tmp_path: Path) -> None:
    light = simulated(tmp_path, "--speed", "0.2")
    own = light["examples.standby:Standby"]
    assert own["about"] == Standby.__doc__
    assert uneven(light["warmroute"]) < 1.5
    assert uneven(own) == 2.0
    assert max(own["runs"][0]["series"]["load"]["workers"][1]) == 0.0
    heavy = simulated(tmp_path, "--speed", "2")
    assert uneven(heavy["examples.standby:Standby"]) < 1.9
