"""Where an emulated engine listens, what it serves and how fast its time runs."""

import math
from dataclasses import dataclass, field

from warmroute.config import option
from warmroute.engine_model import EngineOptions
from warmroute.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """One emulated vLLM server. Raises ConfigError where a value cannot be used."""

    host: str = option("127.0.0.1", "address to listen on, for HTTP and for KV events")
    port: int = option(8000, "HTTP port; 0 takes a free one")
    model: str = option("warmroute-tiny", "folder with the tokenizer and chat template, or the packaged model")
    served_model_name: str | None = option(None, "name of the model in the API (default: as --model)")
    speedup: float = option(1.0, "how many times faster than the modelled engine time runs")
    data_parallel_size: int = option(
        1, "engines behind this server, each with a cache of its own; the header X-data-parallel-rank chooses one"
    )
    kv_events: str = option(
        "map",
        "KV events in vLLM's wire format of 0.24 and later, of before, as TensorRT-LLM hands them out at "
        "POST /kv_cache_events, or none",
        choices=("map", "array", "trtllm", "off"),
    )
    kv_events_port: int = option(
        0, "port of the KV events, of rank 0 (the next ones of the others); 0 takes free ones, see /kv_event_sources"
    )
    kv_replay_port: int = option(0, "port of the replay of KV events, of rank 0; 0 takes free ones")
    kv_events_topic: str = option("", "topic of the KV events")
    kv_buffer_steps: int = option(10_000, "batches of KV events kept for replay, or single ones until asked for")
    answer_tokens: int = option(
        512, "typical length of an answer that ends by itself; it varies by half, from prompt to prompt"
    )
    seed: int | None = option(None, "start of this engine's block hashes (default: another one in every process)")
    engine: EngineOptions = field(default_factory=EngineOptions)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speedup) and self.speedup > 0):
            raise ConfigError(f"speedup must be above 0, not {self.speedup}")
        for name in ("port", "kv_events_port", "kv_replay_port"):
            if not 0 <= getattr(self, name) <= 65_535:
                raise ConfigError(f"{name} must be from 0 to 65535, not {getattr(self, name)}")
        for name in ("kv_events_port", "kv_replay_port"):
            last = getattr(self, name) + self.data_parallel_size - 1
            if getattr(self, name) and last > 65_535:
                raise ConfigError(f"{name} {getattr(self, name)} leaves no ports for {self.data_parallel_size} ranks")
        for name in ("answer_tokens", "kv_buffer_steps", "data_parallel_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")

        if self.kv_events == "trtllm" and self.engine.disk_blocks:
            raise ConfigError("kv_events trtllm has a GPU's and a host's level only: leave disk_blocks at 0")

    @property
    def publishes(self) -> bool:
        """Whether KV events go out over ZMQ."""
        return self.kv_events in ("map", "array")

    @property
    def model_name(self) -> str:
        return self.served_model_name or self.model
