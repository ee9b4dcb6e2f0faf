"""What kind of engine is modelled; the defaults are one pod with Qwen3-32B on two H100s (TP2)."""

from dataclasses import dataclass

from warmroute.config import option
from warmroute.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Size and speed of one engine. Raises ConfigError where no engine could run that way.

    Sources of the defaults: llm-d's published runs of Qwen3-32B on 8 pods of 2 H100-80GB in 2026 (vLLM 0.19 and later,
    gpu-memory-utilization 0.95: 341k tokens of KV a pod; max-num-batched-tokens 8192; max-num-seqs as vLLM's default).
    The three terms of the step time and the request overhead are a fit to their tables. As a check, the workload of
    those runs (150 prefixes of 6,300 tokens, 5 questions of 1,284 to each, 1,000 tokens of answer, at 60 requests/s)
    on 8 of these models, with every prefix on one engine, gives 18.4k tokens/s and a TTFT p90 of 0.25 s where 15.7k to
    17.1k and 0.22 to 0.30 s were published; round robin gives 7.8k where 6.6k were.
    """

    block_size: int = option(16, "tokens in one KV block")
    num_blocks: int = option(341_000 // 16, "KV blocks of the engine")
    max_model_len: int | None = option(
        None, "longest prompt plus answer, in tokens (default: 40960, less where the blocks hold less)"
    )
    max_num_batched_tokens: int = option(8192, "token budget of one step")
    max_num_seqs: int = option(256, "most requests in one step")
    enable_prefix_caching: bool = option(True, "keep the blocks of finished requests for equal prefixes")
    step_base_s: float = option(0.0135, "seconds of a step that computes nothing")
    step_per_running_s: float = option(0.00028, "seconds that each request in a step adds (at about 8k context)")
    prefill_tokens_per_s: float = option(18_000.0, "prompt tokens computed per second")
    request_overhead_s: float = option(0.15, "seconds between a request's arrival and its first chance to be scheduled")

    def __post_init__(self) -> None:
        for name in ("block_size", "num_blocks", "max_num_batched_tokens", "max_num_seqs"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("step_base_s", "step_per_running_s", "request_overhead_s"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative, not {getattr(self, name)}")
        _require(
            self.prefill_tokens_per_s > 0, f"prefill_tokens_per_s must be above 0, not {self.prefill_tokens_per_s}"
        )
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
        """Tokens whose KV the engine holds."""
        return self.block_size * self.num_blocks

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus answer, in tokens; 40960 is Qwen3-32B's own limit."""
        return self.max_model_len or min(40_960, self.capacity_tokens)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)
