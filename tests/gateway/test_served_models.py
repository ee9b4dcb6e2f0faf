"""Who serves a model, and as which engine it is asked and imitated."""

import logging

import pytest

from warmroute.gateway.discovery import read_origins
from warmroute.gateway.served_models import ServedModels
from warmroute.tokenizer import Dialect, Engine, Served
from warmroute.worker import Worker, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def worker(table: WorkerTable, name: str, models: dict[str, bool], engine: str | None = "vllm") -> Worker:
    added = table.add(WorkerSpec(f"http://{name}:1"))
    table.learn(added, WorkerFacts(models, engine=engine))
    table.set_status(added, WorkerStatus.READY)
    return added


def test_a_model_an_adapter_and_what_nobody_serves() -> None:
    table = WorkerTable()
    worker(table, "a", {"base": False, "alias": False, "sql": True})
    worker(table, "b", {"other": False})
    served = ServedModels(table, Clock())
    assert served.served("base") == Served(("base",))
    assert served.served("sql") == Served(("sql", "base", "alias"))
    assert served.served(None) == Served(("base", "alias", "other"))
    assert served.served("unknown") is None
    assert served.engines("unknown") == ()


def test_what_a_worker_is_asked_as_and_who_first() -> None:
    table = WorkerTable()
    busy, idle = worker(table, "a", {"m": False}), worker(table, "b", {"m": False}, "sglang")
    table.book(busy, "r", 10, None)
    served = ServedModels(table, Clock())
    asked = [Engine("http://b:1", Dialect.SGLANG), Engine("http://a:1", Dialect.VLLM)]
    assert served.engines("m") == asked
    table.set_status(idle, WorkerStatus.DOWN)
    assert served.engines("m") == asked[1:]


def test_mixed_engines_are_told_once_and_most_decide(caplog: pytest.LogCaptureFixture) -> None:
    table, clock = WorkerTable(), Clock()
    for name, engine in (("a", "sglang"), ("b", "sglang"), ("c", "vllm")):
        worker(table, name, {"m": False}, engine)
    served = ServedModels(table, clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert served.served("m") == Served(("m",), Dialect.SGLANG, mixed=True)
            clock.now += 2.0
    assert caplog.text.count("served by vLLM and by SGLang") == 1
    assert ServedModels(table, clock, Dialect.VLLM).served("m") == Served(("m",), Dialect.VLLM), "a person's word wins"


def test_changes_are_seen_within_a_second_and_a_new_model_at_once() -> None:
    table, clock = WorkerTable(), Clock()
    a = worker(table, "a", {"m": False})
    served = ServedModels(table, clock)
    assert served.served("new") is None
    assert served.served("m") == Served(("m",))
    table.learn(a, WorkerFacts({"m": False, "new": False}, engine="sglang"))
    assert served.served("new") == Served(("new",), Dialect.SGLANG)
    clock.now += 1.0
    assert served.served("m") == Served(("m",), Dialect.SGLANG)


@pytest.mark.parametrize(
    ("body", "origins"),
    [
        (
            {
                "data": [
                    {"id": "m", "owned_by": "vllm", "root": "/models/m", "parent": None},
                    {"id": "sql", "owned_by": "vllm", "root": "/adapters/sql", "parent": "m"},
                ]
            },
            ("vllm", {"m": "/models/m"}),
        ),
        ({"data": [{"id": "m", "owned_by": "sglang", "root": "org/m"}]}, ("sglang", {"m": "org/m"})),
        ({"data": [{"id": "m", "owned_by": 3, "root": 4}, {"root": "x"}, 5]}, (None, {})),
        ({"data": 7}, (None, {})),
        (None, (None, {})),
    ],
)
def test_what_the_page_of_models_says_of_the_engine(body: object, origins: object) -> None:
    assert read_origins(body) == origins
