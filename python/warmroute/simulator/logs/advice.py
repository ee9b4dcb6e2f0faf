"""What a log's replay means: one paragraph with its numbers, and the reasons in words that stay the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any

OURS = "warmroute"
BLIND = ("round-robin", "random", "least-loaded")
"""Policies that do not look at prefixes; the first that was run is what ours is compared with."""

_LITTLE_REUSE = 0.10
_WORTH = 1.2
"""From this ratio of times on a difference is worth a word: below it lie the model's own errors."""
_AS_GOOD_AS_ALL = 0.9
_FEW_WAIT = 0.05
_MOST_FAILED = 0.01

Summary = Mapping[str, Any]


class Reason(StrEnum):
    """Why prefix-aware routing helps, or why not."""

    HELPS = "helps"
    LITTLE_REUSE = "little-reuse"
    ONE_WORKER = "one-worker-is-enough"
    LOW_LOAD = "low-load"
    CACHED_ANYWAY = "cached-anyway"
    OVERLOAD = "overload"
    ALIKE = "alike"


def served_p90_s(summary: Summary) -> float:
    """A run's 90th percentile; infinite where more than a few requests failed: turning away is no way to be quick."""
    p90_s = summary["ttft_p90_s"]
    failing = summary["failed"] > _MOST_FAILED * summary["requests"]
    return inf if p90_s is None or failing else float(p90_s)


@dataclass(frozen=True, slots=True)
class Findings:
    """What advice is made from.

    summaries: of each size of fleet, those of each policy. alone: of one worker. bound_share: the most of the prompt
    tokens that any cache can give. target_s: the wanted 90th percentile of the time to the first token.
    """

    reusable_share: float
    one_cache_share: float
    summaries: Mapping[int, Mapping[str, Summary]]
    alone: Summary
    target_s: float

    @property
    def policies(self) -> list[str]:
        return list(next(iter(self.summaries.values())))

    @property
    def sizes(self) -> list[int]:
        return sorted(self.summaries)

    def needed(self, policy: str) -> int | None:
        """The smallest fleet, of those tried, that meets the target; None where none does."""
        if self.meets(self.alone):
            return 1
        return next((size for size in self.sizes if self.meets(self.summaries[size][policy])), None)

    def meets(self, summary: Summary) -> bool:
        """Whether a run's first tokens come soon enough."""
        return served_p90_s(summary) <= self.target_s


@dataclass(frozen=True, slots=True)
class Advice:
    """reasons: the main one first. needed: of each policy the smallest fleet that meets the target, None for none."""

    reasons: tuple[Reason, ...]
    text: str
    needed: Mapping[str, int | None]


def advice(findings: Findings) -> Advice:
    """The paragraph. Ours is compared with the first blind policy there is, else with the best of the others.

    Where ours gains nothing over that and another one does, it speaks of that one: the question is what prefix-aware
    routing gives, whoever does it.
    """
    needed = {policy: findings.needed(policy) for policy in findings.policies}
    ours = OURS if OURS in needed else findings.policies[-1]
    other = next((policy for policy in BLIND if policy in needed), findings.policies[0])
    aware = [ours, *(policy for policy in findings.policies if policy not in (ours, other, *BLIND))]
    pairs = [_Pair(findings, policy, other, _size(findings, needed[policy])) for policy in aware]
    gaining = [pair for pair in pairs if pair.ours != other and _gains(pair, needed)]
    pair = pairs[0] if pairs[0] in gaining or not gaining else min(gaining, key=lambda each: served_p90_s(each.mine))
    reasons = _reasons(pair, needed, bool(gaining))
    said = [_SENTENCES[reason](pair) for reason in reasons]
    if Reason.ONE_WORKER in reasons:
        said.append(_in_spite(pair))
    else:
        said += [_replicas(pair, needed), _others(pair, aware, needed)]
    text = " ".join(sentence for sentence in said if sentence)
    return Advice(reasons, text, needed)


def _size(findings: Findings, needed: int | None) -> int:
    """The fleet of which is spoken: the smallest that meets the target, or the largest tried."""
    if needed is None:
        return findings.sizes[-1]
    return needed if needed in findings.summaries else findings.sizes[0]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two policies on the fleet of which is spoken."""

    findings: Findings
    ours: str
    other: str
    size: int

    @property
    def mine(self) -> Summary:
        return self.findings.summaries[self.size][self.ours]

    @property
    def its(self) -> Summary:
        return self.findings.summaries[self.size][self.other]

    @property
    def ratio(self) -> float:
        """How many times as long the other's first tokens take, by the 90th percentile."""
        mine, its = served_p90_s(self.mine), served_p90_s(self.its)
        return its / mine if 0.0 < mine < inf else 1.0


def _reasons(pair: _Pair, needed: Mapping[str, int | None], gains: bool) -> tuple[Reason, ...]:
    little = [Reason.LITTLE_REUSE] if pair.findings.reusable_share < _LITTLE_REUSE else []
    if pair.findings.meets(pair.findings.alone):
        return (Reason.ONE_WORKER, *little)
    overload = [Reason.OVERLOAD] if needed[pair.ours] is None else []
    if gains:
        return (Reason.HELPS, *overload, *little)
    cached = [Reason.CACHED_ANYWAY] if _cached_anyway(pair) else []
    idle = [Reason.LOW_LOAD] if pair.findings.meets(pair.its) and pair.its["queue_mean"] < _FEW_WAIT else []
    return (*overload, *little, *cached, *idle) or (Reason.ALIKE,)


def _gains(pair: _Pair, needed: Mapping[str, int | None]) -> bool:
    mine, its = needed[pair.ours], needed[pair.other]
    return pair.ratio >= _WORTH or (mine is not None and (its is None or its > mine))


def _cached_anyway(pair: _Pair) -> bool:
    share, most = pair.its["cached_token_share"], pair.findings.reusable_share
    return most >= _LITTLE_REUSE and share is not None and share >= _AS_GOOD_AS_ALL * most


def _helps(pair: _Pair) -> str:
    return (
        f"Prefix-aware routing pays for this traffic: {_percent(pair.findings.reusable_share)} of its prompt tokens "
        f"repeat, and on {_workers(pair.size)} {pair.ours} has {_percent(pair.mine['cached_token_share'])} of all in "
        f"the cache of the worker that it chooses, {pair.other} {_percent(pair.its['cached_token_share'])}; nine of "
        f"ten first tokens come within {_p90(pair.mine)} instead of {_p90(pair.its)}{_times(pair.ratio)}."
    )


def _little_reuse(pair: _Pair) -> str:
    return (
        f"Only {_percent(pair.findings.reusable_share)} of the prompt tokens continue a prefix that came before, so "
        "there is little for prefix-aware routing to find. That changes where prompts begin alike: instructions, tools "
        "and documents first, dates, names and ids last; 'warmroute tokens --diff' shows where two prompts part."
    )


def _one_worker(pair: _Pair) -> str:
    return (
        f"One worker is enough: alone it has nine of ten first tokens within "
        f"{_p90(pair.findings.alone)}, and with one there is nothing to route. Prefix-aware routing "
        "would not help until there is more traffic (try --speed 4), or a stricter target (--ttft-p90)."
    )


def _low_load(pair: _Pair) -> str:
    return (
        f"Prefix-aware routing would change little at this load: on {_workers(pair.size)} {pair.other} already has "
        f"nine of ten first tokens within {_p90(pair.its)}, {pair.ours} within "
        f"{_p90(pair.mine)}, and {pair.its['queue_mean']:.2g} requests wait per worker. It would "
        "help with more traffic (try --speed 4), or with fewer workers for the same."
    )


def _cached_anyway_sentence(pair: _Pair) -> str:
    return (
        f"What repeats is in every cache anyway: {pair.other} finds {_percent(pair.its['cached_token_share'])} of the "
        f"prompt tokens cached, of {_percent(pair.findings.reusable_share)} that repeat at all. Routing by prefix "
        "would help if there were more different prefixes than one worker's cache holds."
    )


def _overload(pair: _Pair) -> str:
    return (
        f"No fleet that was tried meets a TTFT p90 of {_seconds(pair.findings.target_s)}: on "
        f"{_workers(pair.findings.sizes[-1])} {pair.ours} has {_p90(_last(pair))}. Try more workers "
        "(--workers), or a faster engine (--engine)."
    )


def _alike(pair: _Pair) -> str:
    return (
        f"Prefix-aware routing would change little here: on {_workers(pair.size)} {pair.ours} has nine of ten first "
        f"tokens within {_p90(pair.mine)}, {pair.other} within {_p90(pair.its)}. "
        "It would help with more different prefixes than one worker's cache holds, or more traffic (try --speed 2)."
    )


def _in_spite(pair: _Pair) -> str:
    """What routing gives a fleet that is larger than it need be."""
    size = pair.findings.sizes[-1]
    large = _Pair(pair.findings, pair.ours, pair.other, size)
    if large.ours == large.other or large.ratio < _WORTH:
        return ""
    return (
        f"On {_workers(size)} all the same, for safety say, {large.ours} has {_p90(large.mine)} "
        f"where {large.other} has {_p90(large.its)}."
    )


_SENTENCES = {
    Reason.HELPS: _helps,
    Reason.LITTLE_REUSE: _little_reuse,
    Reason.ONE_WORKER: _one_worker,
    Reason.LOW_LOAD: _low_load,
    Reason.CACHED_ANYWAY: _cached_anyway_sentence,
    Reason.OVERLOAD: _overload,
    Reason.ALIKE: _alike,
}


def _last(pair: _Pair) -> Summary:
    return pair.findings.summaries[pair.findings.sizes[-1]][pair.ours]


def _replicas(pair: _Pair, needed: Mapping[str, int | None]) -> str:
    """How many workers the target takes, and what routing saves of them."""
    mine, its = needed[pair.ours], needed[pair.other]
    if mine is None or mine == 1 or pair.ours == pair.other:
        return ""
    target = f"For a TTFT p90 of {_seconds(pair.findings.target_s)} {pair.ours} needs {_workers(mine)}"
    tried = _at_least(pair.findings.sizes, mine)
    if its is None:
        return f"{target}{tried}; {pair.other} does not reach it with {pair.findings.sizes[-1]}."
    saved = f", {its - mine} fewer" if its > mine else ""
    return f"{target}{tried}, {pair.other} {its}{saved}."


def _at_least(sizes: Sequence[int], needed: int) -> str:
    """That fewer were not tried, where that is so: the smallest fleet tried says nothing of smaller ones."""
    smaller = max((size for size in (1, *sizes) if size < needed), default=needed)
    return (
        ""
        if smaller == needed - 1 or smaller == needed
        else f" (with {smaller} it does not; between them was not tried)"
    )


def _others(pair: _Pair, aware: Sequence[str], needed: Mapping[str, int | None]) -> str:
    """The best of the other prefix-aware policies, or ours where another one is spoken of."""
    told = pair.findings.summaries[pair.size]
    rivals = [policy for policy in aware if policy != pair.ours and told[policy]["ttft_p90_s"] is not None]
    if not rivals:
        return ""
    policy = aware[0] if aware[0] in rivals else min(rivals, key=lambda each: (served_p90_s(told[each]), each))
    count = needed[policy]
    reach = "does not reach the target" if count is None else f"reaches the target with {count}"
    who = policy if policy == aware[0] else f"Of the other policies {policy} does best: it"
    return f"{who} has {_p90(told[policy])} on {_workers(pair.size)}, and {reach}."


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.0%}"


def _p90(summary: Summary) -> str:
    """The time, with what would make it a lie."""
    failed = summary["failed"] / summary["requests"] if summary["requests"] else 0.0
    said = _seconds(summary["ttft_p90_s"])
    return said if failed <= _MOST_FAILED else f"{said} (where {_percent(failed)} of the requests are turned away)"


def _times(ratio: float) -> str:
    return f" ({ratio:.3g} times as long)" if ratio < inf else ""


def _seconds(seconds: float | None) -> str:
    return "no time measured" if seconds is None else f"{seconds:.3g} s"
