"""A request as the engine sees it: token ids in, a known number of token ids out."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warmroute.block import Namespace, Tier


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and the answer that the model will give to it (at least one token each).

    The answer is known beforehand because the model computes no logits: its ids are needed only since generated
    tokens fill KV blocks too, and those blocks are hashed, announced and found again by the next turn.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    answer_token_ids: Sequence[int]
    namespace: Namespace = field(default_factory=Namespace)


@dataclass(frozen=True, slots=True)
class Loading:
    """Tokens of a prompt that come from slower tiers, and when the last of them are there."""

    until: float
    tokens: Mapping[Tier, int]


@dataclass(slots=True, eq=False)
class LiveRequest:
    """A request from submission to its end, with the state that the scheduler and the cache keep on it.

        token_ids:   [ prompt .......................... | answer .................. ]
        0 .... cached_tokens .... computed .... known_tokens .............................. len(token_ids)

    `cached_tokens` were found in the prefix cache at the first admission; the KV of `computed` tokens is in `blocks`;
    `known_tokens` are the prompt and what was generated. A generated token enters the cache with the step that takes
    it as input, so the last one of an answer never does. While there is `loading`, the last of the computed tokens are
    on their way from slower tiers, and the request can do nothing.
    """

    request: Request
    request_id: str
    token_ids: "array[int]"
    block_hashes: Sequence[int]
    ready_at: float
    prompt_tokens: int
    answer_tokens: int
    known_tokens: int
    computed: int = 0
    generated: int = 0
    blocks: list[int] = field(default_factory=list)
    labelled_blocks: int = 0
    cached_tokens: int | None = None
    loading: Loading | None = None
    ended: bool = False
