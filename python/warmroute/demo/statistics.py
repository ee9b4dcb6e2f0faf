"""What the answers of one run add up to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.demo.load import Answer


@dataclass(frozen=True, slots=True)
class RunReport:
    """One policy's run; the fields are those of `--json`.

    ttft: seconds of wall-clock from sending a request to its first token; None where no request succeeded.
    cached_token_share: prompt tokens found in a cache over all prompt tokens, as the engines report them in `usage`.
    requests_per_s: answered requests over the time from the first one sent to the last one ended.
    load_max_over_mean: requests on the busiest worker over the mean of all workers; 1 is even.
    """

    policy: str
    requests: int
    failed: int
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None
    cached_token_share: float
    requests_per_s: float
    load_max_over_mean: float


def summarise(policy: str, answers: Sequence[Answer], workers: int) -> RunReport:
    """The figures of one run over `workers` workers, those that got no request included."""
    good = [answer for answer in answers if answer.problem is None and answer.first_token_at is not None]
    waits = sorted(answer.first_token_at - answer.sent_at for answer in good if answer.first_token_at is not None)
    prompt_tokens = sum(answer.prompt_tokens for answer in good)
    cached_tokens = sum(answer.cached_tokens for answer in good)
    return RunReport(
        policy=policy,
        requests=len(answers),
        failed=len(answers) - len(good),
        ttft_p50_s=percentile(waits, 0.5),
        ttft_p90_s=percentile(waits, 0.9),
        ttft_p99_s=percentile(waits, 0.99),
        cached_token_share=cached_tokens / prompt_tokens if prompt_tokens else 0.0,
        requests_per_s=_rate(good),
        load_max_over_mean=_imbalance(good, workers),
    )


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """The value below which `share` (0 to 1) of the values lie, on the straight line between the two nearest.

    None for no values. The same as NumPy's default and as the "inclusive" method of Python's `statistics.quantiles`.
    """
    if not ascending:
        return None
    place = share * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


def ttft_ratio(reports: Sequence[RunReport], slow: str, fast: str) -> float | None:
    """How many times longer the p90 of TTFT is under `slow` than under `fast`; None where one of them is missing."""
    p90 = {report.policy: report.ttft_p90_s for report in reports}
    slower, faster = p90.get(slow), p90.get(fast)
    return slower / faster if slower is not None and faster else None


def _rate(answers: Sequence[Answer]) -> float:
    if not answers:
        return 0.0
    seconds = max(answer.ended_at for answer in answers) - min(answer.sent_at for answer in answers)
    return len(answers) / seconds if seconds > 0 else 0.0


def _imbalance(answers: Sequence[Answer], workers: int) -> float:
    per_worker = Counter(answer.worker for answer in answers)
    return max(per_worker.values(), default=0) * workers / len(answers) if answers else 0.0
