"""What the tokenizers' segment caches hold and save, as Prometheus metrics."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.tokenizer import LocalTokenizer

_GAUGES = (
    ("segments", "segments", "Segments of text whose token ids are kept."),
    ("segment_bytes", "bytes", "What these take: texts, ids and bookkeeping."),
)
_COUNTERS = (
    ("text_bytes", "asked_bytes", "Text that was to be encoded."),
    ("known_text_bytes", "found_bytes", "Of that, text whose ids were kept, so that it was not encoded again."),
)


class SegmentCollector(Collector):
    """Reads the caches at the moment of the scrape; `tokenizers` gives each with the model it is for ('': for all)."""

    def __init__(self, tokenizers: Callable[[], Iterable[tuple[str, LocalTokenizer]]]) -> None:
        self._tokenizers = tokenizers

    def collect(self) -> Iterator[Metric]:
        """One family for each figure."""
        stats = [(model, tokenizer.segment_stats()) for model, tokenizer in self._tokenizers()]
        for kinds, family in ((_GAUGES, GaugeMetricFamily), (_COUNTERS, CounterMetricFamily)):
            for name, figure, documentation in kinds:
                metric = family(f"warmroute_tokenizer_{name}", documentation, labels=["model"])
                for model, found in stats:
                    metric.add_metric([model], getattr(found, figure))
                yield metric
