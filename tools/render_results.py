"""Writes the figures of bench/results into the README, between its markers; `--check` only compares.

No figure stands in a document that was not rendered from a result.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULT = ROOT / "bench" / "results" / "demo.json"


def rendered(readme: str, result: dict[str, Any]) -> str:
    """The README with the demo's table of this result."""
    block = f"<!-- demo:begin -->\n{demo_table(result)}\n<!-- demo:end -->"
    text, count = re.subn(r"<!-- demo:begin -->.*?<!-- demo:end -->", lambda _: block, readme, flags=re.DOTALL)
    assert count == 1, "README.md must have one pair of demo markers"
    return text


def demo_table(result: dict[str, Any]) -> str:
    """The median over the seeds, and on what it was measured."""
    rows = [
        "| policy | TTFT p50 | TTFT p90 | TTFT p99 | cached tokens | requests/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(_row(policy, figures) for policy, figures in result["policies"].items()),
    ]
    workload, machine = result["workload"], result["environment"]
    ratio = result["ttft_p90_ratio_random_over_warmroute"]
    rows += [
        "",
        f"{workload['conversations']} agent conversations on {workload['workers']} emulated engines at "
        f"{workload['speedup']:g} x the speed of a small pod, medians of {ratio['repeats']} seeds, wall-clock, on "
        f"{machine['cores']} cores ({machine['cpu']}). Nine of ten requests have their first token "
        f"{ratio['min']:.0f} to {ratio['max']:.0f} times sooner than under random routing. "
        "The raw figures are in [bench/results/demo.json](bench/results/demo.json).",
    ]
    return "\n".join(rows)


def _row(policy: str, figures: dict[str, Any]) -> str:
    times = (f"{1000 * figures[name]['median']:,.0f} ms" for name in ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"))
    share = f"{figures['cached_token_share']['median']:.0%}"
    return f"| `{policy}` | {' | '.join(times)} | {share} | {figures['requests_per_s']['median']:.1f} |"


def main() -> int:
    """Render, or compare and say what to do."""
    readme = README.read_text()
    wanted = rendered(readme, json.loads(RESULT.read_text()))
    if "--check" in sys.argv[1:]:
        if readme != wanted:
            print("README.md does not show bench/results; run: python tools/render_results.py", file=sys.stderr)
        return int(readme != wanted)
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
