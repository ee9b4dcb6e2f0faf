"""What several policies make of the same work: their runs, put together to one object that is written as JSON.

    {"command", "workload": {name, about, sessions, requests, prompt_tokens, answer_tokens}, "workers", "seeds",
     "speed", "duration_s",
     "bounds": {cached_token_share, ttft_mean_s, ttft_p50_s, ttft_p90_s, ttft_p99_s, "by_seed": [...]},
     "policies": {name: {about, source, "knob", "summary", "distance", "runs": [...], "tuned"}}, "environment"}

A policy's `summary` has the names of `Figures`, as means over the seeds, and beside them `spread`: the least and the
greatest. `distance` says how far it is from the bounds: times as multiples, reuse as a part. Of each run there are the
figures per stage (`counted`: it is in the summary), the summary and, where it is the default's, the lines for plots.
`tuned` is the value of the policy's main setting with the shortest mean time to the first token, where values were
tried. Everything but `environment` depends on what was asked alone, so that equal questions give equal bytes.
"""

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Any

from warmroute._native import __version__
from warmroute.errors import ConfigError
from warmroute.simulator.arm import Knob
from warmroute.simulator.arms import arm_named
from warmroute.simulator.bounds import Bounds
from warmroute.simulator.many import Watcher, run_many
from warmroute.simulator.task import BoundsTask, RunResult, RunTask, Task, WorkloadSource

_DIGITS = 9
_TTFTS = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s")
_COUNTS = ("sessions", "requests", "prompt_tokens", "answer_tokens")
# What is no number in `Figures`, or stands for a stage alone.
_WORDS = ("name", "rate")

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared. workers: None for the workload's own number. tuned: try all values of main settings as well.

    command: what a person would write to ask the same; it is kept with the result.
    """

    source: WorkloadSource
    policies: Sequence[str]
    seeds: Sequence[int]
    workers: int | None = None
    tuned: bool = False
    command: str = ""

    def check(self) -> None:
        """ConfigError where it cannot be answered, before anything is run."""
        if not self.policies or not self.seeds:
            raise ConfigError("a comparison needs a policy and a seed at least")
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers must be at least 1, not {self.workers}")
        for policy in self.policies:
            arm_named(policy)

    def bound(self, seed: int) -> BoundsTask:
        """What gives the bounds for one seed."""
        return BoundsTask(self.source, seed, self.workers)

    def run(self, policy: str, knob: float | None, seed: int) -> RunTask:
        """What gives one run."""
        return RunTask(self.source, policy, seed, knob, self.workers)

    def settings(self, policy: str) -> list[float | None]:
        """The default, as None, and where it is asked for all other values of the policy's main setting."""
        knob = arm_named(policy).knob
        if not self.tuned or knob is None:
            return [None]
        return [None, *(value for value in knob.values if value != knob.default)]

    def runs(self) -> list[RunTask]:
        """All runs."""
        return [
            self.run(policy, knob, seed)
            for policy in self.policies
            for knob in self.settings(policy)
            for seed in self.seeds
        ]


def compare(question: Question, jobs: int | None = None, watcher: Watcher | None = None) -> Values:
    """Ask and answer: all simulations of a question, `jobs` at once, as one object (see above).

    Raises what `run_many` does. The watcher's positions are those of `tasks`.
    """
    question.check()
    workload = question.source.open()  # an error in it is told before any process is started
    asked = tasks(question)
    bounds: dict[int, Bounds] = {}
    runs: dict[RunTask, RunResult] = {}
    for task, result in zip(asked, run_many(asked, jobs, watcher), strict=True):
        if isinstance(task, BoundsTask) and isinstance(result, Bounds):
            bounds[task.seed] = result
        elif isinstance(task, RunTask) and isinstance(result, RunResult):
            runs[task] = result
    means = _means([dataclasses.asdict(bounds[seed]) for seed in question.seeds])
    told = {
        "command": question.command,
        "workload": {"name": workload.name, "about": workload.about} | {count: means[count] for count in _COUNTS},
        "workers": next(iter(runs.values())).workers,
        "seeds": list(question.seeds),
        "speed": question.source.speed,
        "duration_s": question.source.duration_s,
        "bounds": _bounds(bounds, means),
        "policies": {policy: _policy(question, policy, runs, means) for policy in question.policies},
        "environment": _environment(),
    }
    return {key: _rounded(value) for key, value in told.items()}


def tasks(question: Question) -> list[Task[Bounds | RunResult]]:
    """All that is done for a question: the bounds of each seed, then the runs."""
    return [*(question.bound(seed) for seed in question.seeds), *question.runs()]


def distance(summary: Mapping[str, Any], bounds: Mapping[str, Any]) -> Values:
    """How far a summary is from the bounds: times as multiples of the shortest, reuse as a part of the most."""
    times = {name.removesuffix("_s") + "_ratio": _ratio(summary[name], bounds[name]) for name in _TTFTS}
    return times | {"cached_share_of_bound": _ratio(summary["cached_token_share"], bounds["cached_token_share"])}


def _bounds(by_seed: Mapping[int, Bounds], means: Mapping[str, Any]) -> Values:
    names = ("cached_token_share", *_TTFTS)
    each = [{"seed": seed} | {name: getattr(its, name) for name in names} for seed, its in by_seed.items()]
    return {name: means[name] for name in names} | {"by_seed": each}


def _policy(question: Question, policy: str, runs: Mapping[RunTask, RunResult], bounds: Mapping[str, Any]) -> Values:
    """What is told of one policy."""
    arm = arm_named(policy)
    by_setting = {
        knob: [runs[question.run(policy, knob, seed)] for seed in question.seeds] for knob in question.settings(policy)
    }
    default = by_setting[None]
    return {
        "about": arm.about,
        "source": arm.source,
        "knob": None if arm.knob is None else {"name": arm.knob.name, "value": arm.knob.default},
        **_setting(default, bounds),
        "runs": [_run(seed, run, with_series=True) for seed, run in zip(question.seeds, default, strict=True)],
        "tuned": _tuned(arm.knob, question.seeds, by_setting, bounds) if arm.knob and question.tuned else None,
    }


def _setting(runs: Sequence[RunResult], bounds: Mapping[str, Any]) -> Values:
    """Summary and distance of a policy at one value of its main setting."""
    summaries = [dataclasses.asdict(run.summary) for run in runs]
    means = _means(summaries)
    spread = {name: _spread([summary[name] for summary in summaries]) for name in means}
    return {"summary": means | {"spread": spread}, "distance": distance(means, bounds)}


def _tuned(
    knob: Knob,
    seeds: Sequence[int],
    by_setting: Mapping[float | None, Sequence[RunResult]],
    bounds: Mapping[str, Any],
) -> Values:
    """The best value, and what each one that was tried gave; of equals the one tried first, so rather the default."""
    tried = {setting: _setting(runs, bounds) for setting, runs in by_setting.items()}
    best = min(tried, key=lambda setting: _ttft_mean_s(tried[setting]))
    return {
        "knob": {"name": knob.name, "value": knob.default if best is None else best},
        **tried[best],
        "runs": [_run(seed, run, with_series=False) for seed, run in zip(seeds, by_setting[best], strict=True)],
        "tried": [
            {"value": knob.default if setting is None else setting, "ttft_mean_s": its["summary"]["ttft_mean_s"]}
            for setting, its in sorted(tried.items(), key=lambda each: knob.default if each[0] is None else each[0])
        ],
    }


def _ttft_mean_s(setting: Mapping[str, Any]) -> float:
    mean_s = setting["summary"]["ttft_mean_s"]
    return inf if mean_s is None else float(mean_s)


def _run(seed: int, run: RunResult, *, with_series: bool) -> Values:
    stages = [
        dataclasses.asdict(figures) | {"counted": number in run.counted} for number, figures in enumerate(run.stages)
    ]
    told = {"seed": seed, "stages": stages, "summary": dataclasses.asdict(run.summary), "failures": run.failures}
    return told | ({"series": dataclasses.asdict(run.series)} if with_series else {})


def _means(rows: Sequence[Mapping[str, Any]]) -> Values:
    """Of each number its mean over the rows that have one; words, and what is nowhere, are left out or None."""
    names = [name for name in rows[0] if name not in _WORDS]
    return {name: _mean([row[name] for row in rows]) for name in names}


def _mean(values: Sequence[float | None]) -> float | int | None:
    there = [value for value in values if value is not None]
    if not there:
        return None
    mean = fmean(there)
    return int(mean) if all(isinstance(value, int) for value in there) and mean.is_integer() else mean


def _spread(values: Sequence[float | None]) -> list[float] | None:
    there = [value for value in values if value is not None]
    return [min(there), max(there)] if there else None


def _ratio(value: float | None, bound: float | None) -> float | None:
    return value / bound if value is not None and bound else None


def _environment() -> Values:
    return {"warmroute": __version__, "python": platform.python_version(), "platform": platform.platform()}


def _rounded(value: Any) -> Any:
    """The same with all floats to so many significant digits that the order of a sum does not show."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
