"""What a policy is given and what it gives back."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from warmroute.block import Overlap
from warmroute.worker import Lane, Load, Rates, Worker


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """The part of a request that a policy may look at.

    sequence: how many requests were dispatched before this one.
    output_tokens: how many tokens the answer is expected to have.
    now: seconds of the router's clock.
    token_ids: the prompt as far as it is known, or None; for policies that keep a picture of caches of their own.
    session: what the client names as its conversation.
    """

    prompt_tokens: int
    output_tokens: float
    sequence: int
    now: float = 0.0
    token_ids: Sequence[int] | None = None
    session: str | None = None


@dataclass(slots=True)
class Candidate:
    """A worker that may get the request: its speed, and of its best lane the load and what that holds of the prompt.

    cached_tokens: tokens of the prompt that need no prefill there.
    """

    worker: Worker
    lane: Lane
    load: Load
    rates: Rates
    overlap: Overlap
    block_size: int
    prompt_tokens: int
    cached_tokens: int

    @property
    def uncached_tokens(self) -> int:
        """Tokens of the prompt that the worker would have to compute."""
        return max(0, self.prompt_tokens - self.cached_tokens)

    @property
    def attended_tokens(self) -> int:
        """The tokens before each of these, summed: what attention has to do for them."""
        return attended(self.cached_tokens, self.uncached_tokens)


def cached_tokens(blocks: int, block_size: int, prompt_tokens: int) -> int:
    """The tokens of a prompt that need no prefill where its first `blocks` blocks are held.

    The last token is always computed, so a prompt that is held whole still misses its last block (vLLM, SGLang).
    """
    if prompt_tokens <= 0:
        return 0
    return min(blocks, (prompt_tokens - 1) // block_size) * block_size


def attended(before: int, tokens: int) -> int:
    """The tokens before each of `tokens` ones, summed, where `before` stand before the first."""
    return tokens * before + tokens * tokens // 2


@dataclass(slots=True)
class Cost:
    """What sending the request to one worker costs, lowest wins; `terms` say how the total came about."""

    total: float
    terms: Mapping[str, float]


class Policy(Protocol):
    """A way to choose. `unit` names what its costs are counted in.

    One with `considers_all = False` says that among workers that hold as much of a prompt the one with less to do is
    never dearer: of a large fleet it is then shown only those that hold much or have little to do.
    """

    name: str
    unit: str

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        """One cost for each candidate, in their order. Equal costs are told apart by chance."""


def cheapest(costs: Sequence[Cost], rng: random.Random) -> int:
    """The position of the lowest cost; among equals a random one, so that nobody gets all of the first requests."""
    least = min(cost.total for cost in costs)
    equals = [position for position, cost in enumerate(costs) if cost.total == least]
    return equals[0] if len(equals) == 1 else rng.choice(equals)
