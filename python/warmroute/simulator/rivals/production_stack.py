"""vLLM production-stack, `prefixaware`: a trie of 128-character chunks; one of the deepest match's holders at random.

No load term, and nothing is ever evicted. A prompt that nobody was sent goes to any worker. 32 tokens stand for 128
characters; the last chunk, if it is not full, is left out.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, taking
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prefix_tree import PrefixTree
from warmroute.simulator.rivals.prompt_blocks import CHARACTERS_PER_TOKEN, PromptBlocks

CHUNK_CHARACTERS = 128


class PrefixAwarePolicy(Learner):
    """`chunk_characters`: what is compared at once, a multiple of 4."""

    name = "production-stack-prefixaware"
    unit = RANK

    def __init__(self, chunk_characters: int = CHUNK_CHARACTERS) -> None:
        self._chunk_tokens = chunk_characters // CHARACTERS_PER_TOKEN
        self._blocks = PromptBlocks()
        self._tree = PrefixTree()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        position_of = {candidate.lane.key: position for position, candidate in enumerate(candidates)}
        matched, holders = self._tree.holders(self._blocks.of(request.token_ids, self._chunk_tokens), position_of)
        chosen = [position_of[lane] for lane in holders] or range(len(candidates))
        terms = [{"chunks": float(matched if position in chosen else 0)} for position in range(len(candidates))]
        return taking(chosen, terms)

    def decided(self, decision: Decision) -> None:
        self._tree.insert(self._blocks.of(decision.request.token_ids, self._chunk_tokens), decision.lane.key)


ARM = Arm(
    "production-stack-prefixaware",
    "any worker that was sent the longest match, whatever its load",
    PrefixAwarePolicy,
    "vllm-project/production-stack, src/vllm_router/prefix/hashtrie.py",
    hears_events=False,
    knob=Knob(
        "chunk, characters",
        CHUNK_CHARACTERS,
        (32.0, 64.0, CHUNK_CHARACTERS, 256.0, 1024.0),
        lambda value: PrefixAwarePolicy(int(value)),
    ),
)
