"""What a ledger says: figures per stage and of the whole, computed as the published ones are.

The output rate of a stage is its tokens over the time from its first request to its last token, so it is a makespan;
that of the whole is the unweighted mean over the counted stages. Times are pooled over the requests. That is how
inference-perf and the tables of the reference benchmark do it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from warmroute.simulator.ledger import NOT_YET, Ledger


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one stage or of the whole. Seconds; None where there was nothing to measure.

    queue_mean: requests that wait in an engine, over all samples of all workers; held_mean: those in the router.
    cached_token_share: of the prompt tokens of answered requests those that the engines did not compute.
    predicted_exact_share: of the answered requests those whose cached tokens were foreseen to the token.
    load_ratio: the most requests that one worker got, over the mean of all.
    """

    name: str
    rate: float | None
    requests: int
    failed: int
    output_tokens_per_s: float | None
    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None
    tpot_mean_s: float | None
    latency_mean_s: float | None
    queue_mean: float | None
    held_mean: float | None
    kv_usage_mean: float | None
    cached_token_share: float | None
    predicted_exact_share: float | None
    load_ratio: float | None


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Of values in order; between two of them on the straight line, as numpy's default. None of nothing."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def stage_figures(ledger: Ledger, stage: int, rate: float | None) -> Figures:
    """The figures of one stage."""
    rows = [row for row, its in enumerate(ledger.requests.stage) if its == stage]
    samples = [at for at, its in enumerate(ledger.gauges.stage) if its == stage]
    return _figures(ledger, ledger.stage_names[stage], rate, rows, samples, _output_rate(ledger, rows))


def whole_figures(ledger: Ledger, counted: Sequence[int], stages: Sequence[Figures]) -> Figures:
    """The figures over the counted stages, given their own."""
    chosen = set(counted)
    rows = [row for row, its in enumerate(ledger.requests.stage) if its in chosen]
    samples = [at for at, its in enumerate(ledger.gauges.stage) if its in chosen]
    rate = _mean(each.output_tokens_per_s for each in stages if each.output_tokens_per_s is not None)
    return _figures(ledger, "all", None, rows, samples, rate)


def _output_rate(ledger: Ledger, rows: Sequence[int]) -> float | None:
    requests = ledger.requests
    ended = [requests.ended_at[row] for row in rows if requests.output_tokens[row]]
    if not ended:
        return None
    seconds = max(ended) - min(requests.arrived_at[row] for row in rows)
    return sum(requests.output_tokens[row] for row in rows) / seconds if seconds > 0 else None


def _figures(
    ledger: Ledger,
    name: str,
    rate: float | None,
    rows: Sequence[int],
    samples: Sequence[int],
    output_rate: float | None,
) -> Figures:
    requests, gauges = ledger.requests, ledger.gauges
    whole = [row for row in rows if not requests.failed[row]]
    begun = [row for row in rows if requests.first_at[row] != NOT_YET]
    ttfts = sorted(requests.first_at[row] - requests.arrived_at[row] for row in begun)
    prompts = sum(requests.prompt_tokens[row] for row in whole)
    return Figures(
        name=name,
        rate=rate,
        requests=len(rows),
        failed=len(rows) - len(whole),
        output_tokens_per_s=output_rate,
        ttft_mean_s=_mean(ttfts),
        ttft_p50_s=percentile(ttfts, 0.5),
        ttft_p90_s=percentile(ttfts, 0.9),
        ttft_p99_s=percentile(ttfts, 0.99),
        tpot_mean_s=_mean(
            (requests.ended_at[row] - requests.first_at[row]) / (requests.output_tokens[row] - 1)
            for row in whole
            if requests.output_tokens[row] > 1
        ),
        latency_mean_s=_mean(requests.ended_at[row] - requests.arrived_at[row] for row in whole),
        queue_mean=_mean_gauge(gauges.waiting, samples, len(gauges.at)),
        held_mean=_mean(gauges.held[at] for at in samples),
        kv_usage_mean=_mean_gauge(gauges.kv_usage, samples, len(gauges.at)),
        cached_token_share=sum(requests.cached[row] for row in whole) / prompts if prompts else None,
        predicted_exact_share=_mean(requests.cached[row] == requests.predicted[row] for row in whole),
        load_ratio=_load_ratio(ledger, rows),
    )


def _mean(values: Iterable[float]) -> float | None:
    kept = list(values)
    return fmean(kept) if kept else None


def _mean_gauge(gauge: Sequence[Sequence[float]], samples: Sequence[int], taken: int) -> float | None:
    """Over all workers; one that came later lacks the first samples."""
    return _mean(values[at - (taken - len(values))] for values in gauge for at in samples if at >= taken - len(values))


def _load_ratio(ledger: Ledger, rows: Sequence[int]) -> float | None:
    counts = [0] * len(ledger.gauges.running)
    for row in rows:
        if ledger.requests.worker[row] >= 0:
            counts[ledger.requests.worker[row]] += 1
    return max(counts) / fmean(counts) if any(counts) else None
