"""The demo from its options to its exit code."""

import asyncio
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from warmroute.demo.child import ChildFailed, while_alive
from warmroute.demo.fleet import Fleet, running_fleet
from warmroute.demo.load import Answer, play
from warmroute.demo.options import MODEL, POD, SPEEDUP, DemoOptions
from warmroute.demo.progress import progress
from warmroute.demo.statistics import RunReport, summarise, ttft_ratio
from warmroute.demo.table import meaning, result_table, setting
from warmroute.demo.workload import CachePlan, Workload, WorkloadShape, build_workload, plan_caches
from warmroute.tokenizer import LocalTokenizer

_AGENTS_PER_WORKER = 4
# Conversations come during the first third of the run, however long it is.
_RAMP_S_PER_TURN = 0.5


@dataclass(frozen=True, slots=True)
class _Stage:
    """What every run has in common."""

    options: DemoOptions
    workload: Workload
    plan: CachePlan
    logs: Path
    progress: Console


async def show(options: DemoOptions) -> int:
    """Run every policy, write the result to stdout; 1 where a request failed, else 0. Raises ChildFailed.

    On every way out, cancellation included, the processes have ended.
    """
    workload = build_workload(workload_shape(options), options.seed)
    plan = plan_caches(workload, LocalTokenizer.load(MODEL), options.workers, POD)
    with _log_folder() as logs:
        stage = _Stage(options, workload, plan, logs, Console(stderr=True, soft_wrap=True))
        stage.progress.print(setting(workload, plan), highlight=False)
        reports = [await _run(stage, policy) for policy in options.policies[:-1]]
        async with _fleet(stage, options.policies[-1]) as fleet:
            reports.append(await _load(stage, options.policies[-1], fleet))
            _write(stage, reports)
            if options.keep:
                await _keep(stage, fleet)
    return 1 if any(report.failed for report in reports) else 0


def workload_shape(options: DemoOptions) -> WorkloadShape:
    """The workload grows with the fleet, so that each engine's share of it stays the same."""
    return WorkloadShape(
        options.workers * _AGENTS_PER_WORKER, turns=options.turns, ramp_s=_RAMP_S_PER_TURN * options.turns
    )


@asynccontextmanager
async def _fleet(stage: _Stage, policy: str) -> AsyncIterator[Fleet]:
    logs = stage.logs / policy
    logs.mkdir()
    stage.progress.print(f"{policy}: starting {stage.plan.workers} engines and a router", highlight=False)
    async with running_fleet(policy, stage.plan.workers, stage.plan.engine, stage.options.seed, logs) as fleet:
        yield fleet


async def _run(stage: _Stage, policy: str) -> RunReport:
    async with _fleet(stage, policy) as fleet:
        return await _load(stage, policy, fleet)


async def _load(stage: _Stage, policy: str, fleet: Fleet) -> RunReport:
    with progress(stage.progress, policy, stage.workload.requests) as advance:

        def note(answer: Answer) -> None:
            advance()
            if answer.problem is not None:
                stage.progress.print(f"a request failed: {answer.problem}", style="red", highlight=False, markup=False)

        answers = await while_alive(fleet.processes, play(fleet.url, stage.workload, note))
    return summarise(policy, answers, stage.plan.workers)


def _write(stage: _Stage, reports: Sequence[RunReport]) -> None:
    if stage.options.json:
        sys.stdout.write(json.dumps(result_object(stage.options, stage.workload, stage.plan, reports)) + "\n")
    else:
        output = Console()
        output.print(result_table(reports))
        output.print(meaning(reports), highlight=False, soft_wrap=not output.is_terminal)
    sys.stdout.flush()


def result_object(
    options: DemoOptions, workload: Workload, plan: CachePlan, reports: Sequence[RunReport]
) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "workload": {
            "agents": len(workload.agents),
            "conversations": len(workload.conversations),
            "turns": options.turns,
            "requests": workload.requests,
            "seed": options.seed,
            "workers": plan.workers,
            "prefix_tokens": plan.prefix_tokens,
            "engine_capacity_tokens": plan.engine_capacity_tokens,
            "fleet_capacity_tokens": plan.fleet_capacity_tokens,
            "model": MODEL,
            "speedup": SPEEDUP,
            "engine": dataclasses.asdict(plan.engine),
        },
        "runs": [dataclasses.asdict(report) for report in reports],
        "ttft_p90_ratio_random_over_warmroute": ttft_ratio(reports, "random", "warmroute"),
    }


async def _keep(stage: _Stage, fleet: Fleet) -> None:
    """Say how to reach the running router, and wait for Ctrl-C."""
    stage.progress.print(f"\nThe router and its engines stay at {fleet.url} until Ctrl-C. Try:", highlight=False)
    stage.progress.print(curl_line(fleet.url), highlight=False, markup=False)
    try:
        await while_alive(fleet.processes, asyncio.Event().wait())
    except asyncio.CancelledError:
        # Ctrl-C is how this is meant to end, so it does not make the result a bad one.
        stage.progress.print("stopping")


def curl_line(url: str) -> str:
    """A shell line that streams an answer; sent twice, it finds its prefix."""
    body = {
        "model": MODEL,
        "stream": True,
        "max_tokens": 24,
        "messages": [{"role": "user", "content": "Which worker holds my prefix?"}],
    }
    return f"curl -iN {url}/v1/chat/completions -H 'content-type: application/json' -d '{json.dumps(body)}'"


@contextmanager
def _log_folder() -> Iterator[Path]:
    """A folder for the processes' logs; it stays when one of them failed, since the error names it."""
    folder = Path(tempfile.mkdtemp(prefix="warmroute-demo-"))
    failed = False
    try:
        yield folder
    except ChildFailed:
        failed = True
        raise
    finally:
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
