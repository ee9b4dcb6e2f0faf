"""The schedule, carried out on a running fleet."""

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.engine_process import ChaosError, EngineProcess
from chaos.liar import Liar
from chaos.lies import Lie
from chaos.router_process import RouterProcess
from chaos.schedule import Fault, FaultKind


@dataclass(slots=True)
class Injected:
    """A fault as it was: `began` and `ended` in seconds of the run."""

    fault: Fault
    url: str
    began: float
    ended: float | None = None

    def overlaps(self, since: float, until: float) -> bool:
        return self.began <= until and (self.ended is None or self.ended >= since)


@dataclass(slots=True)
class Injection:
    """Does each fault at its time and undoes it; remembers what was on."""

    router: RouterProcess
    engines: Sequence[EngineProcess]
    liars: Sequence[Liar]
    started_at: float
    done: list[Injected] = field(default_factory=list)
    pages: Counter[str] = field(default_factory=Counter)
    _late: float = 0.0

    def now(self) -> float:
        """Seconds since the run began."""
        return asyncio.get_running_loop().time() - self.started_at

    def url_of(self, target: int) -> str:
        return self.engines[target].url if target < len(self.engines) else self.liars[target - len(self.engines)].url

    def going_on(self, since: float, until: float) -> list[Injected]:
        """The faults that were on at some time between."""
        return [each for each in self.done if each.overlaps(since, until)]

    async def carry_out(self, schedule: Sequence[Fault]) -> None:
        """All faults; those of one worker one after the other. Returns when the last is undone."""
        by_target: dict[int, list[Fault]] = {}
        for fault in schedule:
            by_target.setdefault(fault.target, []).append(fault)
        async with asyncio.TaskGroup() as group:
            for faults in by_target.values():
                group.create_task(self._in_turn(faults))

    async def _in_turn(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            await asyncio.sleep(max(0.0, fault.at - self.now()))
            injected = Injected(fault, self.url_of(fault.target), self.now())
            self.done.append(injected)
            await self._do(fault)
            injected.ended = self.now()

    async def _do(self, fault: Fault) -> None:
        if fault.kind is FaultKind.LIE:
            await self._lie(fault)
        elif fault.kind is FaultKind.REMOVE:
            await self._remove(fault)
        elif fault.kind is FaultKind.DRAIN:
            await self._drain(fault)
        else:
            await self._hurt(fault)

    async def _hurt(self, fault: Fault) -> None:
        engine = self.engines[fault.target]
        if fault.kind is FaultKind.STOP:
            engine.send(signal.SIGSTOP)
            await asyncio.sleep(fault.lasts)
            engine.send(signal.SIGCONT)
            return
        await (engine.kill() if fault.kind is FaultKind.KILL else engine.terminate())
        await asyncio.sleep(fault.lasts)
        await engine.start()

    async def _lie(self, fault: Fault) -> None:
        liar = self.liars[fault.target - len(self.engines)]
        liar.lie = fault.lie
        await asyncio.sleep(fault.lasts)
        liar.lie = Lie.HONEST

    async def _remove(self, fault: Fault) -> None:
        url = self.url_of(fault.target)
        await self._page("/warmroute/workers", "DELETE", None, 200, url=url)
        await asyncio.sleep(fault.lasts)
        await self._page("/warmroute/workers", "POST", {"url": url}, 201)

    async def _drain(self, fault: Fault) -> None:
        url = self.url_of(fault.target)
        response = await self.router.ask_page("/warmroute/workers/drain", "POST", url=url, timeout_s="0.5")
        self.pages[f"POST drain {response.status}"] += 1
        await asyncio.sleep(fault.lasts)
        response = await self.router.ask_page("/warmroute/workers/drain", "DELETE", url=url)
        self.pages[f"DELETE drain {response.status}"] += 1

    async def _page(self, path: str, method: str, body: object, right: int, **query: str) -> None:
        response = await self.router.ask_page(path, method, body, **query)
        self.pages[f"{method} {path.rsplit('/', 1)[-1]} {response.status}"] += 1
        if response.status != right:
            raise ChaosError(f"{method} {path} {body or query}: {response.status} {response.body!r}")
