"""What kind of engine is modelled; the defaults are one pod with Qwen3-32B on two H100s (TP2)."""

from dataclasses import dataclass

from warmroute.config import option
from warmroute.errors import ConfigError

_NOT_NEGATIVE = (
    "step_base_s",
    "step_per_running_s",
    "step_per_context_token_s",
    "prefill_context_tokens",
    "request_overhead_s",
    "host_blocks",
    "disk_blocks",
)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Size and speed of one engine. Raises ConfigError where no engine could run that way.

    The defaults are the pod of `presets.QWEN3_32B_H100_TP2`, where the source of each figure is told, in vLLM's default
    blocks of 16. How a step's time is made of these figures: `step_time.py`.
    """

    block_size: int = option(16, "tokens in one KV block")
    num_blocks: int = option(341_000 // 16, "KV blocks of the engine")
    max_model_len: int | None = option(
        None, "longest prompt plus answer, in tokens (default: 40960, less where the blocks hold less)"
    )
    max_num_batched_tokens: int = option(8192, "token budget of one step")
    max_num_seqs: int = option(256, "most requests in one step")
    enable_prefix_caching: bool = option(True, "keep the blocks of finished requests for equal prefixes")
    step_base_s: float = option(0.0125, "seconds of a step that computes nothing")
    step_per_running_s: float = option(0.000_01, "seconds that each request in a step adds, however long it is")
    step_per_context_token_s: float = option(
        39.1e-9, "seconds that a step takes longer for each token whose KV its decoding requests read"
    )
    prefill_tokens_per_s: float = option(
        23_200.0, "prompt tokens computed per second at the beginning of a prompt, in steps that decode nothing"
    )
    prefill_context_tokens: float = option(
        31_000.0, "tokens of context after which a prompt token costs twice as much, for attention; 0: it never does"
    )
    mixed_step_factor: float = option(1.5, "how many times longer a prefill takes in steps that decode as well")
    request_overhead_s: float = option(0.15, "seconds between a request's arrival and its first chance to be scheduled")
    host_blocks: int = option(0, "KV blocks in CPU memory, for those evicted from the GPU; 0: no such tier")
    disk_blocks: int = option(0, "KV blocks on disk, for those evicted from the tier before; 0: no such tier")
    host_load_tokens_per_s: float = option(95_000.0, "tokens per second whose KV comes back from CPU memory")
    disk_load_tokens_per_s: float = option(19_000.0, "tokens per second whose KV comes back from disk")

    def __post_init__(self) -> None:
        for name in ("block_size", "num_blocks", "max_num_batched_tokens", "max_num_seqs"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            _require(getattr(self, name) >= 0, f"{name} must not be negative, not {getattr(self, name)}")
        for name in ("prefill_tokens_per_s", "host_load_tokens_per_s", "disk_load_tokens_per_s"):
            _require(getattr(self, name) > 0, f"{name} must be above 0, not {getattr(self, name)}")
        _require(self.mixed_step_factor >= 1, f"mixed_step_factor must be at least 1, not {self.mixed_step_factor}")
        if self.max_model_len is not None:
            _require(self.max_model_len >= 1, f"max_model_len must be at least 1, not {self.max_model_len}")
            # As vLLM at start: one request of full length must fit, otherwise preemption could never make room for it.
            _require(
                self.max_model_len <= self.capacity_tokens,
                f"max_model_len {self.max_model_len} is more than the {self.capacity_tokens} tokens of KV"
                f" ({self.num_blocks} blocks of {self.block_size}); raise num_blocks or lower max_model_len",
            )

    @property
    def capacity_tokens(self) -> int:
        """Tokens whose KV the GPU holds."""
        return self.block_size * self.num_blocks

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus answer, in tokens; 40960 is Qwen3-32B's own limit."""
        return self.max_model_len or min(40_960, self.capacity_tokens)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)
