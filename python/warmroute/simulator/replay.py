"""What prefix-aware routing would give a person's own traffic: a log on fleets of several sizes, by several policies.

    {"command", "log": {format, requests, broken, ...}, "reuse": {...}, "fleets": [one comparison for each size],
     "alone": {one worker's summary}, "recommendation": {"text", "reasons", "ttft_p90_target_s", "workers_needed"}}

Each comparison is as `comparison.py` says. Equal logs and options give equal bytes but for the environment in it.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmroute.config import nearest
from warmroute.engine_model import EngineOptions
from warmroute.engine_model.presets import PRESETS
from warmroute.errors import ConfigError
from warmroute.request_log.blocks import BlockedRequest
from warmroute.simulator.arms import arm_named
from warmroute.simulator.comparison import Question, Values, compare
from warmroute.simulator.logs import LogRequests, LogSource, ReuseCurve, reuse_curve
from warmroute.simulator.logs.advice import Findings, advice
from warmroute.simulator.logs.prepared import PreparedLog, prepared
from warmroute.simulator.many import Watcher
from warmroute.simulator.workloads.pods import with_context

POLICIES = ("random", "round-robin", "llm-d-precise", "warmroute")
"""What is compared by default: nothing, taking turns, the strongest of the others in the published runs, and ours."""

_SEED = 0
_ALONE = "round-robin"
_SHARES = (0.5, 0.9, 0.99)
_FEWEST_CONTEXT_TOKENS = 40_960
_DIGITS = 9
# So many prompts of exactly the same length, and no longer one, are no chance.
_FEWEST_CUT, _SHARE_CUT = 5, 0.1

WatcherFor = Callable[[Question], AbstractContextManager[Watcher]]
"""Who watches the simulations of one size of fleet while they run."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What a log is put on. ConfigError where that cannot be.

    ttft_p90_s: the wanted 90th percentile of the time to the first token. closed_loop: requests of a session wait for
    the answer before them, as in the log; else all come at the log's times. speed: how many times as fast they come.
    """

    workers: Sequence[int] = (2, 4, 8)
    policies: Sequence[str] = POLICIES
    engine: str = next(iter(PRESETS))
    speed: float = 1.0
    closed_loop: bool = False
    ttft_p90_s: float = 1.0
    command: str = ""

    def __post_init__(self) -> None:
        if self.engine not in PRESETS:
            raise ConfigError(f"there is no engine '{self.engine}'{nearest(self.engine, PRESETS)}")
        if not self.sizes:
            raise ConfigError("a fleet has two workers at least; what one can do alone is always told beside them")
        for policy in self.policies:
            arm_named(policy)
        for name, value in (("speed", self.speed), ("ttft-p90", self.ttft_p90_s)):
            if not 0.0 < value < math.inf:
                raise ConfigError(f"{name} must be above 0, not {value}")

    @property
    def sizes(self) -> list[int]:
        """The sizes of fleets, each once, in order; one worker is no fleet."""
        return sorted({size for size in self.workers if size > 1})

    def engine_for(self, requests: Sequence[BlockedRequest]) -> EngineOptions:
        """The engine, with room for the longest of the requests as far as its KV goes."""
        engine = PRESETS[self.engine].options
        longest = max(each.prompt_tokens + (each.answer_tokens or 1) for each in requests)
        return with_context(engine, max(_FEWEST_CONTEXT_TOKENS, engine.max_model_len or 0, longest))


def replay(
    log: LogRequests,
    plan: ReplayPlan,
    folder: Path,
    *,
    jobs: int | None = None,
    watcher_for: WatcherFor | None = None,
) -> Values:
    """Everything that can be told of a log, as one object (see above). `folder` is for a file while it runs.

    jobs: simulations at once, by default as many as there are cores. ConfigError where no request fits the engine.
    """
    engine = plan.engine_for(log.requests)
    ready = prepared(log.requests, engine.context_tokens)
    if not ready.requests:
        raise ConfigError(f"no request of the log fits the {engine.context_tokens:,} tokens that {plan.engine} takes")
    if plan.closed_loop and not ready.with_session:
        raise ConfigError("the log names no sessions, so nothing says which request waits for which: no --closed-loop")
    path = folder / "log.jsonl"
    ready.write(path)
    source = LogSource(Path(log.reading.name).name, path, engine, plan.closed_loop, plan.speed)
    curve = reuse_curve(ready.requests, ready.answer_tokens)
    alone = _compared(source, plan, [_ALONE], 1, jobs, watcher_for)
    fleets = [_compared(source, plan, plan.policies, size, jobs, watcher_for) for size in plan.sizes]
    told = {
        "command": plan.command,
        "log": log_facts(log, ready),
        "reuse": reuse_facts(curve, engine.capacity_tokens) | {"engine": plan.engine},
        "alone": alone["policies"][_ALONE]["summary"],
        "fleets": fleets,
    }
    told["recommendation"] = _recommendation(curve, engine, told, plan)
    return {key: _rounded(value) for key, value in told.items()}


def as_one_comparison(result: Values) -> Values:
    """The fleets of a replay in the shape of one comparison, for a page with plots: each policy once for each size."""
    fleets: list[Values] = result["fleets"]
    first = fleets[0]
    return first | {
        "command": result["command"],
        "workload": first["workload"] | {"about": result["recommendation"]["text"]},
        "workers": " and ".join(str(fleet["workers"]) for fleet in fleets),
        "policies": {
            f"{policy}, {fleet['workers']} workers": its
            for fleet in fleets
            for policy, its in fleet["policies"].items()
        },
    }


def log_facts(log: LogRequests, ready: PreparedLog) -> Values:
    """What was read, what was left out, and what had to be guessed."""
    reading, requests = log.reading, ready.requests
    counted = [(each.text_bytes, each.logged_tokens) for each in requests if each.estimated and each.logged_tokens]
    in_all = sum(tokens or 0 for _, tokens in counted)
    return {
        "name": Path(reading.name).name,
        "format": reading.format.name,
        "requests": len(requests),
        "has_more": log.has_more,
        "broken_lines": reading.broken,
        "broken_shown": [{"line": number, "reason": reason} for number, reason in reading.shown],
        "left_out": dict(sorted(reading.left_out.items())) | ({"too long": ready.too_long} if ready.too_long else {}),
        "models": log.models,
        "duration_s": ready.duration_s,
        "pauses_cut_s": ready.cut_s,
        "times_rounded_to_s": log.rounded_to_s,
        "prompts_cut_at_tokens": cut_at(requests) if reading.format.name == "vllm" else None,
        "tokens_estimated_share": _share(sum(each.estimated for each in requests), len(requests)),
        "bytes_per_token_logged": sum(size for size, _ in counted) / in_all if in_all else None,
        "answers_by_limit_share": _share(ready.answers_by_limit, len(requests)),
        "answers_by_mean_share": _share(ready.answers_by_mean, len(requests)),
        "with_session_share": _share(ready.with_session, len(requests)),
        "with_end_share": _share(ready.with_end, len(requests)),
    }


def cut_at(requests: Sequence[BlockedRequest]) -> int | None:
    """The tokens at which prompts seem to have been cut off: many different ones have as many as the longest."""
    longest = max(request.prompt_tokens for request in requests)
    ends = [request.blocks[-1] for request in requests if request.prompt_tokens == longest and request.blocks]
    return longest if len(set(ends)) >= _FEWEST_CUT and len(ends) >= _SHARE_CUT * len(requests) else None


def reuse_facts(curve: ReuseCurve, capacity_tokens: int) -> Values:
    """What the log's prompts have in common; `capacity_tokens` is the size of one worker's cache."""
    caches = {f"{share:.0%}": curve.cache_for(share) for share in _SHARES}
    return {
        "requests": curve.requests,
        "sessions": curve.sessions,
        "prompt_tokens": curve.prompt_tokens,
        "answer_tokens": curve.answer_tokens,
        "reusable_share": curve.reusable_share,
        "different_tokens": curve.different_tokens,
        "cache_tokens_of_a_worker": capacity_tokens,
        "share_with_the_cache_of_one_worker": curve.share_with(capacity_tokens),
        "cache_tokens_for_share_of_reusable": caches,
        "workers_for_share_of_reusable": {share: -(-size // capacity_tokens) for share, size in caches.items()},
        "windows": [dataclasses.asdict(window) for window in curve.windows],
    }


def _compared(
    source: LogSource,
    plan: ReplayPlan,
    policies: Sequence[str],
    workers: int,
    jobs: int | None,
    watcher_for: WatcherFor | None,
) -> Values:
    question = Question(source, policies, (_SEED,), workers, command=plan.command)
    with nullcontext(Watcher()) if watcher_for is None else watcher_for(question) as watcher:
        return compare(question, jobs, watcher)


def _recommendation(curve: ReuseCurve, engine: EngineOptions, told: Values, plan: ReplayPlan) -> Values:
    summaries = {
        fleet["workers"]: {policy: its["summary"] for policy, its in fleet["policies"].items()}
        for fleet in told["fleets"]
    }
    given = advice(
        Findings(
            reusable_share=curve.reusable_share,
            one_cache_share=curve.share_with(engine.capacity_tokens),
            summaries=summaries,
            alone=told["alone"],
            target_s=plan.ttft_p90_s,
        )
    )
    return {
        "text": given.text,
        "reasons": [reason.value for reason in given.reasons],
        "ttft_p90_target_s": plan.ttft_p90_s,
        "workers_needed": dict(given.needed),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _rounded(value: Any) -> Any:
    """The same with all floats to nine significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
