"""Which requests go into the next step: continuous batching with chunked prefill, first come first served.

The order of decisions is that of vLLM's `v1/core/sched/scheduler.py`: running requests first, each with as many tokens
as the budget allows; where blocks run out the youngest running request gives up its own and waits in front; new
requests are admitted only in a step that preempted nobody.
"""

from collections import deque

from warmroute.engine_model.kv_cache import KvCache
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import LiveRequest
from warmroute.engine_model.step import Admission, Batch


class Scheduler:
    """The queue of waiting requests and the list of running ones, oldest first in both."""

    def __init__(self, options: EngineOptions, cache: KvCache) -> None:
        self._options = options
        self._cache = cache
        self.waiting: deque[LiveRequest] = deque()
        self.running: list[LiveRequest] = []

    def schedule(self) -> Batch:
        """Choose the next step's requests and give them their blocks; an empty batch where there is nothing to do."""
        batch = Batch()
        budget = self._continue_running(batch, self._options.max_num_batched_tokens)
        if not batch.preempted:
            self._admit_waiting(batch, budget)
        return batch

    def repeats(self, batch: Batch, most: int) -> int:
        """How many iterations, `most` at most, go as the one of `batch`, which has just been scheduled.

        Only where all decode, until the first of them ends, while blocks suffice. Whoever waits for room then waits on:
        decoding frees nothing. Only a block that it labels could shorten what the first in the queue needs.
        """
        running = self.running
        if batch.prefill_tokens or batch.preempted or batch.admitted or len(batch.scheduled) != len(running):
            return 1
        ends = min(len(live.request.answer_token_ids) - live.generated for live in running)
        iterations = self._cache.affordable(running, min(most, ends))
        if self.waiting and iterations > 1 and len(running) < self._options.max_num_seqs:
            wanted = self._cache.first_missing(self.waiting[0])
            if wanted is not None and self._cache.will_label(running, iterations, wanted):
                return 1
        return iterations

    def end(self, live: LiveRequest) -> None:
        """Take `live` out, finished or aborted, and its blocks back."""
        live.ended = True
        if live in self.running:
            self.running.remove(live)
            self._cache.release(live)
        else:
            self.waiting.remove(live)

    def _continue_running(self, batch: Batch, budget: int) -> int:
        """Schedule running requests; the part of `budget` that is left."""
        index = 0
        while index < len(self.running) and budget > 0:
            live = self.running[index]
            tokens = min(live.known_tokens - live.computed, budget)
            if not (self._cache.grow(live, tokens) or self._grow_by_preemption(live, tokens, batch)):
                break
            if tokens > 1 or not live.generated:  # one token after another is decoding
                batch.prefill_tokens += tokens
            batch.scheduled.append(live)
            budget -= tokens
            index += 1
        return budget

    def _grow_by_preemption(self, live: LiveRequest, tokens: int, batch: Batch) -> bool:
        """Make room for `tokens` of `live` by preemption of the youngest; False if that was `live` itself."""
        while True:
            youngest = self.running.pop()
            self._cache.release(youngest)
            self.waiting.appendleft(youngest)
            batch.preempted.append(youngest.request_id)
            if youngest is live:
                return False
            if self._cache.grow(live, tokens):
                return True

    def _admit_waiting(self, batch: Batch, budget: int) -> None:
        while self.waiting and budget > 0 and len(self.running) < self._options.max_num_seqs:
            live = self.waiting[0]
            prefix = self._cache.cached_prefix(live)
            cached = len(prefix) * self._options.block_size
            tokens = min(live.known_tokens - cached, budget)
            if not self._cache.admit(live, prefix, tokens):
                break
            self.running.append(self.waiting.popleft())
            if live.cached_tokens is None:
                live.cached_tokens = cached
                batch.admitted.append(Admission(live.request_id, cached))
            batch.scheduled.append(live)
            batch.prefill_tokens += tokens
            budget -= tokens
