"""What the segment caches hold and save can be scraped."""

from prometheus_client import CollectorRegistry

from warmroute.diagnostics.segment_metrics import SegmentCollector
from warmroute.tokenizer import LocalTokenizer, Tokenizers


def test_what_is_kept_and_found_is_told_for_each_model_once() -> None:
    for_all, own = LocalTokenizer.load("warmroute-tiny"), LocalTokenizer.load("warmroute-tiny", cache_bytes=0)
    registry = CollectorRegistry()
    registry.register(SegmentCollector(Tokenizers(for_all, {"m": own}).each))
    text = "<|im_start|>user\n" + "what is new is encoded, " * 50
    for tokenizer in (for_all, own):
        for _ in range(2):
            tokenizer.encode_text(text, add_special_tokens=False)

    def told(name: str, model: str) -> float | None:
        return registry.get_sample_value(f"warmroute_tokenizer_{name}", {"model": model})

    asked = 2 * (len(text.encode()) - len("<|im_start|>"))
    assert told("text_bytes_total", "") == asked
    assert told("known_text_bytes_total", "") == asked / 2
    assert (told("segments", ""), told("segments", "m")) == (for_all.segment_stats().segments, 0)
    assert told("segment_bytes", "") == for_all.segment_stats().bytes
    assert told("known_text_bytes_total", "m") == 0
