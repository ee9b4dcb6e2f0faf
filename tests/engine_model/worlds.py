"""Small engines, and what a listener to their events comes to believe."""

from collections import Counter
from collections.abc import Iterable, Mapping

from warmroute.block import Tier
from warmroute.engine_model import (
    EngineModel,
    EngineOptions,
    KvChange,
    KvCleared,
    KvRemoved,
    KvStored,
    Output,
    Request,
)


def options(**changes: float | bool | None) -> EngineOptions:
    """An engine of 64 blocks of 4 tokens, with round times and no request overhead."""
    small = {
        "block_size": 4,
        "num_blocks": 64,
        "max_num_batched_tokens": 32,
        "max_num_seqs": 8,
        "step_base_s": 1.0,
        "step_per_running_s": 0.0,
        "step_per_context_token_s": 0.0,
        "prefill_tokens_per_s": 1e300,
        "prefill_context_tokens": 0.0,
        "mixed_step_factor": 1.0,
        "request_overhead_s": 0.0,
    }
    return EngineOptions(**(small | changes))  # type: ignore[arg-type]


def request(name: str, prompt: Iterable[int], answer: int = 1) -> Request:
    """A request whose answer is the ids 1000, 1001, ..."""
    return Request(name, list(prompt), list(range(1000, 1000 + answer)))


class Listener:
    """Believes what KV events say of a tier: hash -> number of blocks that have it."""

    def __init__(self, believed: Mapping[int, int], tier: Tier = Tier.DEVICE) -> None:
        self.blocks = Counter(believed)
        self._tier = tier

    def hear(self, changes: Iterable[KvChange]) -> None:
        for change in changes:
            if isinstance(change, KvCleared):
                self.blocks.clear()
            elif change.tier is not self._tier:
                continue
            elif isinstance(change, KvStored):
                known = len(change.block_hashes) * change.block_size
                assert len(change.token_ids) == (known if self._tier is Tier.DEVICE else 0)
                self.blocks.update(change.block_hashes)
            else:
                assert isinstance(change, KvRemoved)
                assert self.blocks[change.block_hash] > 0, "removed what was never stored"
                self.blocks[change.block_hash] -= 1

    def believed(self) -> dict[int, int]:
        return {block_hash: count for block_hash, count in self.blocks.items() if count}


class Run:
    """Steps an engine with every check on, and keeps what came out."""

    def __init__(self, engine: EngineModel) -> None:
        self.engine = engine
        self.now = 0.0
        self.listener = Listener(engine.cached_hashes())
        self.changes: list[KvChange] = []
        self.outputs: list[Output] = []
        self.cached: dict[str, int] = {}
        self.preempted: list[str] = []

    def step(self) -> bool:
        """One step; False where there was nothing to do."""
        wake_at = self.engine.wake_at(self.now)
        if wake_at is None:
            return False
        step = self.engine.step(wake_at)
        assert step is not None
        self.engine.check_integrity()
        self.cached.update(dict(step.admitted))
        self.preempted += step.preempted
        self.now = step.ends_at
        result = self.engine.complete(step)
        self.engine.check_integrity()
        self.outputs += result.outputs
        self.changes += result.changes
        self.listener.hear(result.changes)
        assert self.listener.believed() == self.engine.cached_hashes()
        return True

    def all(self) -> "Run":
        """Steps until there is nothing to do."""
        while self.step():
            pass
        return self

    def tokens_of(self, name: str) -> int:
        return sum(output.new_tokens for output in self.outputs if output.request_id == name)

    def finished(self) -> list[str]:
        return [output.request_id for output in self.outputs if output.finished]
