"""What the segment cache weighs, in a process of its own: one JSON object on stdout.

Resident bytes grow by more than the cache, since the encoder has a cache of words as well and what is freed is not
always given back; so the growth is told at three points: when some text has woken everything, when the cache is nearly
full, and when twice as much has gone through it as it holds.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.tokenize_corpus import paragraphs, take

from warmroute.tokenizer import LocalTokenizer

TEXT_BYTES = 40_000
NEARLY_FULL = 0.9


def new_texts(seed: int) -> Iterator[str]:
    pool = paragraphs("reordered english", random.Random(seed))
    while True:
        yield take(pool, TEXT_BYTES)


def fill(tokenizer: LocalTokenizer, bound: int, seed: int) -> dict[str, Any]:
    texts = new_texts(seed)
    tokenizer.encode_text(next(texts), False)
    start, kept = _resident_bytes(), tokenizer.segment_stats().bytes
    tokens = 0
    for text in texts:
        tokens += len(tokenizer.encode_text(text, False))
        if tokenizer.segment_stats().bytes > NEARLY_FULL * bound:
            break
    full = tokenizer.segment_stats()
    shown = {
        "tokens": tokens,
        "segments": full.segments,
        "bytes": full.bytes - kept,
        "resident_growth_bytes": _resident_bytes() - start,
    }
    passed = tokens
    while passed < 2 * tokens:
        passed += len(tokenizer.encode_text(next(texts), False))
    over = {
        "bytes_after_twice": tokenizer.segment_stats().bytes,
        "resident_growth_bytes_after_twice": _resident_bytes() - start,
    }
    return {
        "bound_bytes": bound,
        **shown,
        **over,
        "bytes_per_token": shown["bytes"] / tokens,
        "resident_bytes_per_token": shown["resident_growth_bytes"] / tokens,
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of a tokenizer")
    parser.add_argument("--bound", type=int, required=True, help="bytes that the cache may take")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tokenizer = LocalTokenizer.load(options.folder, cache_bytes=options.bound)
    print(json.dumps(fill(tokenizer, options.bound, options.seed)))


if __name__ == "__main__":
    main()
