"""Which requests go into the next step: continuous batching with chunked prefill, first come first served.

The order of decisions is that of vLLM's `v1/core/sched/scheduler.py`: running requests first, each with as many tokens
as the budget allows; where blocks run out the youngest running request gives up its own and waits in front; new
requests are admitted only in a step that preempted nobody. A request whose prefix comes from a slower tier has its
blocks, and its place among the running, while it is loaded; it is the first to give them up.
"""

from collections import deque

from warmroute.engine_model.kv_cache import KvCache
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import LiveRequest
from warmroute.engine_model.step import Admission, Batch
from warmroute.engine_model.step_time import Chunk


class Scheduler:
    """The queue of waiting requests and the list of running ones, oldest first in both; of these some are `loading`."""

    def __init__(self, options: EngineOptions, cache: KvCache) -> None:
        self._options = options
        self._cache = cache
        self.waiting: deque[LiveRequest] = deque()
        self.running: list[LiveRequest] = []
        self.loading: list[LiveRequest] = []

    @property
    def is_computing(self) -> bool:
        """Whether somebody runs and is not being loaded."""
        return len(self.running) > len(self.loading)

    @property
    def loaded_at(self) -> float | None:
        """When the next load ends."""
        return min((live.loading.until for live in self.loading if live.loading), default=None)

    def schedule(self, now: float) -> Batch:
        """Choose the next step's requests and give them their blocks; an empty batch where there is nothing to do."""
        batch = Batch()
        if self.loading:
            self._end_loads(batch, now)
        budget = self._continue_running(batch, self._options.max_num_batched_tokens)
        if not batch.preempted:
            self._admit_waiting(batch, budget, now)
        return batch

    def repeats(self, batch: Batch, most: int) -> int:
        """How many iterations, `most` at most, go as the one of `batch`, which has just been scheduled.

        Only where all decode, until the first of them ends, while blocks suffice. Whoever waits for room then waits on:
        decoding frees nothing. Only a block that it labels could shorten what the first in the queue needs.
        """
        decoding = batch.scheduled
        if batch.chunks or batch.preempted or len(decoding) + len(self.loading) != len(self.running):
            return 1
        ends = min([live.answer_tokens - live.generated for live in decoding])
        iterations = self._cache.affordable(decoding, min(most, ends))
        if self.waiting and iterations > 1 and len(self.running) < self._options.max_num_seqs:
            wanted = self._cache.first_missing(self.waiting[0])
            if wanted is not None and self._cache.will_label(decoding, iterations, wanted):
                return 1
        return iterations

    def end(self, live: LiveRequest) -> None:
        """Take `live` out, finished or aborted, and its blocks back."""
        live.ended = True
        if live in self.running:
            self.running.remove(live)
            self._give_up(live)
        else:
            self.waiting.remove(live)

    def _give_up(self, live: LiveRequest) -> None:
        """Take the blocks of `live` back, which may wait for some of them to be loaded."""
        if live.loading is not None:
            self.loading.remove(live)
        self._cache.release(live)

    def _end_loads(self, batch: Batch, now: float) -> None:
        for live in list(self.loading):
            if live.loading is not None and live.loading.until <= now:
                if live.cached_tokens is None:
                    batch.loaded[live.request_id] = live.loading.tokens
                self._note_admission(live, batch, live.computed)
                self.loading.remove(live)
                self._cache.end_loads(live)

    def _continue_running(self, batch: Batch, budget: int) -> int:
        """Schedule running requests; the part of `budget` that is left."""
        index, last_in_block = 0, self._options.block_size - 1
        running, size, schedule = self.running, self._options.block_size, batch.scheduled.append
        while index < len(running) and budget > 0:
            live = running[index]
            if live.loading is not None:
                index += 1
                continue
            start = live.computed
            tokens = live.known_tokens - start
            if tokens > budget:
                tokens = budget
            if tokens == 1 and 0 < start % size < last_in_block:
                # What `grow` does for a token that neither takes nor fills a block, without its 2 us.
                live.computed = start + 1
            elif not self._cache.grow(live, tokens):
                if not self._grow_by_preemption(live, tokens, batch):
                    break
                index = running.index(live)  # somebody before it may have gone
            if tokens > 1 or not live.generated:  # one token after another is decoding
                batch.chunks.append(Chunk(live.request_id, start, tokens))
            schedule(live)
            budget -= tokens
            index += 1
        return budget

    def _grow_by_preemption(self, live: LiveRequest, tokens: int, batch: Batch) -> bool:
        """Make room for `tokens` of `live` by preemption; False if that came to `live` itself.

        Whoever is being loaded goes first, as nothing is computed for it yet, then the youngest.
        """
        while True:
            youngest = self.loading[-1] if self.loading else self.running[-1]
            self.running.remove(youngest)
            self._give_up(youngest)
            self.waiting.appendleft(youngest)
            batch.preempted.append(youngest.request_id)
            if youngest is live:
                return False
            if self._cache.grow(live, tokens):
                return True

    def _admit_waiting(self, batch: Batch, budget: int, now: float) -> None:
        while self.waiting and budget > 0 and len(self.running) < self._options.max_num_seqs:
            live = self.waiting[0]
            prefix = self._cache.cached_prefix(live)
            if not self._cache.has_room(live, prefix):
                break
            loads = self._cache.loads(live, len(prefix), now)
            if loads:
                self._cache.begin_loads(live, prefix, loads, now)
                self.loading.append(live)
                self.running.append(self.waiting.popleft())
                continue
            cached = len(prefix) * self._options.block_size
            tokens = min(live.known_tokens - cached, budget)
            self._cache.admit(live, prefix, tokens)
            self.running.append(self.waiting.popleft())
            self._note_admission(live, batch, cached)
            batch.scheduled.append(live)
            batch.chunks.append(Chunk(live.request_id, cached, tokens))
            budget -= tokens

    def _note_admission(self, live: LiveRequest, batch: Batch, cached_tokens: int) -> None:
        """Of a request that was preempted only the first admission counts."""
        if live.cached_tokens is None:
            live.cached_tokens = cached_tokens
            batch.admitted.append(Admission(live.request_id, cached_tokens))
