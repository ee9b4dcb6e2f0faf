"""Where two prompts part, and what of the cache that costs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from warmroute.cli.tokens_field import FieldPlace, Rendering, field_at
from warmroute.cli.tokens_hint import Hint, hint_from_bodies, hint_from_text
from warmroute.cli.tokens_pieces import Piece
from warmroute.cli.tokens_prompt import ToldBody, ToldContent, piece_json
from warmroute.cli.tokens_view import verdict
from warmroute.errors import ConfigError
from warmroute.openai_api import ChatContent, Endpoint

_BEFORE, _AFTER = 12, 16


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two prompts where they part, or where the shorter one ends.

    offset: of the first token that differs, in characters of the rendered text; line and column count from 1, and are
    those of the first character that differs. marked: the place of that token in `around`.
    """

    body: ToldBody
    content: ToldContent
    offset: int
    line: int
    column: int
    place: FieldPlace
    around: Sequence[Piece]
    marked: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Two prompts beside each other.

    token: the number of leading tokens that are the same, so the index of the first that is not. text_offset: the same
    in characters. diverges: False where the shorter prompt is a prefix of the longer one.
    """

    a: Side
    b: Side
    token: int
    text_offset: int
    diverges: bool
    same_namespace: bool
    hint: Hint | None

    @property
    def block_size(self) -> int:
        """Tokens per block."""
        return self.a.content.block_size

    @property
    def shared_blocks(self) -> int:
        """Leading blocks that both prompts have."""
        return self.token // self.block_size if self.same_namespace else 0

    @property
    def lost_blocks(self) -> int:
        """Blocks of the shorter prompt that cannot be found for the longer one."""
        return min(len(self.a.content.hashes), len(self.b.content.hashes)) - self.shared_blocks


def compare(a: ToldBody, b: ToldBody) -> Difference:
    """The difference of the first prompts of two bodies. Raises ConfigError where one has no tokens."""
    for body in (a, b):
        if not body.contents:
            raise ConfigError(f"{body.named.name} cannot be compared: {verdict(body)}")
    first, second = a.contents[0], b.contents[0]
    token = _common(first.ids, second.ids)
    text_offset = _common(first.told.text, second.told.text)
    diverges = token < min(len(first.ids), len(second.ids))
    sides = [_side(body, token, text_offset) for body in (a, b)]
    return Difference(
        a=sides[0],
        b=sides[1],
        token=token,
        text_offset=text_offset,
        diverges=diverges,
        same_namespace=a.namespace == b.namespace,
        hint=_hint(sides[0], sides[1], text_offset) if diverges else None,
    )


def as_json(difference: Difference) -> dict[str, Any]:
    """All of it; `at` is where they part, or where the shorter one ends."""
    hint = difference.hint
    told = None if hint is None else {"kind": hint.kind, "a": hint.a, "b": hint.b, "advice": hint.advice}
    return {
        "diverges": difference.diverges,
        "same_namespace": difference.same_namespace,
        "block_size": difference.block_size,
        "shared_tokens": difference.token,
        "shared_blocks": difference.shared_blocks,
        "lost_blocks": difference.lost_blocks,
        "at": {
            "token": difference.token,
            "block": difference.token // difference.block_size,
            "token_in_block": difference.token % difference.block_size,
            "text_offset": difference.text_offset,
        },
        "hint": told,
        "a": _side_json(difference.a),
        "b": _side_json(difference.b),
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "name": side.body.named.name,
        "match": side.body.match.value,
        "reason": side.body.reason,
        "tokens": len(side.content.told.pieces),
        "blocks": len(side.content.hashes),
        "offset": side.offset,
        "line": side.line,
        "column": side.column,
        "field": side.place.field,
        "field_offset": side.place.offset,
        "message": side.place.message,
        "role": side.place.role,
        "before": [piece_json(piece) for piece in side.around[: side.marked]],
        "after": [piece_json(piece) for piece in side.around[side.marked :]],
    }


def _common(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The length of the longest common beginning."""
    length = min(len(a), len(b))
    return next((i for i in range(length) if a[i] != b[i]), length)


def _side(body: ToldBody, token: int, text_offset: int) -> Side:
    content = body.contents[0]
    text, pieces = content.told.text, content.told.pieces
    start = max(0, token - _BEFORE)
    before_it = text[:text_offset]
    chat, rendering = _rendering(body)
    messages = 0 if chat is None else len(chat.messages)
    place = FieldPlace()
    if text_offset < len(text):
        place = field_at(_object(body.named.body), text, text_offset, rendering, messages)
    return Side(
        body=body,
        content=content,
        offset=content.told.offset(token),
        line=before_it.count("\n") + 1,
        column=text_offset - (before_it.rfind("\n") + 1) + 1,
        place=place,
        around=pieces[start : token + _AFTER],
        marked=token - start,
    )


def _rendering(body: ToldBody) -> tuple[ChatContent | None, Rendering | None]:
    """Renders the beginning of a conversation, where its messages are those of the body."""
    content = body.prompt.contents[0]
    if not isinstance(content, ChatContent) or body.endpoint is not Endpoint.CHAT:
        return None, None

    def render(messages: int) -> str:
        begun = replace(
            content,
            messages=content.messages[:messages],
            add_generation_prompt=False,
            continue_final_message=content.continue_final_message and messages == len(content.messages),
        )
        return body.tokenizer.tokenizer.render(begun, body.dialect)

    return content, render


def _hint(a: Side, b: Side, text_offset: int) -> Hint | None:
    bodies = _object(a.body.named.body), _object(b.body.named.body)
    in_tools = any((side.place.field or "tools").startswith("tools") for side in (a, b))
    structural = hint_from_bodies(*bodies, in_tools, a.place.message)
    return structural or hint_from_text(a.content.told.text, b.content.told.text, text_offset)


def _object(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
