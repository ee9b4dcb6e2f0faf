"""The engine: requests in, steps out."""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.block import Tier
from warmroute.engine_model.block_hasher import BlockHasher
from warmroute.engine_model.growth import Growth
from warmroute.engine_model.kv_cache import KvCache
from warmroute.engine_model.kv_change import KvChange
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import LiveRequest, Request
from warmroute.engine_model.scheduler import Scheduler
from warmroute.engine_model.step import Batch, Output, Step, StepResult


@dataclass(frozen=True, slots=True)
class EngineState:
    """What an engine tells about itself: gauges (now) and counters (since its start).

    `waiting` counts those that are loaded from a slower tier as well, as vLLM's metrics do. Of the `prefix_queries`
    tokens `prefix_hits` were found on the GPU, `host_hits` and `disk_hits` came from slower tiers.
    """

    running: int
    waiting: int
    kv_usage: float
    prompt_tokens: int
    generation_tokens: int
    prefix_queries: int
    prefix_hits: int
    preemptions: int
    host_hits: int = 0
    disk_hits: int = 0


class EngineModel:
    """One engine. `seed` takes the place of the random root that an engine process gives to its block hashes;
    `keeps_partial_blocks` has it announce the last block of a request even where it is not full.

    Times are seconds on whatever clock the caller keeps; they must not go backwards. Between `step` and `complete`
    requests may be submitted and aborted, but no second step may be started.

    A step may stand for many iterations that only decode (`most_iterations`): they are planned at once and happen to
    the cache when somebody looks (`changes_until`), so that a simulation need not go from token to token. What comes
    out is what single iterations give.
    """

    def __init__(self, options: EngineOptions, seed: int = 0, *, keeps_partial_blocks: bool = False) -> None:
        self.options = options
        self._hasher = BlockHasher(options.block_size, seed)
        self._cache = KvCache(options, keeps_partial_blocks)
        self._scheduler = Scheduler(options, self._cache)
        self._requests: dict[str, LiveRequest] = {}
        self._arriving: deque[LiveRequest] = deque()
        self._current: Step | None = None
        self._told_next: list[KvChange] = []  # by iterations that had ended when the step in work was cut
        self._prompt_tokens = self._generation_tokens = self._prefix_queries = self._prefix_hits = 0
        self._preemptions = 0
        self._tier_hits = {Tier.HOST: 0, Tier.DISK: 0}
        self._is_stalled = False  # nobody could be scheduled, and nothing has happened since that may change it

    def fits(self, prompt_tokens: int, answer_tokens: int) -> bool:
        """True where a request of that size can be served at all."""
        return prompt_tokens + answer_tokens <= self.options.context_tokens

    def submit(self, request: Request, now: float) -> None:
        """Take `request` in; it can be scheduled after the request overhead. It must fit and have an id of its own."""
        prompt, answer = request.prompt_token_ids, request.answer_token_ids
        assert prompt, "a request without a prompt"
        assert answer, "a request without an answer"
        assert self.fits(len(prompt), len(answer)), "a request longer than the context"
        assert request.request_id not in self._requests, f"request id {request.request_id} is in use"
        token_ids = _joined(prompt, answer)
        cached = self.options.enable_prefix_caching
        hashes = self._hasher.hashes(token_ids, request.namespace) if cached else []
        ready_at = now + self.options.request_overhead_s
        live = LiveRequest(
            request, request.request_id, token_ids, hashes, ready_at, len(prompt), len(answer), known_tokens=len(prompt)
        )
        self._requests[request.request_id] = live
        self._arriving.append(live)
        if self._current is not None:
            self._current.iterations = self._current.begun(ready_at)

    def abort(self, request_id: str, now: float | None = None) -> bool:
        """End a request before its time; False if it is not there (any more).

        `now` must be given where a step of several iterations is in work.
        """
        live = self._requests.get(request_id)
        if live is None:
            return False
        if self._current is not None and self._current.growth is not None:
            assert now is not None, "which iterations have begun?"
            self._cut(self._current, now)
        self._end(live)
        self._is_stalled = False
        return True

    def wake_at(self, now: float) -> float | None:
        """When the next step can start: now, later, or (None) not before another request comes.

        Later means at an arrival, or when something has been loaded.
        """
        if not self._is_stalled and (self._scheduler.is_computing or self._scheduler.waiting):
            return now
        at = self._next_ready_at()
        return None if at is None else max(now, at)

    def step(self, now: float, most_iterations: int = 1) -> Step | None:
        """Start the next step, or None where nothing can be computed at `now`: `wake_at` then says when.

        Up to `most_iterations` while the same requests decode: nobody ends, nobody can be admitted, blocks suffice.
        """
        assert self._current is None, "the step before has not been completed"
        while self._arriving and self._arriving[0].ready_at <= now:
            self._scheduler.waiting.append(self._arriving.popleft())
        batch = self._scheduler.schedule(now)
        self._is_stalled = not batch.scheduled
        if self._is_stalled:
            assert not self._scheduler.is_computing, "requests that run, but none in the step"
            return None
        self._count(batch)
        self._current = step = Step(batch, now, batch.duration_s(self.options))
        if most_iterations > 1 and step.iteration_s > 0:
            self._plan(step, most_iterations)
        return step

    def changes_until(self, step: Step, now: float) -> list[KvChange]:
        """What iterations of the step in work that have ended by `now` did to the cache, and was not told yet."""
        assert step is self._current, "not the step in work"
        completed = step.completed(now)
        told, self._told_next = self._told_next, []
        if step.growth is None:
            return told + self._cache.take_changes() if completed == step.iterations else told
        if completed:
            step.growth.apply(completed, self._cache)
            told += self._cache.take_changes()
        return told

    def _cut(self, step: Step, now: float) -> None:
        """Let no further iteration begin; what the one that has begun last does is told at its end."""
        assert step.growth is not None
        self._told_next = self.changes_until(step, now)
        step.iterations = step.begun(now)
        step.growth.finish(step.iterations, self._cache)
        step.growth = None

    def _plan(self, step: Step, most: int) -> None:
        """Give the step as many iterations as it may have without anybody deciding anew."""
        step.iterations = self._scheduler.repeats(step.batch, most)
        if step.iterations == 1:
            return
        step.slowing_s = self.options.step_per_context_token_s * len(step.batch.scheduled)
        ready_at = self._next_ready_at()
        if ready_at is not None:
            step.iterations = step.begun(ready_at)
        if step.iterations > 1:
            step.growth = Growth(step.batch.scheduled, self.options.block_size)

    def complete(self, step: Step, *, every_token: bool = True) -> StepResult:
        """The end of the step that `step` returned: the new tokens, and all changes of the cache until now.

        Without `every_token` only those requests are among the outputs that got their first or their last token.
        """
        assert step is self._current, "not the step in work"
        self._current = None
        if step.growth is not None:
            step.growth.finish(step.iterations, self._cache)
        outputs, iterations, answering = list[Output](), step.iterations, 0
        for live in step.batch.scheduled:
            known = live.known_tokens
            if live.ended or live.computed < known:
                continue
            answering += 1
            before = live.generated
            live.known_tokens = known + iterations
            live.generated = generated = before + iterations
            finished = generated == live.answer_tokens
            if every_token or finished or not before:
                outputs.append(Output(live.request_id, iterations, generated, finished))
            if not before:
                self._prompt_tokens += live.prompt_tokens
            if finished:
                self._end(live)
        self._generation_tokens += iterations * answering
        told, self._told_next = self._told_next, []
        return StepResult(outputs, told + self._cache.take_changes())

    def reset_prefix_cache(self) -> bool:
        """Drop the prefix cache; False, with nothing done, while a request holds blocks.

        As in vLLM the change comes out of the next completed step, or earlier by `take_changes`.
        """
        return self._cache.reset()

    def take_changes(self) -> list[KvChange]:
        """Changes of the cache that no completed step has handed out yet."""
        return self._cache.take_changes()

    def cached_hashes(self, tier: Tier = Tier.DEVICE) -> dict[int, int]:
        """Every hash that can be found in a tier of the cache, and on how many blocks."""
        return self._cache.labels(tier)

    def state(self, now: float | None = None) -> EngineState:
        """Gauges and counters.

        `now` must be given where a step of several iterations is in work: blocks of those that have begun are in use,
        whether or not somebody has looked (`changes_until`).
        """
        loading = len(self._scheduler.loading)
        return EngineState(
            running=len(self._scheduler.running) - loading,
            waiting=len(self._scheduler.waiting) + loading,
            kv_usage=self._cache.usage_with(self._growing(now)),
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
            prefix_queries=self._prefix_queries,
            prefix_hits=self._prefix_hits,
            preemptions=self._preemptions,
            host_hits=self._tier_hits[Tier.HOST],
            disk_hits=self._tier_hits[Tier.DISK],
        )

    def _growing(self, now: float | None) -> int:
        """Blocks that are in use by now, and that the cache has not been brought to take yet."""
        if self._current is None or self._current.growth is None:
            return 0
        assert now is not None, "which iterations have begun?"
        return self._current.growth.lacking(self._current.begun(now))

    def check_integrity(self) -> None:
        """Assert that free and held blocks are all blocks, and that every request is in exactly one place."""
        running, waiting = self._scheduler.running, [*self._arriving, *self._scheduler.waiting]
        self._cache.check_integrity([*running, *waiting])
        loading = [live for live in running if live.loading is not None]
        assert {id(live) for live in loading} == {id(live) for live in self._scheduler.loading}, "a load got lost"
        assert len(running) <= self.options.max_num_seqs, "more requests run than may"
        assert sorted(self._requests) == sorted(live.request_id for live in [*running, *waiting]), "a request got lost"

    def _next_ready_at(self) -> float | None:
        """When the next of those that come, or are loaded, can be scheduled."""
        at = self._arriving[0].ready_at if self._arriving else None
        loaded_at = self._scheduler.loaded_at if self._scheduler.loading else None
        return at if loaded_at is None else loaded_at if at is None else min(at, loaded_at)

    def _count(self, batch: Batch) -> None:
        """Count what happened when `batch` was scheduled."""
        self._preemptions += len(batch.preempted)
        for admission in batch.admitted:
            tokens = self._requests[admission.request_id].prompt_tokens
            self._prefix_queries += tokens if self.options.enable_prefix_caching else 0
            self._prefix_hits += admission.cached_tokens
            for tier, loaded in batch.loaded.get(admission.request_id, {}).items():
                self._tier_hits[tier] += loaded
                self._prefix_hits -= loaded

    def _end(self, live: LiveRequest) -> None:
        del self._requests[live.request_id]
        if live in self._arriving:
            live.ended = True
            self._arriving.remove(live)
        else:
            self._scheduler.end(live)


def _joined(prompt: Sequence[int], answer: Sequence[int]) -> "array[int]":
    """Both in one array; 1 us for two arrays of some thousand ids, where a list takes 100."""
    token_ids = array("I", prompt)
    token_ids.extend(answer if isinstance(answer, array) else array("I", answer))
    return token_ids
