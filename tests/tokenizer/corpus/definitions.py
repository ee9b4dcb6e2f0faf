"""Hypothesis' tokenizers: any `tokenizer.json` that the parts known to `tokenizers` 0.23 can be put together to.

Most resemble no model. They are for the proofs by which texts are cut: what is taken for proven must hold for each.
"""

# ruff: noqa: RUF001  (hard characters are what this is about)

import itertools
from typing import Any

from hypothesis import strategies as st
from tokenizers import pre_tokenizers

Step = dict[str, Any]
Draw = st.DrawFn

SYMBOLS = [
    *"ab1.-'<>|sS \n\t",
    "\u00a0",
    *"字かが。、！ée",
    "\u0301",
    "\u3099",
    *"▁Ａﬁßſ😀",
    "\u200d",
    "\r",
    *"カーﾊ٣½",
]
_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
_BYTE_SYMBOLS = [*"ab1.-'<>|s", "Ġ", "Ċ", "å", "Ń", "Ĺ", "ã", "Ģ", "Ĥ"]
_CONTENTS = [
    "<a>",
    "<a><b>",
    "<b>",
    "a",
    "ab",
    "b>",
    "<",
    "a b",
    "\n",
    "\n\n",
    "  ",
    " ",
    "字",
    "。",
    "1",
    "> ",
    "▁",
    "S",
]
_CONTENTS += ["<|a|>", "é", "word", "。字", "\t<a>", "b ", " <b>", "か。", "▁▁"]
_ATOMS = [
    "a",
    "b",
    "1",
    r"\.",
    "'",
    " ",
    r"\s",
    r"\S",
    r"\p{L}",
    r"\p{N}",
    r"\w",
    r"\W",
    r"\d",
    r"\D",
    r"\p{P}",
    r"\p{M}",
]
_ATOMS += [
    r"[^\s\p{L}\p{N}]",
    r"[^\r\n\p{L}\p{N}]",
    "[a-z]",
    "[ab ]",
    "[^a]",
    ".",
    "字",
    "。",
    "[一-龥]",
    r"[^\S\n]",
    r"\h",
]
_REPEATS = ["", "", "", "?", "*", "+", "++", "?+", "*+", "{1,3}", "{1,3}+", "{1}+", "+?", "??"]
_FRAMES = ["%s", "%s", "%s", "%s", "(?:%s)+", "(%s)?", "(?i:%s)", "(?s:%s)", "(?m:%s)", "(?>%s)", "%s$", "(?<=a)%s"]
_FRAMES += [r"%s(?!\S)", r"%s(?=\s)", r"\b%s"]
_ENDS = [r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"]
_FAMILIAR = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + "|".join(_ENDS),
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"\w+|[^\w\s]+",
]
_BEHAVIORS = ["Isolated"] * 5 + ["Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def chance(draw: Draw, percent: int) -> bool:
    return draw(st.integers(0, 99)) < percent


@st.composite
def patterns(draw: Draw) -> str:
    """Expressions for `Split`."""
    if chance(draw, 25):
        return draw(st.sampled_from(_FAMILIAR))
    atom = st.builds(str.__add__, st.sampled_from(_ATOMS), st.sampled_from(_REPEATS))
    row = st.lists(atom, min_size=1, max_size=3).map("".join)
    choice = st.builds(lambda frame, inner: frame % inner, st.sampled_from(_FRAMES), row)
    choices = draw(st.lists(choice, min_size=1, max_size=4))
    return "|".join(choices + (_ENDS[draw(st.integers(0, 2)) :] if chance(draw, 60) else []))


def splits() -> st.SearchStrategy[Step]:
    text = st.fixed_dictionaries({"String": st.sampled_from([" ", "a", "▁", "字。", "a ", "\n"])})
    expression = st.fixed_dictionaries({"Regex": patterns()})
    return st.fixed_dictionaries(
        {
            "type": st.just("Split"),
            "pattern": st.one_of(expression, expression, expression, text),
            "behavior": st.sampled_from(_BEHAVIORS),
            "invert": st.sampled_from([False] * 5 + [True]),
        }
    )


def pre_tokenizer_steps() -> st.SearchStrategy[Step]:
    byte_level = st.fixed_dictionaries(
        {
            "type": st.just("ByteLevel"),
            "add_prefix_space": st.booleans(),
            "trim_offsets": st.just(True),
            "use_regex": st.booleans(),
        }
    )
    metaspace = st.fixed_dictionaries(
        {
            "type": st.just("Metaspace"),
            "replacement": st.sampled_from("▁▁▁_"),
            "prepend_scheme": st.sampled_from(["first", "always", "never"]),
            "split": st.booleans(),
        }
    )
    others: list[Step] = [
        {"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")
    ]
    others += [{"type": "Digits", "individual_digits": flag} for flag in (False, True)]
    others += [{"type": "Punctuation", "behavior": behavior} for behavior in _BEHAVIORS[4:]]
    step = st.one_of(splits(), splits(), byte_level, metaspace, metaspace, st.sampled_from(others))
    return st.recursive(step, lambda inner: _sequence("pretokenizers", inner), max_leaves=3)


def normalizer_steps() -> st.SearchStrategy[Step]:
    names = ("NFC", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")
    steps: list[Step] = [{"type": name} for name in names]
    steps += [{"type": "Prepend", "prepend": text} for text in ("▁", "▁", "a", " ")]
    steps += [{"type": "Strip", "strip_left": flag, "strip_right": not flag} for flag in (False, True)]
    to_marks = [" "] * 4 + ["a", "字", "。", "  ", "\n", "\u00a0", "▁", "é"]
    contents = ["▁", "▁", " ", "b", "。", ""]
    steps += [{"type": "Replace", "pattern": {"String": old}, "content": new} for old in to_marks for new in contents]
    step = st.sampled_from(steps)
    return st.recursive(step, lambda inner: _sequence("normalizers", inner), max_leaves=3)


def _sequence(members: str, inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries({"type": st.just("Sequence"), members: st.lists(inner, max_size=3)})


@st.composite
def merging_models(draw: Draw, of_bytes: bool) -> Step:
    """A BPE with merges of anything with anything, or with none across a seam."""
    known = [symbol for symbol in SYMBOLS if not chance(draw, 10)]
    symbols = list(_BYTE_SYMBOLS) if of_bytes else [symbol for symbol in known if symbol in "ab1.-<>s ▁\n字か。、"]
    fallback = not of_bytes and draw(st.booleans())
    vocabulary = dict.fromkeys(_BYTES if of_bytes else ["<unk>", *known, *symbols])
    vocabulary |= dict.fromkeys(f"<0x{byte:02X}>" for byte in range(256 if fallback else 0))
    merges: dict[tuple[str, str], None] = {}
    tame = draw(st.booleans())
    for _ in range(draw(st.sampled_from([0, 5, 20, 40]))):
        pair = (draw(st.sampled_from(symbols or ["<unk>"])), draw(st.sampled_from(symbols or ["<unk>"])))
        joined = "".join(pair)
        if len(joined) > 8 or (tame and _crosses(joined)):
            continue
        merges[pair] = None
        if joined not in vocabulary:
            vocabulary[joined] = None
            symbols.append(joined)
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None if of_bytes else draw(st.sampled_from(["<unk>", "<unk>", None])),
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": draw(st.booleans()),
        "byte_fallback": fallback,
        "ignore_merges": chance(draw, 30),
        "vocab": {token: number for number, token in enumerate(vocabulary)},
        "merges": [list(pair) for pair in merges],
    }


def _crosses(token: str) -> bool:
    pairs = itertools.pairwise(token)
    return any(("!" <= left <= "~" and right in " ▁Ġ") or (left in "字か" and right in "。、") for left, right in pairs)


@st.composite
def added_tokens(draw: Draw, vocabulary: dict[str, int]) -> list[Step]:
    """Added tokens with any flags, numbered after the vocabulary unless they stand in it."""
    tokens: list[Step] = []
    for content in draw(st.lists(st.sampled_from(_CONTENTS), max_size=4, unique=True)):
        plain = draw(st.booleans())
        flags: Step = {flag: not plain and chance(draw, 35) for flag in ("single_word", "lstrip", "rstrip")}
        flags |= {"normalized": chance(draw, 35), "special": draw(st.booleans())}
        number = vocabulary.get(content, len(vocabulary) + len(tokens))
        tokens.append({"id": number, "content": content, **flags})
    return sorted(tokens, key=lambda token: token["id"])


@st.composite
def definitions(draw: Draw) -> Step:
    """A whole `tokenizer.json`, as an object."""
    pre_tokenizer = draw(st.none() | pre_tokenizer_steps() | pre_tokenizer_steps())
    normalizer = draw(st.none() | normalizer_steps())
    model = draw(merging_models("'ByteLevel'" in repr(pre_tokenizer)))
    added = draw(added_tokens(model["vocab"]))
    parts = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **parts, "model": model}


@st.composite
def long_texts(draw: Draw, added: list[str]) -> str:
    """Texts of few different characters, long enough to be cut several times."""
    few = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=6)) + [" ", "a"]
    rng = draw(st.randoms(use_true_random=False))
    # Of every ten thousand pieces so many are added tokens: where they are dense there is nothing to cut between them.
    dense = draw(st.sampled_from([0, 5, 20, 200, 1000]))
    pieces = [
        rng.choice(added) if added and rng.randrange(10_000) < dense else rng.choice(few)
        for _ in range(rng.choice([20, 600, 4000]))
    ]
    return "".join(pieces)
