"""Encoders beside each other: are their ids those of the `tokenizers` wheel, and how long do they take?"""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.environment import spread
from bench.json_process import ROOT, JsonProcess
from bench.tokenize_corpus import LONG_KINDS, TOKENIZERS, long_texts, odd_texts, specials_of
from tokenizers import Tokenizer

OTHERS_PYTHON = ROOT / ".venv-encoders" / "bin" / "python"
OURS = "warmroute"
REFERENCE = "tokenizers"
OTHERS = ("fastokens", "gigatoken", "kitoken", "tokie")
TEXT_BYTES = 400_000
LONG_COMPARED_BYTES = 200_000

Row = dict[str, Any]


def fetch(names: Sequence[str]) -> None:
    """Fetches tokenizers, where they are missing; says so on stderr."""
    subprocess.run([ROOT / "scripts" / "fetch_tokenizers.sh", *names], check=True)


def install_others() -> None:
    """Makes the others' environment, where it is missing or its lock has changed; says so on stderr."""
    subprocess.run([ROOT / "scripts" / "install_encoders.sh"], check=True)


def file_of(tokenizer: str) -> Path:
    return TOKENIZERS / tokenizer / "tokenizer.json"


class Encoder(JsonProcess):
    """An encoder in its process; see `bench.tokenize_contender` for what can be asked. `loaded` is its first word."""

    loaded: Row


@contextmanager
def encoder(name: str, tokenizer: str) -> Iterator[Encoder]:
    """An encoder that has read a tokenizer, or has refused it (`loaded` says so)."""
    python = sys.executable if name in (OURS, REFERENCE) else str(OTHERS_PYTHON)
    with Encoder(python, "-m", "bench.tokenize_contender", name, str(file_of(tokenizer))) as process:
        process.loaded = process.hear()
        yield process


def equality(names: Sequence[str], tokenizer: str, count: int, long_count: int, seed: int) -> dict[str, Row]:
    """Of each encoder, how many texts become other ids than the wheel's: odd ones, and as many long ones of each kind.

    Long ones too, since encoders split them over threads.
    """
    specials = specials_of(Tokenizer.from_file(str(file_of(tokenizer))))
    texts = odd_texts(count, seed, specials)
    rng = random.Random(seed)
    for kind in LONG_KINDS:
        texts += [(f"long: {kind}", text) for text in long_texts(kind, long_count, LONG_COMPARED_BYTES, rng)]
    for number in range(long_count):
        odd = (text for _, text in odd_texts(4_000, seed + number + 1, specials))
        texts.append(("long: odd", "".join(odd)[:LONG_COMPARED_BYTES]))
    found = {}
    for name in names:
        with encoder(name, tokenizer) as asked:
            refused = "refused" in asked.loaded
            found[name] = asked.loaded if refused else asked.ask("compare", texts=texts)
    return found


def throughput(names: Sequence[str], tokenizer: str, repeats: int, cores: list[int], seed: int) -> dict[str, Any]:
    """Of each encoder: what it weighs and how fast it encodes texts that it has never seen, by kind."""
    with ExitStack() as stack:
        running = {name: stack.enter_context(encoder(name, tokenizer)) for name in names}
        refused = {name: each.loaded for name, each in running.items() if "refused" in each.loaded}
        able = {name: each for name, each in running.items() if name not in refused}
        shown = {kind: _of_kind(able, kind, repeats, cores, seed) for kind in LONG_KINDS}
        return {"kinds": shown, "loaded": {name: each.loaded for name, each in running.items()}, "tokenizer": tokenizer}


def _of_kind(able: dict[str, Encoder], kind: str, repeats: int, cores: list[int], seed: int) -> dict[str, Row]:
    """By turns, after one text that only wakes them; then on two cores as many texts in two threads."""
    texts = long_texts(kind, 1 + 2 * repeats, TEXT_BYTES, random.Random(seed))
    one_core: dict[str, list[float]] = {name: [] for name in able}
    for number, text in enumerate(texts[: 1 + repeats]):
        told = {name: each.ask("time", texts=[text], cores=cores[:1]) for name, each in able.items()}
        assert number == 0 or "tokie" in told or len({tuple(each["tokens"]) for each in told.values()}) == 1
        if number:
            for name, each in told.items():
                one_core[name] += each["ms"]
    shown = {}
    for name, asked in able.items():
        two = asked.ask("time", texts=texts[1 + repeats :], cores=cores[:2]) if len(cores) > 1 else None
        held = asked.ask("hold", texts=long_texts(kind, 2, TEXT_BYTES, random.Random(seed + 1)))
        shown[name] = {
            "ms": spread(one_core[name]),
            "over_tokenizers_ratio": spread(_ratios(one_core[name], one_core[REFERENCE])),
            "mb_per_s_one_core": TEXT_BYTES / spread(one_core[name])["median"] / 1_000,
            "mb_per_s_two_cores": repeats * TEXT_BYTES / two["whole_ms"] / 1_000 if two else None,
            "held_ms": held["held_ms"],
        }
    return shown


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [a / b for a, b in zip(ours, theirs, strict=True)]
