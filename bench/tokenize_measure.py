"""What does it cost to know a prompt's tokens: for a conversation's next round, for the router's loop, and at first?

- A conversation grows by 500 tokens a round to 100,000: to render and encode it again, beside a whole encode of the
  same text by the `tokenizers` wheel. The same for a text without special tokens, and for history cut from the front.
- A body of 400 kB that was never seen comes to a whole router: for how long is its loop held up?
- A text that was never seen, beside the wheel and other encoders, whose ids are compared with the wheel's as well.
- What the segment cache weighs.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import tokenize_conversations, tokenize_stall
from bench.environment import environment
from bench.tokenize_conversations import Growth
from bench.tokenize_corpus import LONG_KINDS, VOCABULARY
from bench.tokenize_encoders import OTHERS, OURS, REFERENCE, equality, fetch, file_of, install_others, throughput

RESULT = Path(__file__).parent / "results" / "tokenize.json"
TOKENIZERS = (
    "llama3",
    "llama3_1",
    "qwen3",
    "deepseek_v3",
    "gemma3",
    "mistral_nemo",
    "gptoss",
    "gpt4o",
    "llama2",
)
"""Over which ids are compared; the first is what is timed unless another is named."""
LIMITS = {"incremental_over_full_ratio": 0.05, "stall_ms_p99": 5.0}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    growth: Growth = field(default_factory=Growth)
    bodies: int = 120
    """Of each kind, for the stall of the loop."""
    repeats: int = 4
    """Long texts of each kind for each encoder."""
    texts: int = 4_800
    """Odd ones, compared for each tokenizer; see also `long_texts`."""
    long_texts: int = 4
    compared: Sequence[str] = TOKENIZERS
    cache_bytes: int = 256 << 20


QUICK = Scale(
    growth=Growth(tokens=4_000, window=3_000, window_rounds=3, conversations=1),
    bodies=2,
    repeats=1,
    texts=160,
    long_texts=1,
    compared=TOKENIZERS[:1],
    cache_bytes=4 << 20,
)


def measure(tokenizer: str, seed: int, scale: Scale, with_others: bool) -> dict[str, Any]:
    """All of it, as one object."""
    fetch(sorted({*scale.compared, tokenizer, VOCABULARY}))
    if with_others:
        install_others()
    names = (OURS, REFERENCE, *(OTHERS if with_others else ()))
    started = environment()
    cores = sorted(os.sched_getaffinity(0))
    say("a router and long bodies")
    parts: dict[str, Any] = {"stall": tokenize_stall.measure(tokenizer, scale.bodies, seed, cores)}
    parts["stall_one_core"] = tokenize_stall.measure(tokenizer, scale.bodies, seed, cores[-1:])
    say("conversations")
    parts["conversations"] = tokenize_conversations.measure(tokenizer, scale.growth, seed, say)
    say("texts that were never seen")
    parts["cold"] = throughput(names, tokenizer, scale.repeats, cores, seed)
    say(f"the cache, up to {scale.cache_bytes >> 20} MiB")
    parts["memory"] = memory(tokenizer, scale.cache_bytes, seed)
    parts["equality"] = {}
    for each in scale.compared:
        say(f"ids of {scale.texts:,} texts by {each}")
        asked = [name for name in names if name != REFERENCE]
        parts["equality"][each] = equality(asked, each, scale.texts, scale.long_texts, seed)
    return {
        "question": "what it costs to know a prompt's tokens: the next round, the loop's longest stall, at first",
        **headline(parts),
        "limits": LIMITS,
        "tokenizer": tokenizer,
        **parts,
        "environment": started,
        "seed": seed,
        "repeats": {"conversations": scale.growth.conversations, "bodies": scale.bodies, "cold": scale.repeats},
    }


def memory(tokenizer: str, bound: int, seed: int) -> dict[str, Any]:
    """See `bench.tokenize_memory`."""
    command = [sys.executable, "-m", "bench.tokenize_memory", str(file_of(tokenizer).parent)]
    command += ["--bound", str(bound), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    weighed: dict[str, Any] = json.loads(done.stdout)
    return weighed


def headline(parts: dict[str, Any]) -> dict[str, Any]:
    """The figures that are quoted, taken from the parts."""
    chat = parts["conversations"]["chat"]
    return {
        "incremental_over_full_ratio": chat["over_full_ratio"]["median"],
        "incremental_over_full_ratio_p99": chat["over_full_ratio"]["p99"],
        "incremental_encode_over_full_ratio": chat["encode_over_full_ratio"]["median"],
        "incremental_ms_at_longest": chat["longest"]["ms"],
        "full_ms_at_longest": chat["longest"]["full_ms"],
        "found_bytes_share": chat["found_bytes_share"],
        **_stalls(parts["stall"]),
        "stall_ms_max_one_core": _stalls(parts["stall_one_core"])["stall_ms_max"],
        **_cold(parts["cold"]["kinds"]),
        "cache_bytes_per_token": parts["memory"]["bytes_per_token"],
        "cache_resident_bytes_per_token": parts["memory"]["resident_bytes_per_token"],
        "different_ids": {
            name: sum(found[name].get("different", 0) for found in parts["equality"].values() if name in found)
            for name in (OURS, *OTHERS)
            if any(name in found for found in parts["equality"].values())
        },
    }


def _stalls(stall: dict[str, Any]) -> dict[str, float]:
    """Over the bodies of all kinds; the 99th percentile is of each body's longest."""
    kinds = [found["stall_ms"] for kind, found in stall.items() if kind != "idle"]
    return {
        "stall_ms_max": max(each["max"] for each in kinds),
        "stall_ms_p99": max(each["p99"] for each in kinds),
        "stall_ms_p50": max(each["median"] for each in kinds),
        "stall_ms_idle_max": stall["idle"]["max"],
    }


def _cold(kinds: dict[str, Any]) -> dict[str, float]:
    """Of each encoder and kind, its time over the wheel's, median."""
    return {
        f"{name}_over_tokenizers_ratio{'' if kind == LONG_KINDS[0] else '_' + kind}": found["over_tokenizers_ratio"][
            "median"
        ]
        for kind in LONG_KINDS
        for name, found in kinds[kind].items()
        if name != REFERENCE
    }


def say(what: str) -> None:
    print(f"tokenize: {what}", file=sys.stderr, flush=True)


def show(result: dict[str, Any]) -> Iterator[str]:
    """The figures of the headline, a line each."""
    for name, value in result.items():
        if isinstance(value, float):
            limit = f"   limit {LIMITS[name]:g}" if name in LIMITS else ""
            yield f"{name:40} {value:14,.3f}{limit}"
    for name, different in result["different_ids"].items():
        yield f"{'different ids, ' + name:40} {different:10,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it works; writes no result")
    parser.add_argument("--without-others", action="store_true", help="measure ours and the tokenizers wheel alone")
    parser.add_argument(
        "--tokenizer", choices=TOKENIZERS, default=TOKENIZERS[0], help="what is timed (default: llama3)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help=f"where the result goes (default: {RESULT.name})")
    options = parser.parse_args()
    scale = QUICK if options.quick else Scale()
    result = measure(options.tokenizer, options.seed, scale, not options.without_others)
    if result["environment"]["native_build"] != "release":
        say("this is a debug build, its figures mean nothing; run: make build")
    out = options.out or (None if options.quick or options.tokenizer != TOKENIZERS[0] else RESULT)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
        say(f"wrote {out}")
    print(json.dumps(result) if options.json else "\n".join(show(result)))
