"""What a comparison means, in one paragraph: who wins, by how much, and what stands in the way of more."""

from collections.abc import Sequence

from warmroute.simulator.comparison import Values
from warmroute.simulator.report.rows import Row, count, decimal, multiple, percent, rows, seconds, waiting

# Whom a policy is measured against, the first that there is: what a fleet has without a router that knows caches.
_BASELINES = ("round-robin", "random", "least-loaded")
_OURS = "warmroute"
_ALIKE = 1.03
_NAMED = 3
_NEAR = 1.3
_LITTLE_REUSE = 0.1
_MISSED_REUSE = 0.9
# Requests waiting per engine, above which the fleet is full rather than unlucky.
_WAITING = 0.3


def verdict(result: Values) -> str:
    """The paragraph."""
    found = [row for row in rows(result) if row.summary["ttft_mean_s"] is not None]
    defaults = [row for row in found if not row.is_tuned]
    if not defaults:
        return "No request got an answer, so there is nothing to compare."
    first = defaults[0]
    sentences = [
        _winner(defaults),
        *_against(first, defaults),
        _reach(result, first),
        _limit(result, first),
        *_tuned(found, first),
        *_failed(defaults),
        *_chance(result),
    ]
    return " ".join(sentences)


def _winner(defaults: Sequence[Row]) -> str:
    first, s = defaults[0], defaults[0].summary
    figures = f"{seconds(s['ttft_mean_s'])} s on average, {seconds(s['ttft_p90_s'])} s for nine of ten"
    if len(defaults) == 1:
        return f"{first.label} gives the first token after {figures}."
    alike = [row for row in defaults if _ratio(row, first) < _ALIKE]
    if len(alike) > 1:
        return f"{_named(alike)} are alike within {_ALIKE - 1:.0%}: the first token comes after {figures}."
    second = defaults[1]
    ratio = _ratio(second, first)
    is_told = second is not _baseline(defaults)
    by = f"; {second.label}, the next best, takes {multiple(ratio)} times as long" if is_told else ""
    return f"{first.label} gives the first token soonest: after {figures}{by}."


def _named(alike: Sequence[Row]) -> str:
    """The first ones, and ours among the others."""
    names = [row.label for row in alike]
    if len(names) <= _NAMED:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    ours = f", {_OURS} among them" if _OURS in names[_NAMED:] else ""
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more{ours},"


def _against(first: Row, defaults: Sequence[Row]) -> list[str]:
    """How much the winner gives over what a fleet has without a router that knows caches."""
    base = _baseline(defaults)
    if base is None or base is first:
        return []
    of_ten = base.summary["ttft_p90_s"] / first.summary["ttft_p90_s"]
    return [
        f"Under {base.label} it comes after {seconds(base.summary['ttft_mean_s'])} s, {multiple(_ratio(base, first))} "
        f"times as long ({multiple(of_ten)} times for nine of ten), with {percent(base.summary['cached_token_share'])} "
        f"of the prompt tokens found in caches."
    ]


def _baseline(defaults: Sequence[Row]) -> Row | None:
    there = {row.policy: row for row in defaults}
    return next((there[name] for name in _BASELINES if name in there), None)


def _reach(result: Values, first: Row) -> str:
    bounds = result["bounds"]
    shortest_s = seconds(bounds["ttft_mean_s"])
    return (
        f"{first.label} finds {percent(first.summary['cached_token_share'])} of the prompt tokens in caches, of "
        f"{percent(bounds['cached_token_share'])} that could be found, and its mean is "
        f"{multiple(first.distance['ttft_mean_ratio'])} times the shortest possible, {shortest_s} s "
        f"(each request alone on an idle worker that holds all that was seen before)."
    )


def _limit(result: Values, first: Row) -> str:
    summary, share = first.summary, first.distance["cached_share_of_bound"]
    if (result["bounds"]["cached_token_share"] or 0.0) < _LITTLE_REUSE:
        return "This traffic hardly repeats itself: routing by prefix can give little here, and balance decides."
    limits: list[str] = []
    if share is not None and share < _MISSED_REUSE:
        limits.append(
            f"by reuse: {percent(1 - share)} of the tokens that could be reused are computed again, on workers that do "
            f"not hold them or had to let them go"
        )
    if (waiting(summary) or 0.0) > _WAITING:
        limits.append(
            f"by capacity: {decimal(summary['queue_mean'])} requests wait in an engine and "
            f"{decimal(summary['held_mean'])} in the router on average, with {percent(summary['kv_usage_mean'])} of "
            f"the KV memory in use"
        )
    if limits:
        return f"It is limited {'; and '.join(limits)}."
    if first.distance["ttft_mean_ratio"] < _NEAR:
        return "It is limited by the work itself: what is left is overhead and tokens that nobody has seen before."
    return "It is limited by what else runs: few have to wait, but prompts are computed in steps that others share."


def _tuned(found: Sequence[Row], first: Row) -> list[str]:
    tuned = [row for row in found if row.is_tuned and _ratio(first, row) >= _ALIKE]
    if not tuned:
        return []
    its = tuned[0]
    return [f"Tuned to this traffic, {its.label} comes to {seconds(its.summary['ttft_mean_s'])} s."]


def _failed(defaults: Sequence[Row]) -> list[str]:
    failing = [f"{count(row.summary['failed'])} under {row.label}{_why(row)}" for row in defaults if _has_failed(row)]
    return [f"Requests failed: {', '.join(failing)}."] if failing else []


def _has_failed(row: Row) -> bool:
    return bool(row.summary["failed"])


def _why(row: Row) -> str:
    """The reasons, as the ledgers have them."""
    reasons = dict.fromkeys(reason for run in row.runs for reason in run["failures"])
    return f" ({', '.join(reasons)})" if reasons else ""


def _chance(result: Values) -> list[str]:
    seeds = len(result["seeds"])
    return ["One seed: a few per cent may be chance (--seeds 3 tells)."] if seeds == 1 else []


def _ratio(one: Row, other: Row) -> float:
    return float(one.summary["ttft_mean_s"] / other.summary["ttft_mean_s"])
