"""What the demo can be told, and the engine that it emulates."""

from dataclasses import dataclass

from warmroute.config import option
from warmroute.engine_model import EngineOptions
from warmroute.errors import ConfigError
from warmroute.policy import POLICIES

DEFAULT_POLICIES = ("random", "round-robin", "warmroute")
MODEL = "warmroute-tiny"

SPEEDUP = 4.0
# The modelled pod: an 8B model on one 24 GB card (an assumption, rounded from the card's arithmetic and bandwidth).
# A small pod, so that a few dozen clients keep it busy: what limits the demo must be the engines that are modelled,
# not the Python that models them (an engine's process is busy 5 % of the time, on 2 cores). HTTP and tokenizing are
# done for real and not sped up; a modelled overhead would count them a second time. 2,048 tokens a step are vLLM's
# default on such a card. The cache's size comes from the workload.
POD = EngineOptions(
    max_num_batched_tokens=2_048,
    prefill_tokens_per_s=2_200.0,
    step_base_s=0.027,
    step_per_running_s=0.000_3,
    step_per_context_token_s=0.0,
    prefill_context_tokens=0.0,
    mixed_step_factor=1.0,
    request_overhead_s=0.0,
)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Every option of the demo; see each one's help. Raises ConfigError where a value cannot be used."""

    workers: int = option(4, "emulated engines; the workload grows with them")
    policy: tuple[str, ...] = option(
        (), f"policy to show; may be repeated (default: {', '.join(DEFAULT_POLICIES)})", choices=POLICIES
    )
    turns: int = option(6, "turns of each conversation")
    seed: int = option(0, "seed of the workload and of the router's choices")
    json: bool = option(False, "write one JSON object to stdout instead of the table")
    keep: bool = option(False, "leave the last policy's engines and router running until Ctrl-C")

    def __post_init__(self) -> None:
        if self.workers < 2:
            raise ConfigError(f"workers must be at least 2, not {self.workers}: with one there is nothing to route")
        if self.turns < 1:
            raise ConfigError(f"turns must be at least 1, not {self.turns}")

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies to show, each once, in the order given."""
        return tuple(dict.fromkeys(self.policy)) or DEFAULT_POLICIES
