"""What the segment cache weighs, in a process of its own: one JSON object on stdout.

What reading a tokenizer leaves behind, tens of megabytes that the allocator keeps, takes up the first segments; so the
growth of the resident set is that between a cache that is partly full and one that is nearly full. Then as much again
goes through it, to see whether it keeps its bound.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.tokenize_corpus import paragraphs, take

from warmroute.tokenizer import LocalTokenizer

TEXT_BYTES = 40_000
PARTLY_FULL, NEARLY_FULL = 0.4, 0.95


def new_texts(seed: int) -> Iterator[str]:
    pool = paragraphs("reordered english", random.Random(seed))
    while True:
        yield take(pool, TEXT_BYTES)


@dataclass(frozen=True, slots=True)
class Point:
    """What there is when a part of the cache is full."""

    tokens: int
    segments: int
    account_bytes: int
    resident_bytes: int


class Filling:
    """A tokenizer that is given one new text after another."""

    def __init__(self, tokenizer: LocalTokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._texts = new_texts(seed)
        self._tokens = 0

    def until(self, account_bytes: float) -> Point:
        """Until the cache says that it holds so much."""
        while self._tokenizer.segment_stats().bytes < account_bytes:
            self._next()
        return self._point()

    def beyond(self, tokens: int) -> Point:
        """Until so many tokens have gone through it."""
        while self._tokens < tokens:
            self._next()
        return self._point()

    def _next(self) -> None:
        self._tokens += len(self._tokenizer.encode_text(next(self._texts), False))

    def _point(self) -> Point:
        stats = self._tokenizer.segment_stats()
        return Point(self._tokens, stats.segments, stats.bytes, _resident_bytes())


def weigh(tokenizer: LocalTokenizer, bound: int, seed: int) -> dict[str, Any]:
    filling = Filling(tokenizer, seed)
    partly, nearly = filling.until(PARTLY_FULL * bound), filling.until(NEARLY_FULL * bound)
    after = filling.beyond(2 * nearly.tokens)
    tokens = nearly.tokens - partly.tokens
    return {
        "bound_bytes": bound,
        "tokens": nearly.tokens,
        "segments": nearly.segments,
        "bytes_per_token": nearly.account_bytes / nearly.tokens,
        "resident_bytes_per_token": (nearly.resident_bytes - partly.resident_bytes) / tokens,
        "bytes_after_twice": after.account_bytes,
        "resident_growth_bytes_after_twice": after.resident_bytes - nearly.resident_bytes,
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
    print(json.dumps(weigh(tokenizer, options.bound, options.seed)))


if __name__ == "__main__":
    main()
