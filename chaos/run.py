"""One run, from the first engine to the report."""

import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from chaos import verdict
from chaos.asks import make_asks
from chaos.behaviours import offers_http2
from chaos.crowd import Crowd
from chaos.engine_process import ChaosError, EngineProcess
from chaos.growth import Growth
from chaos.injection import Injection
from chaos.liar import Liar, liar
from chaos.options import BOUND_S, ChaosOptions
from chaos.reference import Reference
from chaos.report import Counts, Report
from chaos.router_process import RouterProcess
from chaos.schedule import make_schedule
from chaos.story import Violation

StrT = TypeVar("StrT", bound=str)
_READY_S = 30.0
_TELL_S = 10.0
# For the connections of the pool to end, and for a look at each worker.
_REST_S = 6.0


@dataclass(slots=True)
class Scene:
    """All that takes part. `reference` is an engine that no router knows; the liars stand before it."""

    options: ChaosOptions
    router: RouterProcess
    engines: list[EngineProcess]
    reference: EngineProcess
    liars: list[Liar] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self.engines] + [each.url for each in self.liars]

    def worker(self, named: str) -> str | None:
        """The URL of the worker that an answer's header names."""
        return named if named in self.urls else self.names.get(named)


async def run(options: ChaosOptions) -> Report:
    """Carry out one run. Raises ChaosError where the harness itself fails."""
    folder = Path(tempfile.mkdtemp(prefix="warmroute-chaos-"))
    log = options.log or folder / "router.log"
    report = Report(options, log)
    async with _scene(options, log) as scene:
        await _ready(scene)
        before = await verdict.quiet(scene.router)
        crowd, injection, growth = await _storm(scene)
        _count(report, scene, crowd, injection, growth)
        report.violations += crowd.violations
        found = [*set(growth.broken), *growth.leaks()]
        found += await _afterwards(scene, before)
        report.tables["inside the router"] = await _inside(scene.router)
        found += await _stop(scene.router)
        found += verdict.traces(log.read_text())
        report.violations += [Violation(what) for what in found]
    return report


@asynccontextmanager
async def _scene(options: ChaosOptions, log: Path) -> AsyncIterator[Scene]:
    """Engines, liars and the router, started; ended in any case."""
    engines = [EngineProcess(f"engine-{number}", events=number % 3 != 2) for number in range(options.engines)]
    reference = EngineProcess("reference", events=False)
    router = RouterProcess(log, options.router_flags)
    scene = Scene(options, router, engines, reference)
    async with AsyncExitStack() as held:
        for engine in (*engines, reference):
            held.push_async_callback(engine.kill)
        await asyncio.gather(*(engine.start() for engine in (*engines, reference)))
        for number in range(options.liars):
            rng = random.Random(f"pieces/{options.seed}/{number}")
            scene.liars.append(await held.enter_async_context(liar(reference.url, rng)))
        held.push_async_callback(router.end)
        await router.start(scene.urls)
        yield scene


async def _ready(scene: Scene) -> None:
    """Wait until the router takes every worker as ready, and learn their names."""

    async def all_ready() -> bool:
        workers = (await scene.router.page("/warmroute/workers"))["workers"]
        scene.names |= {worker["name"]: worker["url"] for worker in workers if "name" in worker}
        return {worker["url"] for worker in workers if worker["status"] == "ready"} == set(scene.urls)

    if not await _until(all_ready, _READY_S):
        raise ChaosError("the router did not find its workers ready")


async def _storm(scene: Scene) -> tuple[Crowd, Injection, Growth]:
    """Faults and clients at once, for as long as the options say."""
    options, loop = scene.options, asyncio.get_running_loop()
    started_at = loop.time()
    injection = Injection(scene.router, scene.engines, scene.liars, started_at)
    growth = Growth(scene.router)
    crowd = Crowd(
        url=scene.router.url,
        seed=options.seed,
        asks=make_asks(options.seed),
        reference=Reference(scene.reference.url),
        injection=injection,
        http2=await offers_http2(scene.router.url),
        workers=scene.worker,
    )
    beside = [asyncio.create_task(growth.watch(started_at)), asyncio.create_task(_tell(crowd, injection, scene))]
    schedule = make_schedule(options.seed, options.seconds, options.engines, options.liars)
    try:
        async with asyncio.timeout(options.seconds + 2 * BOUND_S), asyncio.TaskGroup() as group:
            group.create_task(injection.carry_out(schedule))
            for number in range(options.clients):
                group.create_task(crowd.client(number, options.seconds))
    finally:
        for task in beside:
            task.cancel()
        ended = await asyncio.gather(*beside, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    return crowd, injection, growth


async def _afterwards(scene: Scene, before: verdict.Quiet) -> list[str]:
    """The violations that show when everything is well again."""

    async def all_ready() -> bool:
        workers = (await scene.router.page("/warmroute/workers"))["workers"]
        return {worker["url"] for worker in workers if worker["status"] == "ready"} == set(scene.urls)

    if scene.router.ended() is not None:
        return [f"the router has ended with exit code {scene.router.ended()}"]
    found = [] if await _until(all_ready, _READY_S) else ["not every worker is ready again"]
    found += await verdict.come_back(scene.router, scene.urls, scene.worker)
    await asyncio.sleep(_REST_S)
    found += await verdict.counters(scene.router)
    found += await verdict.engines_idle([engine.url for engine in (*scene.engines, scene.reference)])
    return found + verdict.no_more_than(before, await verdict.quiet(scene.router))


async def _stop(router: RouterProcess) -> list[str]:
    try:
        code = await router.stop()
    except ChaosError as error:
        return [str(error)]
    return [f"the router ended with exit code {code}"] if code else []


async def _inside(router: RouterProcess) -> Counts:
    inside = await router.inspect()
    names = ("arrivals", "outcomes", "failed_attempts", "unanswered", "callback_errors")
    counts: Counts = {name: inside[name] for name in names}
    counts.update(inside["queue_ends"])
    return counts


def _count(report: Report, scene: Scene, crowd: Crowd, injection: Injection, growth: Growth) -> None:
    report.tables["requests, by how they ended"] = _sorted(crowd.ends)
    report.tables["errors that clients saw"] = _sorted(crowd.errors)
    report.tables["requests, by what the client did"] = _sorted(crowd.sent)
    report.tables["answers, by who gave them"] = _sorted(crowd.by_worker)
    report.tables["faults"] = _sorted(Counter(injected.fault.name for injected in injection.done))
    told: Counter[str] = sum(
        (Counter({str(lie): count for lie, count in each.told.items()}) for each in scene.liars), Counter()
    )
    report.tables["what liars told"] = _sorted(told)
    report.tables["router's pages"] = _sorted(injection.pages)
    report.tables["rise after the warm-up (and what is allowed)"] = {
        f"{name} (up to {growth.allowed(name):.1f})": rise for name, rise in growth.rises().items()
    }
    report.tables["other"] = {"slowest request, s": crowd.slowest_s, "HTTP/2 offered": int(crowd.http2)}


def _sorted(counts: Mapping[StrT, int]) -> Counts:
    return {str(name): count for name, count in sorted(counts.items(), key=lambda each: -each[1])}


async def _tell(crowd: Crowd, injection: Injection, scene: Scene) -> None:
    """Progress, on standard error, until cancelled."""
    while True:
        await asyncio.sleep(_TELL_S)
        ends = ", ".join(f"{count} {end}" for end, count in crowd.ends.most_common())
        sys.stderr.write(f"{injection.now():6.0f} s  {len(injection.done)} faults; {ends}\n")
        for violation in crowd.violations[-1:]:
            sys.stderr.write(f"          last violation: {violation.what}\n")
        if scene.router.ended() is not None:
            raise ChaosError(f"the router has ended with exit code {scene.router.ended()}")


async def _until(fulfilled: Callable[[], Awaitable[bool]], limit_s: float) -> bool:
    deadline = asyncio.get_running_loop().time() + limit_s
    while not await fulfilled():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True
