"""Who serves which model, and with which engine: what a prompt's tokens depend on."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from warmroute.router import Refusal, eligible
from warmroute.tokenizer import Dialect, Engine, Served
from warmroute.worker import Worker, WorkerTable

_log = logging.getLogger(__name__)

# Workers and their models change by the second at most; walking 200 of them for each request took as long as a lookup.
_MAX_AGE_S = 1.0
# Models that a client may name are as many as it likes, but only those that are served are remembered.
_Known = dict[str | None, tuple[float, Served]]


class ServedModels:
    """Reads the worker table; `clock` gives seconds, monotonic. `dialect`: what a person says all engines are."""

    def __init__(self, table: WorkerTable, clock: Callable[[], float], dialect: Dialect | None = None) -> None:
        self._table = table
        self._clock = clock
        self._dialect = dialect
        self._known: _Known = {}
        self._told_mixed: set[str | None] = set()

    def served(self, model: str | None) -> Served | None:
        """Who serves a model (None: any); None where nobody does."""
        now = self._clock()
        known = self._known.get(model)
        if known is not None and 0.0 <= now - known[0] < _MAX_AGE_S:
            return known[1]
        workers = [worker for worker in self._table if model is None or model in worker.models]
        if not workers:
            self._known.pop(model, None)
            return None
        served = self._read(model, workers)
        self._known[model] = (now, served)
        return served

    def engines(self, model: str | None) -> Sequence[Engine]:
        """The workers that may be asked about a model, the least loaded first."""
        workers = eligible(self._table, model, (), self._clock())
        if isinstance(workers, Refusal):
            return ()
        ranked = sorted(workers, key=lambda worker: worker.requests)
        return [Engine(worker.spec.url.rstrip("/"), self.dialect_of(worker)) for worker in ranked]

    def dialect_of(self, worker: Worker) -> Dialect:
        """Whose pages and rendering a worker has; one that does not say is taken for vLLM, which most imitate."""
        if self._dialect is not None:
            return self._dialect
        return Dialect.SGLANG if worker.facts.engine == Dialect.SGLANG else Dialect.VLLM

    def _read(self, model: str | None, workers: Sequence[Worker]) -> Served:
        counted = Counter(map(self.dialect_of, workers))
        dialect = counted.most_common(1)[0][0]
        if len(counted) > 1 and model not in self._told_mixed:
            self._told_mixed.add(model)
            _log.warning(
                "model %s is served by vLLM and by SGLang, which render conversations differently; they are rendered "
                "as by %s, which most of its workers run, and count as known in part only",
                model,
                dialect,
            )
        return Served(_names(model, workers), dialect, len(counted) > 1)


def _names(model: str | None, workers: Sequence[Worker]) -> tuple[str, ...]:
    """The names under which a tokenizer may be known: an adapter has that of the models it is loaded on."""
    bases = dict.fromkeys(name for worker in workers for name, is_adapter in worker.models.items() if not is_adapter)
    if model is None:
        return tuple(bases)
    is_adapter = any(worker.models[model] for worker in workers)
    return (model, *(name for name in bases if name != model)) if is_adapter else (model,)
