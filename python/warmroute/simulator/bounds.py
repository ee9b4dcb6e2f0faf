"""What no policy can do better, found without a simulation: the most that can be reused, the soonest first token.

Reuse: one cache without end, which keeps all prompts and answers, asked in the order of arrival. First token: each
request alone on the fastest idle worker of the fleet, which holds all that this cache does. What no fleet can have
bounds what any can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from warmroute.engine_model import EngineOptions
from warmroute.engine_model.step_time import Chunk, step_s
from warmroute.policy import cached_tokens
from warmroute.simulator.summary import percentile
from warmroute.simulator.workload import WorkerAdded, Workload
from warmroute.simulator.workloads.reuse import EndlessCache, in_order


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the counted requests of one workload and seed. Times in seconds, None where there are no requests.

    sessions, requests, prompt_tokens, answer_tokens: what the workload asks for.
    cached_token_share: the most of the prompt tokens that need not be computed.
    """

    sessions: int
    requests: int
    prompt_tokens: int
    answer_tokens: int
    cached_token_share: float | None
    ttft_mean_s: float | None
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None


def bounds(workload: Workload, seed: int, workers: int | None = None) -> Bounds:
    """The bounds of a workload on a fleet of `workers` (by default its own number).

    The order is that of the times at which requests would come if answers took none. Warm-up stages are not counted,
    but what they leave in the cache is.
    """
    engines = _kinds(workload, len(workload.fleet.engines) if workers is None else workers)
    cache = EndlessCache(min(engine.block_size for engine in engines))
    sessions = prompts = answers = cached = 0
    ttfts: list[float] = []
    for stage in workload.stages(seed):
        sessions += len(stage.sessions) if stage.counted else 0
        for turn in in_order(stage):
            held = cache.put(turn.prompt, turn.answer)
            if stage.counted:
                prompts += len(turn.prompt)
                answers += len(turn.answer)
                cached += held
                ttfts.append(min(_first_token_s(engine, len(turn.prompt), held) for engine in engines))
    return _summarised(sessions, prompts, answers, cached, ttfts)


def _summarised(sessions: int, prompts: int, answers: int, cached: int, ttfts: list[float]) -> Bounds:
    ttfts.sort()
    return Bounds(
        sessions=sessions,
        requests=len(ttfts),
        prompt_tokens=prompts,
        answer_tokens=answers,
        cached_token_share=cached / prompts if prompts else None,
        ttft_mean_s=fmean(ttfts) if ttfts else None,
        ttft_p50_s=percentile(ttfts, 0.5),
        ttft_p90_s=percentile(ttfts, 0.9),
        ttft_p99_s=percentile(ttfts, 0.99),
    )


def _kinds(workload: Workload, workers: int) -> Sequence[EngineOptions]:
    """Every kind of engine that the fleet ever has, once."""
    fleet = workload.fleet
    there = [fleet.engine(position) for position in range(workers)]
    joining = [happening.engine for happening in fleet.happenings if isinstance(happening, WorkerAdded)]
    return list(dict.fromkeys([*there, *joining]))


def _first_token_s(engine: EngineOptions, prompt_tokens: int, held_tokens: int) -> float:
    """Seconds to the first token on an idle engine that holds the first `held_tokens` of the prompt.

    The prompt's rest is computed in chunks of the engine's token budget; its last token always is.
    """
    start = cached_tokens(held_tokens // engine.block_size, engine.block_size, prompt_tokens)
    seconds = engine.request_overhead_s
    while start < prompt_tokens:
        chunk = Chunk("", start, min(prompt_tokens - start, engine.max_num_batched_tokens))
        seconds += step_s(engine, 1, 0, 0, [chunk])
        start += chunk.tokens
    return seconds
