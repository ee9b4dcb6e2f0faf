"""What does prefix-aware routing give on the demo's workload, and how much does that vary from seed to seed?

Runs `warmroute demo --json` once per seed; random routing in the same run is the baseline.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.environment import environment, spread

RESULT = Path(__file__).parent / "results" / "demo.json"
FIGURES = ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "cached_token_share", "requests_per_s", "load_max_over_mean")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds, from 0 (default: 3)")
    seeds = range(parser.parse_args().seeds)
    demos = [demo(seed) for seed in seeds]
    result = {
        "question": "time to first token and cached tokens under each policy, on the demo's workload",
        "environment": environment(),
        "seeds": list(seeds),
        "workload": {key: value for key, value in demos[0]["workload"].items() if key != "seed"},
        "policies": policies(demos),
        "ttft_p90_ratio_random_over_warmroute": spread([d["ttft_p90_ratio_random_over_warmroute"] for d in demos]),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {RESULT}")


def demo(seed: int) -> dict[str, Any]:
    """One run of the demo; its progress goes to the terminal."""
    command = [sys.executable, "-m", "warmroute", "demo", "--json", "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def policies(demos: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The spread of each figure over the seeds, by policy."""
    found: dict[str, dict[str, Any]] = {}
    for place, run in enumerate(demos[0]["runs"]):
        runs = [demo["runs"][place] for demo in demos]
        assert all(other["policy"] == run["policy"] for other in runs)
        found[run["policy"]] = {figure: spread([other[figure] for other in runs]) for figure in FIGURES}
        found[run["policy"]]["failed"] = sum(other["failed"] for other in runs)
    return found


if __name__ == "__main__":
    main()
