"""Which part of a text each token covers: beside the offsets of Hugging Face's tokenizers, for every family."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from warmroute.cli.tokens_pieces import pieces_of_ids, pieces_of_text
from warmroute.cli.tokens_vocabulary import Vocabulary
from warmroute.errors import ModelAssetError
from warmroute.tokenizer import packaged_model

CORPUS = Path(__file__).resolve().parents[1] / "tokenizer" / "corpus" / "tokenizers"
FILES = [*sorted(CORPUS.glob("*.json")), packaged_model("warmroute-tiny") / "tokenizer.json"]
TEXTS = [
    "hello  world\n\n  x\ty, it's 3.14!\r\n",
    "naïve \u00a0 \N{GRINNING FACE} 你好 ὡς Καλημέρα \N{FAMILY} \u200d end",
    "word " * 200,
    "a",
    "",
]


def vocabulary(file: Path) -> Vocabulary:
    return Vocabulary.read(file.read_bytes())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("special", [True, False])
def test_offsets_are_those_of_the_reference(file: Path, special: bool) -> None:
    tokenizer = Tokenizer.from_file(str(file))
    for text in TEXTS:
        encoding = tokenizer.encode(text, add_special_tokens=special)
        pieces = pieces_of_text(text, encoding.ids, vocabulary(file))
        assert pieces.aligned
        assert b"".join(piece.data for piece in pieces.pieces).decode() == text
        assert [(piece.start, piece.end) for piece in pieces.pieces] == encoding.offsets


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_added_tokens_are_found_with_the_white_space_that_they_swallow(file: Path) -> None:
    tokenizer, known = Tokenizer.from_file(str(file)), vocabulary(file)
    special = [token.text for token in known.added.values() if token.special][1:6]
    text = "x" + " \n y ".join(special) + "  "
    pieces = pieces_of_text(text, tokenizer.encode(text, add_special_tokens=False).ids, known)
    assert pieces.aligned
    assert b"".join(piece.data for piece in pieces.pieces).decode() == text
    assert [piece.name for piece in pieces.pieces if piece.special] == special


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3"])
def test_a_text_that_the_tokenizer_normalises_is_cut_where_its_characters_begin(family: str) -> None:
    file = CORPUS / f"{family}.json"
    text = "cafe\u0301 au lait, a\u0323\u0302 \u1112\u1161\u11ab"
    ids = Tokenizer.from_file(str(file)).encode(text).ids
    pieces = pieces_of_text(text, ids, vocabulary(file))
    assert pieces.aligned
    assert b"".join(piece.data for piece in pieces.pieces).decode() == text
    lait = next(piece for piece in pieces.pieces if piece.data.startswith(b" l"))
    assert text[lait.start :].startswith(" lait")


def test_the_bytes_of_a_character_of_several_tokens_are_told_apart() -> None:
    known = vocabulary(packaged_model("warmroute-tiny") / "tokenizer.json")
    ids = (
        Tokenizer.from_file(str(packaged_model("warmroute-tiny") / "tokenizer.json")).encode("a\N{GRINNING FACE}b").ids
    )
    pieces = pieces_of_text("a\N{GRINNING FACE}b", ids, known).pieces
    assert len(pieces) > 3
    assert [piece.text for piece in pieces] == ["a", *[None] * (len(pieces) - 2), "b"]
    assert b"".join(piece.data for piece in pieces[1:-1]) == "\N{GRINNING FACE}".encode()
    assert {(piece.start, piece.end) for piece in pieces[1:-1]} == {(1, 2)}
    assert (pieces[-1].start, pieces[-1].end) == (2, 3)


def test_given_ids_become_what_they_stand_for() -> None:
    known = vocabulary(packaged_model("warmroute-tiny") / "tokenizer.json")
    pieces = pieces_of_ids([1, 3825, 249, 999_999], known)
    assert pieces.text == "<|im_start|>system\N{REPLACEMENT CHARACTER}"
    assert [piece.name for piece in pieces.pieces][-1] == "?"
    assert pieces.pieces[-1].data == b""


def test_unigram_and_word_pieces_are_read() -> None:
    unigram = {"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["▁hi", -1]]}, "decoder": {"type": "Metaspace"}}
    known = Vocabulary.read(json.dumps(unigram).encode())
    assert known.bytes_of(1) == b" hi"
    words = {"model": {"vocab": {"un": 5, "##do": 6}}, "decoder": {"type": "WordPiece", "prefix": "##"}}
    pieces = pieces_of_text("Undo  UN", [5, 6, 5], Vocabulary.read(json.dumps(words).encode()))
    assert [piece.text for piece in pieces.pieces] == ["Un", "do  ", "UN"]


@pytest.mark.parametrize("definition", [b"", b"[]", b"{}", b'{"model": {"vocab": 3}}', b'{"model": 1}'])
def test_what_is_no_tokenizer_is_refused(definition: bytes) -> None:
    with pytest.raises(ModelAssetError):
        Vocabulary.read(definition)


def test_flags_of_the_configuration_count_over_those_of_the_file() -> None:
    added = [{"id": 3, "content": "<x>", "special": False}]
    definition = json.dumps({"model": {"vocab": {}}, "added_tokens": added}).encode()
    known = Vocabulary.read(definition, [(3, "<x>"), (4, "<y>")], [("<x>", (True, False, True, False, False))])
    assert known.added[3].special
    assert known.added[3].lstrip
    assert known.bytes_of(4) == b"<y>"
    assert 4 in known
    assert 5 not in known
