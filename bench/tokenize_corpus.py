"""Texts to encode: long ones that read like a language, to time with, and short odd ones, to compare encoders with.

Everything is drawn from a seed. Prose and code are CPython's own manual and library, words of other scripts come from
the vocabulary of a tokenizer, where the frequent ones stand first. Nothing here imports warmroute, so that encoders in
other environments can be given the same texts.
"""

import ast
import json
import os
import pydoc_data.topics
import random
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).parents[1]
TOKENIZERS = Path(os.environ.get("TOKENIZERS", ROOT / "target" / "tokenizers"))
VOCABULARY = "gemma3"
"""Whose words the texts of other scripts are made of."""

SCRIPTS = {
    "chinese": r"[\u4e00-\u9fa5]{1,4}",
    "japanese": r"[\u3040-\u30ff]{1,4}",
    "korean": r"[\uac00-\ud7a3]{1,4}",
    "arabic": r"[\u0620-\u064a]{2,8}",
    "hindi": r"[\u0900-\u097f]{1,8}",
    "thai": r"[\u0e00-\u0e7f]{1,8}",
    "cyrillic": r"[\u0400-\u04ff]{2,9}",
    "hebrew": r"[\u05d0-\u05ea]{1,8}",
    "greek": r"[\u0370-\u03ff]{1,9}",
}
UNSPACED = ("chinese", "japanese", "thai")
CJK_MARKS = "\u3002\uff0c\u3001\uff01\uff1f\uff1a"
LONG_KINDS = ("english and code", "cjk")
"""Of `long_texts`, which also makes "english" and "code" by themselves."""

SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
JOINERS = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u061c\u200e\u200f"
EMOJI = ("😀", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🇬🇷", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "❤️", "❤", "1️⃣", "☺︎", "🧑🏿‍🚀", "🫠")
CONTRACTIONS = ("'s", "'S", "'\u017f", "'t", "'RE", "'ve", "'m", "'lL", "'d", "'x", "\u2019s", "''s", "'", "'\u212a")
NUMBERS = "0123456789\u0663\u0969\u0e59\u00bd\u00b2\u2167\u4e94\uff17\U0001d7d8"


def long_texts(kind: str, count: int, size: int, rng: random.Random) -> list[str]:
    """`count` texts of about `size` bytes of UTF-8 each; no paragraph is in two of them, or twice in one."""
    pool = paragraphs(kind, rng)
    return [take(pool, size) for _ in range(count)]


def take(pool: Iterator[str], size: int) -> str:
    """The next paragraphs of a pool, until they are of `size` bytes."""
    parts: list[str] = []
    total = 0
    while total < size:
        part = next(pool, None)
        if part is None:
            raise ValueError("there are no further paragraphs; ask for fewer or shorter texts")
        parts.append(part)
        total += len(part.encode())
    return "".join(parts)


def paragraphs(kind: str, rng: random.Random) -> Iterator[str]:
    """The paragraphs of a kind, each once."""
    return _PARAGRAPHS[kind](rng)


def _mixed(rng: random.Random) -> Iterator[str]:
    return (part for pair in zip(_PARAGRAPHS["english"](rng), _PARAGRAPHS["code"](rng), strict=False) for part in pair)


def _shuffled(known: Callable[[], list[str]]) -> Callable[[random.Random], Iterator[str]]:
    def shuffled(rng: random.Random) -> Iterator[str]:
        pool = known()
        order = list(range(len(pool)))
        for last in range(len(order) - 1, -1, -1):
            picked = rng.randint(0, last)
            order[picked], order[last] = order[last], order[picked]
            yield pool[order[last]]

    return shuffled


def _cjk(rng: random.Random) -> Iterator[str]:
    """Paragraphs of Chinese, Japanese and Korean, the frequent words more often."""
    while True:
        script = rng.choices(("chinese", "japanese", "korean"), (6, 2, 2))[0]
        between = "" if script in UNSPACED else " "
        ends = rng.choices(CJK_MARKS, (6, 6, 2, 1, 1, 1), k=rng.randint(2, 12))
        yield "".join(between.join(common(rng, script) for _ in range(rng.randint(4, 18))) + end for end in ends) + "\n"


def _reordered(rng: random.Random) -> Iterator[str]:
    """Paragraphs without end, of the words of the manual in an order that does not come again."""
    known = " ".join(pydoc_data.topics.topics.values()).split()
    while True:
        yield " ".join(rng.choices(known, k=80)) + "\n\n"


@cache
def prose() -> list[str]:
    """The paragraphs of CPython's manual, and of what its modules say about themselves."""
    texts = [*pydoc_data.topics.topics.values()]
    for source in sources():
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
        nodes = [node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
        texts += [text for node in nodes if (text := ast.get_docstring(node))]
    parts = (part.strip() for text in texts for part in text.split("\n\n"))
    return list(dict.fromkeys(part + "\n\n" for part in parts if len(part) > 80))


_LINES = 12
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def code() -> list[str]:
    """CPython's modules, in pieces about as long as a paragraph."""
    pieces = []
    for source in sources():
        lines = source.splitlines(keepends=True)
        pieces += ["".join(lines[start : start + _LINES]) for start in range(0, len(lines), _LINES)]
    return pieces


@cache
def sources() -> list[str]:
    """The text of CPython's own modules."""
    library = Path(os.__file__).parent
    files = [file for file in sorted(library.rglob("*.py")) if not _LEFT_OUT & set(file.relative_to(library).parts)]
    return [file.read_text(encoding="utf-8") for file in files]


_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "ensurepip", "turtledemo"}


_PARAGRAPHS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "english": _shuffled(prose),
    "code": _shuffled(code),
    "english and code": _mixed,
    "cjk": _cjk,
    "reordered english": _reordered,
}


@cache
def words(script: str) -> list[str]:
    """What a vocabulary holds of a script, frequent ones first."""
    tokenizer = Tokenizer.from_file(str(TOKENIZERS / VOCABULARY / "tokenizer.json"))
    pattern = re.compile(SCRIPTS[script])
    texts = tokenizer.decode_batch([[number] for number in range(tokenizer.get_vocab_size(with_added_tokens=False))])
    found = dict.fromkeys(text.strip() for text in texts)
    return [word for word in found if pattern.fullmatch(word)]


def common(rng: random.Random, script: str) -> str:
    """A word; the tenth of the list is about as often as all that follow the hundredth."""
    known = words(script)
    return known[int(len(known) ** rng.random()) - 1]


def odd_text(kind: str, rng: random.Random, specials: Sequence[str]) -> str:
    """A text of one of ODD_KINDS: mostly short, one in fifty of some thousand characters."""
    length = rng.randint(1_000, 4_000) if rng.random() < 0.02 else int(400 ** rng.random()) + 1
    return ODD_KINDS[kind](rng, length, specials)


Odd = Callable[[random.Random, int, Sequence[str]], str]


def _slice(kind: str) -> Odd:
    def sliced(rng: random.Random, length: int, _: Sequence[str]) -> str:
        text = long_texts(kind, 1, length + 200, rng)[0]
        start = rng.randrange(100)
        return text[start : start + length]

    return sliced


def _json(rng: random.Random, length: int, _: Sequence[str]) -> str:
    value = [
        {common(rng, rng.choice(list(SCRIPTS))): rng.choice((rng.random(), rng.getrandbits(40), None, True, " a b"))}
        for _ in range(length // 30 + 1)
    ]
    return json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1, 4)))[:length]


def _scripts(rng: random.Random, length: int, _: Sequence[str]) -> str:
    script = rng.choice(list(SCRIPTS))
    joint = rng.choice(("", " ", " ", ", ", "-"))
    return joint.join(common(rng, script) for _ in range(length // 4 + 1))[:length]


def _drawn(*alphabets: Callable[[random.Random], str]) -> Odd:
    """Pieces drawn from the given sources in turn at random."""

    def drawn(rng: random.Random, length: int, _: Sequence[str]) -> str:
        parts: list[str] = []
        total = 0
        while total < length:
            parts.append(rng.choice(alphabets)(rng))
            total += max(1, len(parts[-1]))
        return "".join(parts)

    return drawn


def _word(rng: random.Random) -> str:
    return rng.choice(rng.choice(prose()).split())


def _any_word(rng: random.Random) -> str:
    return common(rng, rng.choice(list(SCRIPTS)))


def _space(rng: random.Random) -> str:
    return rng.choice(SPACES)


def _run(rng: random.Random) -> str:
    return rng.choice((" ", "\n", "\t", "\r\n", " \n", rng.choice(SPACES))) * int(60 ** rng.random())


def _repeated(rng: random.Random) -> str:
    return rng.choice("aA=-_#*.0x~!字é ") * int(300 ** rng.random())


def _accented(rng: random.Random) -> str:
    """A word with marks of its own or piled on, composed or not."""
    word = rng.choice((_word, _any_word))(rng)
    marks = "".join(chr(rng.randrange(0x300, 0x36F)) for _ in range(rng.randrange(3)))
    return unicodedata.normalize(rng.choice(("NFC", "NFD", "NFKD")), word + marks + rng.choice(("", "é", "ệ", "가")))


def _code_point(rng: random.Random) -> str:
    """Any scalar value, assigned or not; the lower planes more often."""
    number = rng.randrange(rng.choice((0x100, 0x3000, 0x10000, 0x20000, 0x110000)))
    return "" if 0xD800 <= number < 0xE000 else chr(number)


def _stray_bytes(rng: random.Random) -> str:
    """Bytes that are no text, as a client shows them: as U+FFFD or as Latin-1."""
    stray = rng.randbytes(rng.randint(1, 12))
    return stray.decode("utf-8", "replace") if rng.random() < 0.5 else stray.decode("latin-1")


def _special(rng: random.Random, length: int, specials: Sequence[str]) -> str:
    """Special tokens whole, halved, doubled, beside words and white space."""
    parts: list[str] = []
    for _ in range(length // 8 + 1):
        token = rng.choice(specials)
        cut = rng.randint(1, len(token))
        parts.append(rng.choice((token, token, token[:cut], token[cut:], token * 2, token.upper())))
        parts.append(rng.choice((_word, _space, _any_word, _run, lambda _: ""))(rng))
    return "".join(parts)


def _number(rng: random.Random) -> str:
    return "".join(rng.choices(NUMBERS, (9,) * 10 + (1,) * 9, k=rng.randint(1, 9)))


ODD_KINDS: dict[str, Odd] = {
    "english": _slice("english"),
    "code": _slice("code"),
    "cjk": _slice("cjk"),
    "json": _json,
    "scripts": _scripts,
    "emoji": _drawn(lambda rng: rng.choice(EMOJI), _space, _word),
    "marks": _drawn(_accented, _accented, _space),
    "unicode": _drawn(_code_point),
    "white space": _drawn(_run, _run, _word, _space),
    "joiners": _drawn(lambda rng: rng.choice(JOINERS), _any_word, _word, _space),
    "contractions": _drawn(lambda rng: rng.choice(CONTRACTIONS), _word, _any_word, _number),
    "numbers": _drawn(_number, _space, _word, lambda rng: rng.choice(".,-/:%")),
    "repeated": _drawn(_repeated, _space, _word),
    "stray bytes": _drawn(_stray_bytes, _word, _space),
    "special tokens": _special,
    "mixed": _drawn(_any_word, _word, _space, _code_point, _number, _accented, lambda rng: rng.choice(EMOJI)),
}


def specials_of(tokenizer: Tokenizer) -> list[str]:
    """The added tokens that a text may hold, without the many that are only reserved."""
    found = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return [text for text in found if not re.search(r"reserved|unused|place.?holder|SPECIAL_\d", text)] or found[:20]


def odd_texts(count: int, seed: int, specials: Sequence[str]) -> list[tuple[str, str]]:
    """Kind and text, the kinds in turn."""
    rng = random.Random(seed)
    kinds = list(ODD_KINDS)
    return [(kind, odd_text(kind, rng, specials)) for kind in (kinds * (count // len(kinds) + 1))[:count]]
