"""`cache_aware` of SGLang's gateway and of vllm-router: a tree of the texts that were sent, and a test of balance.

    balance broken   most - least > 64 and most > 1.5 x least      the least loaded, the first of equals
    else             matched / text > 0.3                          the one holder remembered for the match's end
                     else                                          the least loaded, the first of equals

The text is entered under whoever gets it. Every minute (SGLang) or two (vllm-router) the ends of texts that a worker
was sent longest ago leave the tree, down to 67,108,864 (33,554,432) characters a worker. These are the defaults of the
command lines; libraries and READMEs have others. Where the remembered holder cannot be asked the first worker gets
the request, and nothing is entered. Chunks of 16 tokens stand for 64 characters.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, first_least, is_imbalanced, loads, taking
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prefix_tree import PrefixTree
from warmroute.simulator.rivals.prompt_blocks import CHUNK_CHARACTERS, CHUNK_TOKENS, PromptBlocks


@dataclass(frozen=True, slots=True)
class CacheAwareOptions:
    """`most_apart` and `most_times` test the balance; `tree_characters` is kept for each worker at each eviction."""

    eviction_interval_s: float
    tree_characters: int
    match_threshold: float = 0.3
    most_apart: float = 64.0
    most_times: float = 1.5


SGLANG = CacheAwareOptions(60.0, 67_108_864)
VLLM_ROUTER = CacheAwareOptions(120.0, 33_554_432)


class CacheAwarePolicy(Learner):
    """One tree for all workers, as the routers keep one for each model."""

    unit = RANK

    def __init__(self, name: str, options: CacheAwareOptions) -> None:
        self.name = name
        self._options = options
        self._blocks = PromptBlocks()
        self._tree = PrefixTree()
        self._evicts_at: float | None = None

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load, matched = loads(candidates), self._matched(request.token_ids, request.prompt_tokens)
        chosen, _ = self._choose(candidates, load, matched)
        holder = matched[1]
        terms = [
            {
                "requests": float(candidate.load.requests),
                "match": matched[0] if candidate.lane.key == holder else 0.0,
            }
            for candidate in candidates
        ]
        return taking((chosen,), terms)

    def decided(self, decision: Decision) -> None:
        request = decision.request
        matched = self._matched(request.token_ids, request.prompt_tokens)
        _, entered = self._choose(decision.candidates, loads(decision.candidates), matched)
        if entered:
            self._tree.insert(self._blocks.of(request.token_ids), decision.lane.key)
        self._evict(decision.decided_at)

    def _matched(self, token_ids: Sequence[int] | None, prompt_tokens: int) -> tuple[float, int | None]:
        """The share of the text that is known, and who is remembered for it."""
        blocks, lane = self._tree.remembered(self._blocks.of(token_ids))
        return (blocks * CHUNK_TOKENS / prompt_tokens if prompt_tokens else 0.0), lane

    def _choose(
        self, candidates: Sequence[Candidate], load: Sequence[int], matched: tuple[float, int | None]
    ) -> tuple[int, bool]:
        """The position taken, and whether the text is entered under it."""
        share, holder = matched
        balanced = not is_imbalanced(load, self._options.most_apart, self._options.most_times)
        if balanced and share > self._options.match_threshold:
            for position, candidate in enumerate(candidates):
                if candidate.lane.key == holder:
                    return position, True
            return 0, False
        return first_least(load), True

    def _evict(self, now: float) -> None:
        interval = self._options.eviction_interval_s
        if self._evicts_at is None:
            self._evicts_at = now + interval
        elif now >= self._evicts_at:
            self._tree.evict(self._options.tree_characters // CHUNK_CHARACTERS)
            self._evicts_at += interval * (1 + (now - self._evicts_at) // interval)


def _with_most_apart(name: str, options: CacheAwareOptions, most_apart: float) -> CacheAwarePolicy:
    changed = CacheAwareOptions(options.eviction_interval_s, options.tree_characters, most_apart=most_apart)
    return CacheAwarePolicy(name, changed)


def _arm(name: str, options: CacheAwareOptions, source: str) -> Arm:
    return Arm(
        name,
        "the remembered holder of a match above 30 %, the least loaded while loads are far apart",
        lambda: CacheAwarePolicy(name, options),
        source,
        hears_events=False,
        knob=Knob(
            "balance_abs_threshold",
            options.most_apart,
            (4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
            lambda value: _with_most_apart(name, options, value),
        ),
    )


ARMS = (
    _arm(
        "sglang-cache-aware", SGLANG, "sglang-router 0.3.2, sgl-model-gateway/src/policies/cache_aware.rs and tree.rs"
    ),
    _arm("vllm-router-cache-aware", VLLM_ROUTER, "vllm-project/router 0.1.17, src/policies/cache_aware.rs"),
)
