"""Every policy on every workload, in virtual time, with three seeds each: what the router's policies are judged by.

One JSON object goes to bench/results/matrix.json (docs/matrix.md is rendered from it): of each workload the bounds, and
of each policy the means over the seeds with the least and the greatest. It takes most of an hour on two cores; it is
written after each workload, so an interrupted one has what was done. Equal commits give equal figures.

With --onto the rows of policies that are not asked for are taken from an earlier result of the same seeds: a change of
one policy changes no other's.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.environment import environment

from warmroute.errors import ConfigError
from warmroute.simulator.comparison import Question, compare
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.task import NamedWorkload
from warmroute.simulator.workloads import WORKLOADS

RESULT = Path(__file__).parent / "results" / "matrix.json"
_FIRST_SEED = 1
# What of each policy is kept, with its spread over the seeds.
_FIGURES = (
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "output_tokens_per_s",
    "cached_token_share",
    "queue_mean",
    "held_mean",
    "kv_usage_mean",
    "load_ratio",
    "failed",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and write the result; 1 where a workload was left out for want of its trace."""
    options = _parser().parse_args(arguments)
    begun, missing = time.monotonic(), []
    earlier = _earlier(options)
    result: dict[str, Any] = {
        "question": "what does each policy make of each workload?",
        "seeds": list(range(_FIRST_SEED, _FIRST_SEED + options.seeds)),
        "policies": {name: {"about": arm.about, "source": arm.source} for name, arm in ARMS.items()},
        "environment": environment(),
        **({} if earlier is None else {"earlier": earlier["environment"], "asked": options.policy}),
        "workloads": {},
    }
    entries = [entry for entry in WORKLOADS if not options.workload or entry.name in options.workload]
    for position, entry in enumerate(entries):
        try:
            entry.open(options.traces)
        except ConfigError as error:
            missing.append(f"{entry.name}: {error}")
            continue
        told = compare(_question(entry.name, options.traces, result["seeds"], options.policy), options.jobs)
        result["workloads"][entry.name] = _kept(told) if earlier is None else _onto(earlier, _kept(told))
        elapsed = time.monotonic() - begun
        print(f"{position + 1} of {len(entries)} after {elapsed / 60:.1f} min: {entry.name}", file=sys.stderr)
        _write(result, options.out)
    if missing:
        print("left out:", *missing, sep="\n  ", file=sys.stderr)
    if options.json:
        print(json.dumps(result))
    return int(bool(missing))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--seeds", type=int, default=3, metavar="K", help="how many (default: 3)")
    parser.add_argument("--jobs", type=int, metavar="N", help="simulations at once (default: as many as cores)")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of recorded traces")
    parser.add_argument("--workload", action="append", metavar="NAME", help="this one only; may be repeated")
    parser.add_argument("--policy", action="append", metavar="NAME", help="this one only; may be repeated")
    parser.add_argument("--onto", type=Path, metavar="FILE", help="an earlier result, of which --policy is done anew")
    parser.add_argument("--out", type=Path, default=RESULT, metavar="FILE", help="where the result goes")
    return parser


def _earlier(options: argparse.Namespace) -> dict[str, Any] | None:
    """The result that this one is to stand on; SystemExit where that cannot be."""
    if options.onto is None:
        return None
    found: dict[str, Any] = json.loads(options.onto.read_text())
    if len(found["seeds"]) != options.seeds or not options.policy:
        sys.exit(f"{options.onto} has {len(found['seeds'])} seeds: ask for as many, and name policies with --policy")
    return found


def _onto(earlier: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """A workload's rows, those that were not done anew as they were; in the order of the list."""
    before = earlier["workloads"].get(told["name"])
    if before is None or before["bounds"] != told["bounds"]:
        sys.exit(f"{told['name']}: the earlier result was another workload; run it whole")
    rows = before["policies"] | told["policies"]
    return told | {"policies": {name: rows[name] for name in ARMS if name in rows}}


def _question(name: str, traces: Path | None, seeds: Sequence[int], policies: Sequence[str] | None) -> Question:
    return Question(NamedWorkload(name, traces=traces), list(policies or ARMS), list(seeds))


def _kept(told: dict[str, Any]) -> dict[str, Any]:
    """Of a comparison what the tables need: no stages, no lines."""
    return {
        **told["workload"],
        "workers": told["workers"],
        "bounds": {name: value for name, value in told["bounds"].items() if name != "by_seed"},
        "policies": {
            name: {
                **{figure: policy["summary"][figure] for figure in _FIGURES},
                "spread": {figure: policy["summary"]["spread"][figure] for figure in _FIGURES},
                "distance": policy["distance"],
            }
            for name, policy in told["policies"].items()
        },
    }


def _write(result: dict[str, Any], out: Path) -> None:
    beside = out.with_suffix(".part")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    beside.replace(out)


if __name__ == "__main__":
    sys.exit(main())
