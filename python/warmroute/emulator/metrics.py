"""GET /metrics with vLLM's names and labels, from a registry of this engine's own."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.engine_model import EngineOptions, EngineState

_LABELS = ["model_name", "engine"]
_ENGINE = "0"
_TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
_TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5)


class EngineMetrics:
    """The metrics of one engine; gauges and token counters are read from `state` when somebody asks."""

    def __init__(self, model_name: str, options: EngineOptions, state: Callable[[], EngineState]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_StateCollector(model_name, options, state))
        labels = (model_name, _ENGINE)
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to first token.", _TTFT_BUCKETS, labels)
        self._inter_token = self._histogram("inter_token_latency_seconds", "Time per token.", _TOKEN_BUCKETS, labels)
        self._queue = self._histogram("request_queue_time_seconds", "Time before a step.", _LATENCY_BUCKETS, labels)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Time of a request.", _LATENCY_BUCKETS, labels)
        self._per_token = self._histogram(
            "request_time_per_output_token_seconds", "Time per token after the first.", _TOKEN_BUCKETS, labels
        )
        self._cached = Counter(
            "vllm:prompt_tokens_cached", "Prompt tokens from the cache.", _LABELS, registry=self._registry
        ).labels(*labels)
        self._success = Counter(
            "vllm:request_success", "Requests answered to their end.", _LABELS, registry=self._registry
        ).labels(*labels)

    def admitted(self, waited_s: float, cached_tokens: int) -> None:
        """A request was scheduled for the first time."""
        self._queue.observe(waited_s)
        self._cached.inc(cached_tokens)

    def first_token(self, since_arrival_s: float) -> None:
        """A request got its first token."""
        self._ttft.observe(since_arrival_s)

    def next_token(self, since_last_s: float) -> None:
        """A request got another token."""
        self._inter_token.observe(since_last_s)

    def finished(self, since_arrival_s: float, since_first_token_s: float, tokens: int) -> None:
        """A request got the last of its `tokens` tokens."""
        self._e2e.observe(since_arrival_s)
        self._success.inc()
        if tokens > 1:
            self._per_token.observe(since_first_token_s / (tokens - 1))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...], labels: tuple[str, str]) -> Histogram:
        histogram = Histogram(f"vllm:{name}", help, _LABELS, buckets=buckets, registry=self._registry)
        return histogram.labels(*labels)


class _StateCollector(Collector):
    """Gauges and counters that the engine keeps itself."""

    def __init__(self, model_name: str, options: EngineOptions, state: Callable[[], EngineState]) -> None:
        self._labels = (model_name, _ENGINE)
        self._options = options
        self._state = state

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        state = self._state()
        yield self._gauge("num_requests_running", "Requests in steps.", state.running)
        yield self._gauge("num_requests_waiting", "Requests that wait for a step.", state.waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", state.kv_usage)
        yield self._counter("prefix_cache_queries", "Tokens looked up in the prefix cache.", state.prefix_queries)
        yield self._counter("prefix_cache_hits", "Tokens found in the prefix cache.", state.prefix_hits)
        yield self._counter("prompt_tokens", "Prompt tokens processed.", state.prompt_tokens)
        yield self._counter("generation_tokens", "Tokens generated.", state.generation_tokens)
        yield self._counter("num_preemptions", "Preemptions.", state.preemptions)
        yield self._cache_config()

    def _gauge(self, name: str, help: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", help, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, help: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", help, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _cache_config(self) -> Metric:
        """vLLM's one gauge of value 1 whose labels are the fields of its cache configuration."""
        fields = {
            "block_size": str(self._options.block_size),
            "enable_prefix_caching": str(self._options.enable_prefix_caching),
            "engine": _ENGINE,
            "kv_cache_size_tokens": str(self._options.capacity_tokens),
            "num_gpu_blocks": str(self._options.num_blocks),
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "Cache configuration.", labels=list(fields))
        family.add_metric(list(fields.values()), 1)
        return family
