"""`warmroute tokens BODY` for people: what a prompt became, block by block."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from warmroute.cli import tokens_text
from warmroute.cli.tokens_pieces import Piece
from warmroute.cli.tokens_prompt import ToldBody, ToldContent
from warmroute.cli.tokens_text import counted
from warmroute.openai_api import Match

# What is shown of a long prompt, and of a large block; the rest is counted.
_HEAD_BLOCKS, _TAIL_BLOCKS = 4, 2
_HEAD_TOKENS, _TAIL_TOKENS = 32, 16

MATCHES = {
    Match.EXACT: "these are all the tokens that the engine will see",
    Match.TEXT_PREFIX: "the engine will see these tokens first, and more that are not told",
    Match.NONE: "no tokens can be told, so the router goes by load and session",
}
REASONS = {
    "multimodal": "what an image, audio or a video becomes only the engine can tell",
    "embeddings": "embeddings stand in for tokens",
    "kept-state": "it goes on from something that the worker keeps",
    "truncated": "it asks the engine to drop a part of the prompt",
    "unreadable": "the body is not what its endpoint takes",
    "unknown-part": "it has a part of a kind that is not known here",
    "no-prompt": "it has no prompt",
    "template": "the chat template fails on it, and so will the engine's",
    "client-template": "it brings a chat template of its own; --trust-request-chat-template renders it",
}


def print_body(body: ToldBody, full: bool) -> None:
    """Facts first, then each prompt of the body; `full`: nothing is left out."""
    output = tokens_text.console()
    for line in _facts(body):
        output.print(line)
    for number, content in enumerate(body.contents):
        if len(body.contents) > 1:
            output.print(f"\nprompt {number} of {len(body.contents)}")
        _print_content(content, output, full)


def verdict(body: ToldBody) -> str:
    """How well the prompt is known, and why not better."""
    if body.match is Match.EXACT:
        return f"match exact: {MATCHES[body.match]}"
    why = "; ".join(text for text in (REASONS.get(body.reason or "", body.reason), body.detail) if text)
    return f"match {body.match.value} ({body.reason}): {MATCHES[body.match]}: {tokens_text.readable(why)}"


def _facts(body: ToldBody) -> Iterator[str]:
    model = f" for {body.prompt.model}" if body.prompt.model else ""
    name = tokens_text.readable(f"{body.named.name}: {body.endpoint}{model}")
    yield f"{name}, as {body.dialect} reads it, tokenizer {body.tokenizer.source}"
    yield verdict(body)
    for content in body.contents:
        blocks = f"{counted(len(content.hashes), 'block')} of {content.block_size}"
        rest = f", and {content.tail} in a last block that is not full and never cached" if content.tail else ""
        yield f"{counted(len(content.told.pieces), 'token')}: {blocks}{rest}"
        if not content.told.aligned:
            yield "the tokenizer changes the text before it encodes it, so some of the places shown are guessed"
    if body.namespace.adapter or body.namespace.salt:
        parts = (("adapter", body.namespace.adapter), ("salt", body.namespace.salt))
        told = ", ".join(f"{name} {tokens_text.readable(value)}" for name, value in parts if value)
        yield f"namespace: {told} (its blocks are not those of other requests)"
    yield f"segments are cut at: {', '.join(('added tokens', *body.tokenizer.seams))}"


def _print_content(content: ToldContent, output: Console, full: bool) -> None:
    size, pieces = content.block_size, content.told.pieces
    count = -(-len(pieces) // size)
    everything = full or count <= _HEAD_BLOCKS + _TAIL_BLOCKS + 1
    for block in range(count):
        if not everything and _HEAD_BLOCKS <= block < count - _TAIL_BLOCKS:
            if block == _HEAD_BLOCKS:
                left = count - _HEAD_BLOCKS - _TAIL_BLOCKS
                output.print(f"\n... {left:,} blocks, {left * size:,} tokens (--full shows them) ...")
            continue
        _print_block(content, block, output, full)


def _print_block(content: ToldContent, block: int, output: Console, full: bool) -> None:
    size = content.block_size
    first = block * size
    pieces = content.told.pieces[first : first + size]
    in_colour = tokens_text.is_coloured(output)
    is_full = block < len(content.hashes)
    name = f"{content.hashes[block]:016x}" if is_full else f"{len(pieces)} of {size}, never cached"
    heading = f"block {block}  tokens {first}..{first + len(pieces) - 1}  {name}"
    output.print()
    output.print(Text(f"\u2500\u2500 {heading} ", style="bold" if is_full else "bold yellow") if in_colour else heading)
    shown = pieces if full or len(pieces) <= _HEAD_TOKENS + _TAIL_TOKENS else None
    parts = [(0, shown)] if shown is not None else _ends(pieces)
    for number, (start, part) in enumerate(parts):
        if number:
            output.print(f"... {start - _HEAD_TOKENS:,} tokens (--full shows them) ...")
        print_part = _print_coloured if in_colour else _print_plain
        print_part(part, first + start, output)


def _ends(pieces: Sequence[Piece]) -> list[tuple[int, Sequence[Piece]]]:
    return [(0, pieces[:_HEAD_TOKENS]), (len(pieces) - _TAIL_TOKENS, pieces[-_TAIL_TOKENS:])]


def _print_coloured(pieces: Sequence[Piece], first: int, output: Console) -> None:
    """The text as it runs, then each id with its piece."""
    text = Text()
    for index, piece in enumerate(_whole(pieces), first):
        text.append_text(tokens_text.coloured(piece, index))
    output.print(text)
    ids = Text()
    for index, piece in enumerate(pieces, first):
        ids.append(f"{piece.id}", style="dim")
        ids.append_text(tokens_text.coloured(piece, index, breaks=False)).append("  ")
    output.print(ids)


def _whole(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces, where a character takes several of them these as one."""
    waiting = b""
    for piece in pieces:
        joined = replace(piece, data=waiting + piece.data)
        waiting = joined.data if joined.text is None else b""
        if not waiting:
            yield joined
    if waiting:
        yield joined


def _print_plain(pieces: Sequence[Piece], first: int, output: Console) -> None:
    """A line for each token: its place, its id, its part of the text."""
    for index, piece in enumerate(pieces, first):
        kind = " special" if piece.special else " added" if piece.added else ""
        text = tokens_text.quoted(piece.data) if piece.data else f'"" {tokens_text.readable(piece.name)}'
        output.print(f"{index:>8} {piece.id:>8} {text}{kind}", soft_wrap=True)
