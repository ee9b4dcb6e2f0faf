"""The tokens of a body, as the router would tell them: text, ids with their pieces, blocks with their hashes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warmroute.block import BlockHashes, Namespace, hash_blocks
from warmroute.cli.tokens_body import NamedBody
from warmroute.cli.tokens_options import NamedTokenizer, TokensOptions
from warmroute.cli.tokens_pieces import Piece, Pieces, pieces_of_ids, pieces_of_text
from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Content, Endpoint, Match, Prompt, parse_prompt
from warmroute.tokenizer import Dialect
from warmroute.tokenizer.local_source import why_not_rendered


@dataclass(frozen=True, slots=True)
class ToldContent:
    """One prompt of a body. complete: False where text and ids are only a true prefix of what the engine will see."""

    told: Pieces
    complete: bool
    hashes: BlockHashes
    block_size: int

    @property
    def ids(self) -> list[int]:
        """The token ids."""
        return [piece.id for piece in self.told.pieces]

    @property
    def tail(self) -> int:
        """Tokens after the last full block, which no engine keeps for others."""
        return len(self.told.pieces) - len(self.hashes) * self.block_size


@dataclass(frozen=True, slots=True)
class ToldBody:
    """A body and what is known of its tokens.

    reason: one word for why the match is not exact; detail: a sentence, where there is more to say.
    """

    named: NamedBody
    endpoint: Endpoint
    prompt: Prompt
    dialect: Dialect
    tokenizer: NamedTokenizer
    namespace: Namespace
    contents: Sequence[ToldContent]
    match: Match
    reason: str | None
    detail: str | None

    @property
    def total(self) -> int:
        """Tokens over all prompts of the body, as far as they are told."""
        return sum(len(content.told.pieces) for content in self.contents)


def tell(named: NamedBody, tokenizer: NamedTokenizer, prompt: Prompt, options: TokensOptions) -> ToldBody:
    """The tokens of a body, whatever it holds: where they cannot be told, the reason."""
    namespace = options.namespace(prompt.namespace)
    contents: list[ToldContent] = []
    reason: str | None = None if prompt.untold is None else prompt.untold.value
    detail = prompt.problem
    try:
        contents = [_told(each, tokenizer, namespace, options) for each in prompt.contents]
    except TemplateError as error:
        reason = why_not_rendered(prompt).value
        detail = str(error)
    complete = prompt.exact and all(content.complete for content in contents)
    match = Match.NONE if not contents else Match.EXACT if complete else Match.TEXT_PREFIX
    return ToldBody(
        named=named,
        endpoint=prompt.endpoint,
        prompt=prompt,
        dialect=options.rendering,
        tokenizer=tokenizer,
        namespace=namespace,
        contents=contents,
        match=match,
        reason=reason,
        detail=detail,
    )


def read_prompt(named: NamedBody) -> Prompt:
    """The prompt of a body. Raises ConfigError where its endpoint cannot be told."""
    return parse_prompt(named.endpoint, named.body)


def _told(content: Content, named: NamedTokenizer, namespace: Namespace, options: TokensOptions) -> ToldContent:
    told = named.tokenizer.tell(content, options.rendering)
    size = options.tokens_per_block
    pieces = (
        pieces_of_ids(told.ids, named.vocabulary)
        if told.text is None
        else pieces_of_text(told.text, told.ids, named.vocabulary)
    )
    return ToldContent(pieces, told.complete, hash_blocks(told.ids, size, namespace), size)


def chats(prompt: Prompt) -> list[ChatContent]:
    """The conversations of a prompt."""
    return [content for content in prompt.contents if isinstance(content, ChatContent)]


def as_json(body: ToldBody) -> dict[str, Any]:
    """Everything, nothing shortened. Ids, pieces and blocks are in order; `start` and `end` count characters."""
    return {
        "name": body.named.name,
        "endpoint": body.endpoint.value,
        "model": body.prompt.model,
        "dialect": body.dialect.value,
        "tokenizer": body.tokenizer.source,
        "seams": list(body.tokenizer.seams),
        "match": body.match.value,
        "reason": body.reason,
        "detail": body.detail,
        "namespace": {"adapter": body.namespace.adapter, "salt": body.namespace.salt},
        "block_size": body.contents[0].block_size if body.contents else None,
        "tokens": body.total,
        "prompts": [_content_json(content) for content in body.contents],
    }


def _content_json(content: ToldContent) -> dict[str, Any]:
    size = content.block_size
    hashes = enumerate(content.hashes)
    blocks = [{"first": i * size, "end": (i + 1) * size, "hash": f"{each:016x}"} for i, each in hashes]
    return {
        "text": content.told.text,
        "tokens": len(content.told.pieces),
        "complete": content.complete,
        "aligned": content.told.aligned,
        "ids": content.ids,
        "pieces": [piece_json(piece) for piece in content.told.pieces],
        "blocks": blocks,
        "tail_tokens": content.tail,
    }


def piece_json(piece: Piece) -> dict[str, Any]:
    """A token and its part of the text; `text` is null where that is no whole characters, `bytes` has it as hex."""
    return {
        "id": piece.id,
        "token": piece.name,
        "text": piece.text,
        "bytes": piece.data.hex(),
        "start": piece.start,
        "end": piece.end,
        "special": piece.special,
    }
