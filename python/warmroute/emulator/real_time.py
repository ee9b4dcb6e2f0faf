"""The engine model driven by the clock: steps take as long as the model says, divided by the speedup."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Protocol

from warmroute.block import Namespace
from warmroute.engine_model import EngineModel, KvChange, Request, Step

# An engine that lags makes up for it, since timers are late by a millisecond or so and steps can be shorter than that.
# But not for more than this: after a pause of the whole process it must not race through minutes.
_MOST_LAG_S = 0.1
# vLLM holds a cleared cache back until its next step. Here it is told after this time at the latest.
_IDLE_FLUSH_S = 1.0


class RequestObserver(Protocol):
    """Told about the times of a request, in seconds of real time."""

    def admitted(self, waited_s: float, cached_tokens: int) -> None: ...

    def first_token(self, since_arrival_s: float) -> None: ...

    def next_token(self, since_last_s: float) -> None: ...

    def finished(self, since_arrival_s: float, since_first_token_s: float, tokens: int) -> None: ...


class Generation:
    """One request in the engine. `available` of its answer's `tokens` tokens have been generated."""

    def __init__(self, request: Request, arrived_at: float) -> None:
        self.request = request
        self.tokens = len(request.answer_token_ids)
        self.available = 0
        self.cached_tokens = 0
        self.arrived_at = arrived_at
        self.first_token_at = arrived_at
        self.last_token_at = arrived_at
        self._waiter: asyncio.Future[None] | None = None

    @property
    def finished(self) -> bool:
        return self.available == self.tokens

    async def beyond(self, seen: int) -> int:
        """Wait until more than `seen` tokens are there; how many there are. One caller at a time."""
        while self.available <= seen:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.available

    def advance(self, available: int) -> None:
        """Let whoever waits see that `available` tokens are there now."""
        self.available = available
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._waiter = None


class RealTimeEngine:
    """Runs one EngineModel; `run` is the engine, `generation` a request to it."""

    def __init__(
        self,
        model: EngineModel,
        *,
        speedup: float,
        clock: Callable[[], float],
        publish: Callable[[Sequence[KvChange]], None],
        observer: RequestObserver,
    ) -> None:
        self.model = model
        self._speedup = speedup
        self._clock = clock
        self._origin = clock()
        self._publish = publish
        self._observer = observer
        self._generations: dict[str, Generation] = {}
        self._ids = count()
        self._news = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Requests that were submitted and have not left."""
        return len(self._generations)

    def restart(self, model: EngineModel) -> None:
        """Go on with `model`, as a new engine process would; there must be no request."""
        assert not self._generations, "an engine with requests cannot be replaced"
        self.model = model

    @contextmanager
    def generation(
        self, prompt_ids: Sequence[int], answer_ids: Sequence[int], namespace: Namespace
    ) -> Iterator[Generation]:
        """Submit a request; leaving the block before its end aborts it."""
        request = Request(str(next(self._ids)), prompt_ids, answer_ids, namespace)
        generation = Generation(request, self._clock())
        self.model.submit(request, self._engine_time())
        self._generations[request.request_id] = generation
        self._news.set()
        try:
            yield generation
        finally:
            self._generations.pop(request.request_id, None)
            self.model.abort(request.request_id)

    def reset_prefix_cache(self) -> bool:
        """Drop the prefix cache; False while requests hold blocks."""
        dropped = self.model.reset_prefix_cache()
        self._news.set()
        return dropped

    async def run(self) -> None:
        """Compute step after step until cancelled."""
        now = self._engine_time()
        while True:
            wake_at = self.model.wake_at(now)
            step = self.model.step(now) if wake_at is not None and wake_at <= now else None
            if step is None:
                now = await self._idle(now, wake_at)
                continue
            self._note_admissions(step)
            await self._sleep_until(step.ends_at)
            self._deliver(step)
            now = max(step.ends_at, self._engine_time() - _MOST_LAG_S * self._speedup)

    async def _idle(self, now: float, wake_at: float | None) -> float:
        """Sleep until there is news or `wake_at` has come; the engine's time then."""
        self._news.clear()
        try:
            async with asyncio.timeout(_IDLE_FLUSH_S if wake_at is None else self._real_delay(wake_at)):
                await self._news.wait()
        except TimeoutError:
            if wake_at is None:
                self._publish_pending()
        awake = max(now, self._engine_time())
        # A late timer must not make the engine late: the step starts when it could have started.
        return awake if wake_at is None else max(now, min(awake, wake_at))

    async def _sleep_until(self, engine_time: float) -> None:
        await asyncio.sleep(self._real_delay(engine_time))

    def _deliver(self, step: Step) -> None:
        """Complete `step`, hand out its tokens, publish what it did to the cache."""
        result = self.model.complete(step)
        if result.changes:
            self._publish(result.changes)
        now = self._clock()
        for output in result.outputs:
            generation = self._generations.get(output.request_id)
            if generation is None:
                continue
            if output.is_first:
                generation.first_token_at = now
                self._observer.first_token(now - generation.arrived_at)
            else:
                self._observer.next_token(now - generation.last_token_at)
            generation.last_token_at = now
            generation.advance(output.generated)
            if output.finished:
                since_first = now - generation.first_token_at
                self._observer.finished(now - generation.arrived_at, since_first, output.generated)

    def _note_admissions(self, step: Step) -> None:
        now = self._clock()
        for request_id, cached_tokens in step.admitted:
            generation = self._generations[request_id]
            generation.cached_tokens = cached_tokens
            self._observer.admitted(now - generation.arrived_at, cached_tokens)

    def _publish_pending(self) -> None:
        changes = self.model.take_changes()
        if changes:
            self._publish(changes)

    def _engine_time(self) -> float:
        return (self._clock() - self._origin) * self._speedup

    def _real_delay(self, engine_time: float) -> float:
        return max(0.0, self._origin + engine_time / self._speedup - self._clock())
