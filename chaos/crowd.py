"""The clients of a run: each goes its way, made from the seed, and every answer is judged at once."""

import asyncio
import random
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from chaos import behaviours
from chaos.asks import Ask, long_asks
from chaos.behaviours import Behaviour, Client
from chaos.injection import Injection
from chaos.judgement import End, Judgement, judge, judge_refusal
from chaos.options import BOUND_S
from chaos.reference import Reference
from chaos.story import Story, Violation

_PAUSE_S = 0.05
# Faults are felt for a while: what came before them is not their doing, what comes soon after may be.
_AFTER_S = 1.0
T = TypeVar("T")


@dataclass(slots=True)
class Crowd:
    """`ends` counts the requests by how they ended, `errors` the clear errors, `violations` has what must never be."""

    url: str
    seed: int
    asks: Sequence[Ask]
    reference: Reference
    injection: Injection
    http2: bool
    workers: Callable[[str], str | None]
    """The URL of the worker that a header names."""
    ends: Counter[End] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    by_worker: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    slowest_s: float = 0.0
    _stories: dict[int, Story] = field(default_factory=dict)

    async def client(self, number: int, until: float) -> None:
        """One client, which begins requests until `until` seconds of the run."""
        rng = random.Random(f"client/{self.seed}/{number}")
        client = Client(number, self.url, rng)
        count = 0
        while self.injection.now() < until:
            count += 1
            await self._one(client, count)
            await asyncio.sleep(rng.uniform(0, _PAUSE_S))
        if client.kept is not None:
            await client.kept.close()

    async def _one(self, client: Client, count: int) -> None:
        kinds: list[Behaviour | None] = [*behaviours.ANSWERED, *behaviours.LEFT, *behaviours.REFUSED, None]
        weights = [*behaviours.ANSWERED.values(), *behaviours.LEFT.values()]
        weights += [weight for weight, _ in behaviours.REFUSED.values()] + [behaviours.PIPELINED_WEIGHT]
        behaviour = client.rng.choices(kinds, weights)[0]
        if behaviour is None:
            asks = client.rng.choices(self.asks, k=behaviours.PIPELINED)
            await self._pipeline(client, count, asks)
            return
        interrupted = behaviour in (behaviours.leaving_within_the_answer, behaviours.stalling)
        ask = client.rng.choice(long_asks(list(self.asks)) if interrupted else self.asks)
        if behaviour is behaviours.over_http2 and not self.http2:
            behaviour = behaviours.plain
        await self._single(client, count, ask, behaviour)

    async def _single(self, client: Client, count: int, ask: Ask, behaviour: Behaviour) -> None:
        story = Story(client.number, count, behaviour.__name__, ask, self.injection.now())
        answered = await self._bounded(story, behaviour(client, ask))
        if answered is not None:
            story.response = answered
            _, statuses = behaviours.REFUSED.get(behaviour, (0, ()))
            story.judgement = (
                judge_refusal(answered, statuses, ask.path)
                if statuses
                else judge(ask, answered, await self.reference.answer(ask))
            )
        self._take(story)

    async def _pipeline(self, client: Client, count: int, asks: Sequence[Ask]) -> None:
        first = Story(client.number, count, "pipelined", asks[0], self.injection.now())
        answers = await self._bounded(first, behaviours.pipelined(client, asks), times=len(asks))
        for ask, response in zip(asks, answers or [], strict=False):
            story = Story(client.number, count, "pipelined", ask, first.began, response=response)
            story.judgement = judge(ask, response, await self.reference.answer(ask))
            self._take(story)
        if answers is None:
            self._take(first)

    async def _bounded(self, story: Story, answer: Awaitable[T], times: int = 1) -> T | None:
        """The answer, within the time in which there must be one; else the story is one of a hang."""
        try:
            async with asyncio.timeout(BOUND_S * times):
                return await answer
        except TimeoutError as error:
            story.judgement = Judgement(End.VIOLATION, f"hung for {BOUND_S * times:g} s, {_where(error)}")
        except OSError as error:
            story.judgement = Judgement(End.VIOLATION, f"the router could not be reached: {error!r}")
        return None

    def _take(self, story: Story) -> None:
        story.ended = self.injection.now()
        self.slowest_s = max(self.slowest_s, story.took_s)
        if story.judgement.end in (End.CUT, End.ERROR_EVENT):
            story.judgement = self._explained(story)
        self.sent[story.behaviour] += 1
        if story.response.status:
            self.by_worker[self.workers(story.worker) or "the router itself"] += 1
        self.ends[story.judgement.end] += 1
        if story.judgement.end in (End.REFUSED, End.ERROR_EVENT, End.CUT):
            self.errors[f"{story.judgement.end}: {story.judgement.why}"] += 1
        if story.judgement.end is End.VIOLATION:
            self.violations.append(Violation(story.judgement.why, story.told(self._going_on(story))))

    def _explained(self, story: Story) -> Judgement:
        """A worker may fail within its answer only where something was done to it."""
        url, since = self.workers(story.worker), story.began - _AFTER_S
        if story.response.status == 0 and self.injection.going_on(since, story.ended):
            return story.judgement
        if url is None:
            return Judgement(End.VIOLATION, f"{story.judgement.end}, from a worker that nobody knows: {story.worker!r}")
        if any(each.url == url for each in self.injection.going_on(since, story.ended)):
            return story.judgement
        return Judgement(End.VIOLATION, f"{story.judgement.end}, though nothing was done to {url}")

    def _going_on(self, story: Story) -> list[dict[str, object]]:
        return [
            {"fault": each.fault.name, "url": each.url, "began_s": each.began, "ended_s": each.ended}
            for each in self.injection.going_on(story.began - _AFTER_S, story.ended)
        ]


def _where(error: TimeoutError) -> str:
    """The place in the client's behaviour at which the time ran out."""
    cause = error.__cause__
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    places = [f"{frame.name}: {frame.line}" for frame in frames if "/chaos/" in frame.filename]
    return f"in {places[-1]}" if places else "nobody knows where"
