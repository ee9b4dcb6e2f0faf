"""GET /metrics with vLLM's names and labels, from a registry of this server's own; `engine` is the rank."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.engine_model import EngineOptions, EngineState

_LABELS = ["model_name", "engine"]
_TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
_TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5)


class ServerMetrics:
    """The metrics of all ranks; gauges and token counters are read from `states` when somebody asks."""

    def __init__(self, model_name: str, options: EngineOptions, states: Sequence[Callable[[], EngineState]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_StateCollector(model_name, options, states))
        self._model_name = model_name
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to first token.", _TTFT_BUCKETS)
        self._inter_token = self._histogram("inter_token_latency_seconds", "Time per token.", _TOKEN_BUCKETS)
        self._queue = self._histogram("request_queue_time_seconds", "Time before a step.", _LATENCY_BUCKETS)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Time of a request.", _LATENCY_BUCKETS)
        self._per_token = self._histogram(
            "request_time_per_output_token_seconds", "Time per token after the first.", _TOKEN_BUCKETS
        )
        self._cached = Counter(
            "vllm:prompt_tokens_cached", "Prompt tokens from the cache.", _LABELS, registry=self._registry
        )
        self._success = Counter(
            "vllm:request_success", "Requests answered to their end.", _LABELS, registry=self._registry
        )

    def of_rank(self, rank: int) -> "EngineMetrics":
        """What one rank's requests are written to."""
        labels = (self._model_name, str(rank))
        return EngineMetrics(
            ttft=self._ttft.labels(*labels),
            inter_token=self._inter_token.labels(*labels),
            queue=self._queue.labels(*labels),
            e2e=self._e2e.labels(*labels),
            per_token=self._per_token.labels(*labels),
            cached=self._cached.labels(*labels),
            success=self._success.labels(*labels),
        )

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"vllm:{name}", help, _LABELS, buckets=buckets, registry=self._registry)


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """The metrics of one rank that its requests change."""

    ttft: Histogram
    inter_token: Histogram
    queue: Histogram
    e2e: Histogram
    per_token: Histogram
    cached: Counter
    success: Counter

    def admitted(self, waited_s: float, cached_tokens: int) -> None:
        """A request was scheduled for the first time."""
        self.queue.observe(waited_s)
        self.cached.inc(cached_tokens)

    def first_token(self, since_arrival_s: float) -> None:
        """A request got its first token."""
        self.ttft.observe(since_arrival_s)

    def next_token(self, since_last_s: float) -> None:
        """A request got another token."""
        self.inter_token.observe(since_last_s)

    def finished(self, since_arrival_s: float, since_first_token_s: float, tokens: int) -> None:
        """A request got the last of its `tokens` tokens."""
        self.e2e.observe(since_arrival_s)
        self.success.inc()
        if tokens > 1:
            self.per_token.observe(since_first_token_s / (tokens - 1))


class _StateCollector(Collector):
    """Gauges and counters that the engines keep themselves."""

    def __init__(self, model_name: str, options: EngineOptions, states: Sequence[Callable[[], EngineState]]) -> None:
        self._model_name = model_name
        self._options = options
        self._states = states

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        states = [state() for state in self._states]
        gauges: tuple[tuple[str, str, list[float]], ...] = (
            ("num_requests_running", "Requests in steps.", [state.running for state in states]),
            ("num_requests_waiting", "Requests that wait for a step.", [state.waiting for state in states]),
            ("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", [state.kv_usage for state in states]),
        )
        counters: tuple[tuple[str, str, list[float]], ...] = (
            (
                "prefix_cache_queries",
                "Tokens looked up in the prefix cache.",
                [state.prefix_queries for state in states],
            ),
            ("prefix_cache_hits", "Tokens found in the prefix cache.", [state.prefix_hits for state in states]),
            ("prompt_tokens", "Prompt tokens processed.", [state.prompt_tokens for state in states]),
            ("generation_tokens", "Tokens generated.", [state.generation_tokens for state in states]),
            ("num_preemptions", "Preemptions.", [state.preemptions for state in states]),
            *self._external(states),
        )
        for name, help, values in gauges:
            yield self._filled(GaugeMetricFamily(f"vllm:{name}", help, labels=_LABELS), values)
        for name, help, values in counters:
            yield self._filled(CounterMetricFamily(f"vllm:{name}", help, labels=_LABELS), values)
        yield self._cache_config()

    def _external(self, states: Sequence[EngineState]) -> tuple[tuple[str, str, list[float]], ...]:
        """What is behind the GPU is asked for the tokens that are not there; there only where there are such tiers."""
        if not (self._options.host_blocks or self._options.disk_blocks):
            return ()
        queries: list[float] = [state.prefix_queries - state.prefix_hits for state in states]
        hits: list[float] = [state.host_hits + state.disk_hits for state in states]
        return (
            ("external_prefix_cache_queries", "Tokens looked up in slower tiers.", queries),
            ("external_prefix_cache_hits", "Tokens loaded from slower tiers.", hits),
        )

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, values: Sequence[float]) -> Metric:
        """`family` with one value for each rank."""
        for rank, value in enumerate(values):
            family.add_metric((self._model_name, str(rank)), value)
        return family

    def _cache_config(self) -> Metric:
        """vLLM's one gauge of value 1 whose labels are the fields of its cache configuration.

        As there, the blocks of all ranks are added up and the sum is said once for each rank.
        """
        ranks = len(self._states)
        fields = {
            "block_size": str(self._options.block_size),
            "enable_prefix_caching": str(self._options.enable_prefix_caching),
            "engine": "",
            "kv_cache_size_tokens": str(self._options.capacity_tokens * ranks),
            "num_gpu_blocks": str(self._options.num_blocks * ranks),
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "Cache configuration.", labels=list(fields))
        for rank in range(ranks):
            family.add_metric(list((fields | {"engine": str(rank)}).values()), 1)
        return family
