"""How far is the simulator from what happens? The same work, simulated and really sent, beside each other.

Really sent: emulated engines as processes, which publish KV events over ZeroMQ, a router as it is served, and a client
that streams each answer over HTTP. The engines are the model that the simulator has, driven by the clock. So what is
compared is everything else: the order and the times in which things happen, and what the router knows when it decides.

    .venv/bin/python bench/simulator_trust.py --json
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.environment import environment, spread
from bench.simulator_trust_client import Client
from bench.simulator_trust_workload import ENGINE, WORKERS, Conversations, answer_text

from warmroute.demo.fleet import running_fleet
from warmroute.policy import POLICIES
from warmroute.simulator.arm import Arm
from warmroute.simulator.ledger import NOT_YET, Ledger
from warmroute.simulator.run import simulate
from warmroute.simulator.summary import stage_figures

RESULT = Path(__file__).parent / "results" / "simulator_trust.json"
# As both are served: with KV events, and with requests waiting in the router while every worker is full.
ARMS = {
    name: Arm(name, "as served", POLICIES[name], "warmroute.policy", holds_back=True)
    for name in ("warmroute", "round-robin")
}
FIGURES = (
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "tpot_mean_s",
    "cached_token_share",
    "predicted_exact_share",
    "output_tokens_per_s",
    "load_ratio",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="a few seconds of work, once; the result is not kept")
    parser.add_argument("--repeats", type=int, default=5, help="how often all is sent, with seeds from 0 (default: 5)")
    parser.add_argument("--simulations", type=int, default=9, help="how often it is simulated, likewise (default: 9)")
    options = parser.parse_args()
    workload = Conversations()
    if options.quick:
        workload = replace(workload, over_s=2.0, turns=2, think_s=(0.1, 0.3))
    result = measured(workload, options.simulations, 1 if options.quick else options.repeats)
    if not options.quick:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result) if options.json else f"wrote {RESULT}")


def measured(workload: Conversations, simulations: int, repeats: int) -> dict[str, Any]:
    """Both sides of each policy, with equal work every time; the router's chance and the moments differ."""
    where = environment()
    policies = {name: _policy(workload, arm, simulations, repeats) for name, arm in ARMS.items()}
    return {
        "question": "how far simulated times to first token are from those over real sockets, on the same work",
        "environment": where | {"load_1min_at_end": round(os.getloadavg()[0], 2)},
        "simulations": simulations,
        "repeats": repeats,
        "workload": _about(workload),
        "policies": policies,
    }


def _about(workload: Conversations) -> dict[str, Any]:
    turns = [turn for stage in workload.stages() for session in stage.sessions for turn in session.turns]
    return {
        "workers": WORKERS,
        "spread_s": workload.spread_s,
        "engine_kv_tokens": ENGINE.capacity_tokens,
        "requests": len(turns),
        "prompt_tokens": sum(len(turn.prompt) for turn in turns),
        "output_tokens": sum(len(turn.answer) for turn in turns),
    }


def _policy(workload: Conversations, arm: Arm, simulations: int, repeats: int) -> dict[str, Any]:
    simulated = [simulate(workload, arm, seed).ledger for seed in range(simulations)]
    sent = [asyncio.run(_sent(workload, arm, seed)) for seed in range(repeats)]
    found = {"simulated": [_run(each) for each in simulated], "sent": [_run(each) for each in sent]}
    return found | {
        "figures": {name: _beside(found, name) for name in FIGURES},
        "ks": _distances([_ttfts(each) for each in simulated], [_ttfts(each) for each in sent]),
    }


async def _sent(workload: Conversations, arm: Arm, seed: int) -> Ledger:
    """Fresh processes, the whole work, and what the client saw of it."""
    (stage,) = workload.stages(seed)
    with tempfile.TemporaryDirectory() as logs:
        async with running_fleet(arm.name, WORKERS, ENGINE, seed, Path(logs), speedup=1.0) as fleet:
            client = Client(fleet.url, WORKERS, answer_text)
            await client.play(stage)
    assert client.strange == 0, f"{client.strange} answers are not those of the workload"
    return client.ledger


def _run(ledger: Ledger) -> dict[str, Any]:
    """Of one run the figures, and how the requests were spread over workers, which have no names in common."""
    figures, counts = stage_figures(ledger, 0, None), [0] * WORKERS
    for worker in ledger.requests.worker:
        counts[worker] += worker >= 0
    told = {name: _rounded(getattr(figures, name)) for name in ("requests", "failed", *FIGURES)}
    return told | {"requests_per_worker": sorted(counts, reverse=True)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _beside(found: dict[str, list[dict[str, Any]]], figure: str) -> dict[str, Any]:
    """One figure's spread over the repeats on both sides, and how far the medians are apart, as a part of the sent."""
    simulated, sent = (spread([run[figure] for run in found[side]]) for side in ("simulated", "sent"))
    gap = simulated["median"] / sent["median"] - 1 if sent["median"] else None
    return {"simulated": simulated, "sent": sent, "gap": _rounded(gap)}


def _ttfts(ledger: Ledger) -> list[float]:
    requests = ledger.requests
    times = zip(requests.arrived_at, requests.first_at, strict=True)
    return sorted(first - arrived for arrived, first in times if first != NOT_YET)


def _distances(simulated: Sequence[list[float]], sent: Sequence[list[float]]) -> dict[str, Any]:
    """Between the two sides, and beside it between runs of one side, which differ by chance alone."""
    size, pairs = len(sent[0]), list(product(simulated, sent))
    later_s = [median(theirs) - median(mine) for mine, theirs in pairs]
    shifted = [(mine, [ttft - late for ttft in theirs]) for (mine, theirs), late in zip(pairs, later_s, strict=True)]
    return {
        "between": spread([_rounded_ks(mine, theirs) for mine, theirs in pairs]),
        # What sockets and processes cost every request alike is a shift; this is the distance without one.
        "sent_later_s": spread([round(late, 5) for late in later_s]),
        "between_less_shift": spread([_rounded_ks(mine, theirs) for mine, theirs in shifted]),
        "among_simulated": _among(simulated),
        "among_sent": _among(sent),
        # Above this two samples of equal size are not of one distribution, with an error of 5 %.
        "critical_5_percent": round(1.358 * (2 / size) ** 0.5, 4),
    }


def _among(runs: Sequence[list[float]]) -> dict[str, float] | None:
    pairs = [_rounded_ks(one, other) for one, other in combinations(runs, 2)]
    return spread(pairs) if pairs else None


def _rounded_ks(one: Sequence[float], other: Sequence[float]) -> float:
    return round(kolmogorov_smirnov(one, other), 4)


def kolmogorov_smirnov(one: Sequence[float], other: Sequence[float]) -> float:
    """The greatest difference between the shares of two samples, both in order, that are at most some value."""
    most, ones, others = 0.0, 0, 0
    for value in sorted({*one, *other}):
        ones, others = bisect_right(one, value, ones), bisect_right(other, value, others)
        most = max(most, abs(ones / len(one) - others / len(other)))
    return most


if __name__ == "__main__":
    main()
