"""Ids with the cache of segments are those without it, whatever the text, its history and whoever asks meanwhile.

The slow twin is the `tokenizers` wheel, which encodes every text whole. One tokenizer serves all the examples of a
family, so that segments of one text are met again in others.
"""

import itertools
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tokenizer.corpus.definitions import Step, definitions, long_texts
from tokenizer.corpus.families import PARAGRAPHS, TOKENIZERS, special_contents, write_tokenizer
from warmroute.errors import ModelAssetError, TemplateError
from warmroute.tokenizer import LocalTokenizer

# Fetched by scripts/fetch_tokenizers.sh.
REAL = {
    file.parent.name: file
    for file in sorted((Path(__file__).parents[2] / "target" / "tokenizers").glob("*/tokenizer.json"))
}
# Some tens of segments: most are dropped before they are asked for again.
SMALL_CACHE = 20_000
LARGE_CACHE = 16 * 2**20

HARD_CHARACTERS = [
    *" \t\n\r\x0b\x0c\x00\x1b\x7f\x85",
    *"\u00a0\u1680\u2003\u2009\u2028\u2029\u202f\u205f\u3000\u200b\ufeff",  # white space, and what looks like it
    *"\u0301\u0308\u3099\u309a\u0327\u05b4\u064b\u0e31\u093e",  # what combines
    *["e\u0301", "か\u3099", "e\u0323\u0302", "\u1100\u1161\u11a8", "각", "ﾊﾞ", "ﬁ", "Ａ１", "ſ", "ß", "İ"],  # noqa: RUF001
    *["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇬🇷", "\u200d", "\ufe0f"],
    *["字", "。", "、", "！", "か", "カー", "한국어", "שלום", "مرحبا", "\u202e", "ไทย", "नमस्ते", "½", "٣", "Ⅳ"],  # noqa: RUF001
    *["'s", "'S", "'ll", "’s", "▁", "Ġ", "<0x0A>", "\ufffd", "\U0001f9d1", "\U00020000"],  # noqa: RUF001
]


@dataclass
class Twins:
    """One tokenizer three times: with a large cache, with a small one, and the one that encodes texts whole."""

    large: LocalTokenizer
    small: LocalTokenizer
    whole: Tokenizer
    added: list[str]

    def check(self, text: str) -> None:
        """Encode `text` with all three, with and without special tokens."""
        for special in (False, True):
            expected = self.whole.encode(text, add_special_tokens=special).ids
            assert list(self.large.encode_text(text, special)) == expected
            assert list(self.small.encode_text(text, special)) == expected


def twins_of(folder: Path, added: list[str]) -> Twins:
    caches = (LARGE_CACHE, SMALL_CACHE)
    large, small = (LocalTokenizer.load(folder, cache_bytes=size) for size in caches)
    whole = Tokenizer.from_file(str(folder / "tokenizer.json"))
    whole.no_padding()
    whole.no_truncation()
    return Twins(large, small, whole, added)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Twins]:
    folders = {name: write_tokenizer(tmp_path_factory.mktemp(name), name) for name in TOKENIZERS}
    return {name: twins_of(folder, special_contents(name)) for name, folder in folders.items()}


def passages() -> st.SearchStrategy[str]:
    """Stretches of ordinary text, long enough to be cut inside."""
    starts = st.integers(0, len(PARAGRAPHS) - 1)
    return st.builds(lambda start, length: (2 * PARAGRAPHS)[start : start + length], starts, st.integers(1, 2500))


def runs() -> st.SearchStrategy[str]:
    """The same few characters many times: spaces, lines, words without any space, signs."""
    units = st.sampled_from(
        [" ", "\n", "\r\n", "\t", "\u00a0", "a", "ab", "字", "か。", "1", "!", "🙂", "- ", "a ", " \n"]
    )
    return st.builds(lambda unit, times: unit * times, units, st.integers(1, 900))


def token_texts(added: list[str]) -> st.SearchStrategy[str]:
    """Special tokens as users write them: whole, in halves, twice, overlapping, beside space and beside words."""
    token = st.sampled_from(added)
    halves = st.builds(lambda text, at: text[: at % len(text)] or text[-1:], token, st.integers(0, 40))
    overlapping = st.builds(lambda one, other: one[:-1] + other, token, token)
    between = st.sampled_from(["", " ", "  ", "\n", "x", " x", "\t\u00a0", "é", ".", "字"])
    beside = st.builds(lambda left, text, right: left + text + right, between, token, between)
    return st.one_of(beside, halves, overlapping, token.map(lambda text: 2 * text))


def texts(added: list[str]) -> st.SearchStrategy[str]:
    """One turn's text: some of everything."""
    odd = st.lists(st.sampled_from([*HARD_CHARACTERS, "a", "b", " ", "1"]), max_size=30).map("".join)
    anything = st.text(st.characters(codec="utf-8"), max_size=30)
    part = st.one_of(passages(), passages(), odd, anything, runs(), token_texts(added))
    return st.lists(part, max_size=6).map("".join)


def history(data: st.DataObject, added: list[str]) -> Iterator[str]:
    """A conversation that grows turn by turn, and is then edited, cut from the front and cut from the end."""
    text = ""
    for turn in data.draw(st.lists(texts(added), min_size=1, max_size=3)):
        text += turn
        yield text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 50)))
    yield text[:start] + data.draw(texts(added)) + text[end:]
    yield text[start:]
    yield text[:start]


def check_history(data: st.DataObject, twins: Twins) -> None:
    for text in history(data, twins.added):
        twins.check(text)


RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(RELAXED, max_examples=12)
@given(data=st.data())
def test_ids_are_those_of_the_whole_text(twins: dict[str, Twins], name: str, data: st.DataObject) -> None:
    check_history(data, twins[name])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", TOKENIZERS)
@settings(RELAXED, max_examples=300)
@given(data=st.data())
def test_ids_of_very_many_texts(twins: dict[str, Twins], name: str, data: st.DataObject) -> None:
    check_history(data, twins[name])


@pytest.fixture(scope="module")
def real_twins(request: pytest.FixtureRequest) -> Twins:
    file: Path = request.param
    whole = Tokenizer.from_file(str(file))
    added = [token.content for _, token in sorted(whole.get_added_tokens_decoder().items())]
    # Gemma has thousands; the first and the last are of all its kinds.
    return twins_of(file.parent, added[:150] + added[-50:])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not REAL, reason="scripts/fetch_tokenizers.sh has not been run")
@pytest.mark.parametrize("real_twins", REAL.values(), ids=REAL.keys(), indirect=True)
@settings(RELAXED, max_examples=150)
@given(data=st.data())
def test_ids_of_real_tokenizers(real_twins: Twins, data: st.DataObject) -> None:
    check_history(data, real_twins)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_turn_more_encodes_only_the_turn(tmp_path: Path, name: str) -> None:
    """Were nothing found again, the tests above would prove nothing."""
    tokenizer = LocalTokenizer.load(write_tokenizer(tmp_path, name))
    turns = [PARAGRAPHS.replace("\n", f" {number} ") for number in range(30)]
    tokenizer.encode_text("".join(turns), False)
    before = tokenizer.segment_stats()
    tokenizer.encode_text("".join([*turns, "And tomorrow?"]), False)
    after = tokenizer.segment_stats()
    asked = after.asked_bytes - before.asked_bytes
    assert after.found_bytes - before.found_bytes > 0.9 * asked > 0
    assert after.segments > 30


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_small_cache_drops_segments_and_stays_small(twins: dict[str, Twins], name: str) -> None:
    for number in range(20):
        twins[name].check(f"{number} {PARAGRAPHS}" * 2)
    assert 0 < twins[name].small.segment_stats().bytes <= SMALL_CACHE
    assert twins[name].large.segment_stats().bytes > 2 * SMALL_CACHE


def shuffled_conversation(seed: int, added: list[str]) -> list[str]:
    """The same few lines and tokens in an order of its own, so that threads meet at the same segments."""
    rng = random.Random(seed)
    lines = PARAGRAPHS.splitlines(keepends=True)
    turns = [rng.choice(added) + " ".join(rng.choices(lines, k=6)) + "  " for _ in range(8)]
    return list(itertools.accumulate(turns))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_threads_share_one_tokenizer(twins: dict[str, Twins], name: str) -> None:
    conversations = [shuffled_conversation(seed, twins[name].added) for seed in range(8)]

    def check(conversation: list[str]) -> None:
        for text in conversation:
            twins[name].check(text)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(check, conversation) for conversation in conversations]:
            done.result()


def read_whole(definition: Step) -> Tokenizer:
    """The tokenizer of a definition that means something: others are no example."""
    try:
        whole = Tokenizer.from_str(json.dumps(definition))
    except Exception:
        reject()
    except BaseException as exc:  # The wheel panics on some, and that is no Exception.
        assume(type(exc).__name__ != "PanicException")
        raise
    sought = [token["content"] for token in definition["added_tokens"] if token["normalized"]]
    normalized = [whole.normalizer.normalize_str(content) if whole.normalizer else content for content in sought]
    # The wheel never returns from a token of nothing, and of two equal ones it takes either.
    assume("" not in normalized and len(set(normalized)) == len(normalized))
    return whole


def read_ours(definition: Step, folder: Path) -> LocalTokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    return LocalTokenizer.load(folder, cache_bytes=SMALL_CACHE)


def check_definition(whole: Tokenizer, ours: LocalTokenizer, text: str, cut: int) -> None:
    """The ids of `text`, and those that are told of its beginning."""
    try:
        expected = whole.encode(text, add_special_tokens=False).ids
    except Exception:
        with pytest.raises(TemplateError):
            ours.encode_text(text, False)
        return
    except BaseException as exc:  # A pattern that gives up on a long text; on parts of it it may not.
        assume(type(exc).__name__ != "PanicException")
        raise
    assert list(ours.encode_text(text, False)) == expected
    beginning = list(ours.encode_beginning(text[:cut], False))
    assert beginning == expected[: len(beginning)]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(RELAXED, max_examples=3000)
@given(data=st.data())
def test_any_definition(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    definition = data.draw(definitions())
    whole = read_whole(definition)
    try:
        ours = read_ours(definition, tmp_path_factory.getbasetemp())
    except ModelAssetError:
        reject()
    added = [token["content"] for token in definition["added_tokens"]]
    for text in data.draw(st.lists(long_texts(added), min_size=1, max_size=3)):
        check_definition(whole, ours, text, data.draw(st.integers(0, len(text))))


def merging(pre_tokenizer: Step | None, merges: list[str], known: str = "ab.", **parts: Any) -> Step:
    """A small definition: the characters `known`, the space or what it becomes, and the merges `left right`."""
    singles = [*known, *(["Ġ"] if "'ByteLevel'" in repr(pre_tokenizer) else ["▁", " "])]
    vocabulary = dict.fromkeys(singles + [merge.replace("+", "") for merge in merges])
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {token: number for number, token in enumerate(vocabulary)},
        "merges": [merge.split("+") for merge in merges],
    }
    whole: Step = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "model": model,
    }
    return {**whole, "post_processor": None, "decoder": None, **parts}


def metaspace(scheme: str) -> Step:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def added(content: str, number: int, normalized: bool) -> Step:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {"id": number, "content": content, "normalized": normalized, "special": False, **flags}


def in_bytes(pattern: str) -> Step:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [split, last]}


# Definitions whose texts were once cut, or begun, where they must not be.
TRAPS: dict[str, tuple[Step, str]] = {
    "a token found after normalizing begins a piece with a mark of its own": (
        merging(metaspace("always"), ["▁+a"], added_tokens=[added("<n>", 9, normalized=True)]),
        "ab <n>a a",
    ),
    "the step that marks the first piece is a member of a member": (
        merging(
            {"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": [metaspace("first")]}]},
            ["▁+a"],
            added_tokens=[added("<x>", 9, normalized=False)],
        ),
        "a<x>a",
    ),
    "a plus after a counted repetition repeats it": (merging(in_bytes(r"[ab ]{1}+|\s+"), ["a+Ġ"]), "aa a b"),
    "a character that nobody knows vanishes, and its neighbours meet": (merging(None, [" + "]), "a x b"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_traps(tmp_path: Path, trap: str) -> None:
    definition, text = TRAPS[trap]
    whole, ours = Tokenizer.from_str(json.dumps(definition)), read_ours(definition, tmp_path)
    for times in (1, 2, 500):
        check_definition(whole, ours, text * times, len(text) * times // 2)
