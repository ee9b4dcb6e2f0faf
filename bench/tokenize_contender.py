"""One encoder with one tokenizer, in a process of its own: JSON lines on stdin and stdout, see `answer`.

Ours runs in .venv, the others in .venv-encoders; in both the `tokenizers` wheel says what is right.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tokenizers import Tokenizer

Encode = Callable[[str], Sequence[int]]
EXAMPLES = 4
LONGEST_EXAMPLE = 200


def _wheel(path: str) -> Encode:
    tokenizer = Tokenizer.from_file(path)
    return lambda text: tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids


def _warmroute(path: str) -> Encode:
    local = import_module("warmroute.tokenizer").LocalTokenizer.load(Path(path).parent)
    return lambda text: local.encode_text(text, False)


def _fastokens(path: str) -> Encode:
    tokenizer = import_module("fastokens").Tokenizer.from_file(path)
    return lambda text: tokenizer.encode(text, False).ids


def _gigatoken(path: str) -> Encode:
    tokenizer = import_module("gigatoken").Tokenizer(path)
    return lambda text: tokenizer.encode(text)


def _tokie(path: str) -> Encode:
    tokenizer = import_module("tokie").Tokenizer.from_json(path)
    return lambda text: tokenizer.encode_batch_flat([text], False)[0]


def _kitoken(path: str) -> Encode:
    tokenizer = import_module("kitoken").Kitoken.from_tokenizers_file(path)
    return lambda text: tokenizer.encode(text, True)


CONTENDERS: dict[str, Callable[[str], Encode]] = {
    "warmroute": _warmroute,
    "tokenizers": _wheel,
    "fastokens": _fastokens,
    "gigatoken": _gigatoken,
    "tokie": _tokie,
    "kitoken": _kitoken,
}


class Contender:
    """One encoder with one tokenizer; none of them adds tokens of its own to a text."""

    def __init__(self, name: str, path: str) -> None:
        resident = _resident_bytes()
        start = time.perf_counter()
        self._encode = CONTENDERS[name](path)
        self.loaded = {
            "version": version(name),
            "load_s": time.perf_counter() - start,
            "resident_bytes": _resident_bytes() - resident,
        }
        self._path = path

    def time(self, texts: list[str], cores: list[int]) -> dict[str, Any]:
        """Milliseconds for each text and for all, in as many threads as there are `cores`; and the tokens found."""
        os.sched_setaffinity(0, cores)
        with ThreadPoolExecutor(len(cores)) as threads:
            list(threads.map(lambda _: time.sleep(0.01), cores))  # so that all threads are there
            start = time.perf_counter()
            timed = list(threads.map(self._timed, texts))
            whole = 1_000 * (time.perf_counter() - start)
        return {"ms": [ms for ms, _ in timed], "whole_ms": whole, "tokens": [tokens for _, tokens in timed]}

    def _timed(self, text: str) -> tuple[float, int]:
        start = time.perf_counter()
        ids = self._encode(text)
        return 1_000 * (time.perf_counter() - start), len(ids)

    def hold(self, texts: list[str]) -> dict[str, float]:
        """The longest time, in milliseconds, for which encoding kept another thread of Python from running."""
        times: list[float] = [time.perf_counter()]
        done = threading.Event()

        def tick() -> None:
            while not done.wait(0.0005):
                times.append(time.perf_counter())

        ticker = threading.Thread(target=tick)
        ticker.start()
        start = time.perf_counter()
        for text in texts:
            self._encode(text)
        took = time.perf_counter() - start
        done.set()
        ticker.join()
        return {"held_ms": 1_000 * max(b - a for a, b in pairwise(times)), "encode_ms": 1_000 * took / len(texts)}

    def compare(self, texts: list[tuple[str, str]]) -> dict[str, Any]:
        """How many texts, given with their kinds, become other ids than the wheel makes of them; the shortest such."""
        reference = Tokenizer.from_file(self._path)
        different: Counter[str] = Counter()
        examples: list[dict[str, Any]] = []
        for kind, text in texts:
            right = reference.encode_batch_fast([text], add_special_tokens=False)[0].ids
            found = self._ids(text)
            if found != right:
                different[kind] += 1
                examples.append({"kind": kind, "text": text, "right": right, "found": found})
        examples.sort(key=lambda example: len(example["text"]))
        return {
            "texts": len(texts),
            "different": different.total(),
            "by_kind": dict(different.most_common()),
            "examples": [_shortened(example) for example in examples[:EXAMPLES]],
        }

    def _ids(self, text: str) -> list[int] | str:
        try:
            return [int(number) for number in self._encode(text)]
        except Exception as exc:  # Whatever it is, it is not the ids that it should have given.
            return f"{type(exc).__name__}: {exc}"[:200]


def _shortened(example: dict[str, Any]) -> dict[str, Any]:
    """An example that can be printed: long ones from a little before the first difference on."""
    right, found = example["right"], example["found"]
    at = next((n for n, (a, b) in enumerate(zip(right, found, strict=False)) if a != b), min(len(right), len(found)))
    start = max(0, at - 2)
    return {
        "kind": example["kind"],
        "text": example["text"][:LONGEST_EXAMPLE],
        "characters": len(example["text"]),
        "first_difference": at,
        "right": right[start : at + 8],
        "found": found if isinstance(found, str) else found[start : at + 8],
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def answer(contender: Contender, asked: dict[str, Any]) -> dict[str, Any]:
    match asked:
        case {"do": "time", "texts": texts, "cores": cores}:
            return contender.time(texts, cores)
        case {"do": "hold", "texts": texts}:
            return contender.hold(texts)
        case {"do": "compare", "texts": texts}:
            return contender.compare([(kind, text) for kind, text in texts])
    raise ValueError(asked)


def main() -> None:
    name, path = sys.argv[1:]
    try:
        contender = Contender(name, path)
    except Exception as exc:  # Each library has errors of its own; that it cannot read this tokenizer is the answer.
        print(json.dumps({"refused": f"{type(exc).__name__}: {exc}"[:200]}), flush=True)
        return
    print(json.dumps(contender.loaded), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(contender, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
