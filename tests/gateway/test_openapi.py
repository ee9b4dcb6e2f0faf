"""The description is made of the pages' declarations, and those are true to what the code takes."""

import dataclasses
import typing

from warmroute.gateway import page_descriptions as described
from warmroute.gateway.answers import Answer
from warmroute.gateway.openapi import openapi
from warmroute.gateway.own_page import OwnPage
from warmroute.gateway.page_types import NewWorker
from warmroute.gateway.relay import Arrival
from warmroute.worker import WorkerSpec


async def nobody(arrival: Arrival) -> Answer:
    raise AssertionError("a description is made without asking")


def test_a_new_worker_has_the_keys_of_a_spec() -> None:
    fields = {field.name: field for field in dataclasses.fields(WorkerSpec)}
    assert set(NewWorker.__annotations__) == set(fields)
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    assert NewWorker.__required_keys__ == required


def test_parameters_bodies_and_answers_are_told() -> None:
    pages = {
        ("POST", "/warmroute/workers"): OwnPage(nobody, described.ADD_WORKER),
        ("DELETE", "/warmroute/workers"): OwnPage(nobody, described.REMOVE_WORKER),
        ("GET", "/metrics"): OwnPage(nobody, described.METRICS),
    }
    told = openapi(pages)
    assert told["openapi"].startswith("3.1")
    workers = told["paths"]["/warmroute/workers"]
    assert workers["post"]["requestBody"]["required"] is True
    assert set(workers["post"]["responses"]) == {"201", "400", "default"}
    assert [parameter["name"] for parameter in workers["delete"]["parameters"]] == ["url", "name"]
    assert workers["delete"]["requestBody"]["required"] is False
    assert list(told["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    assert set(told["components"]["schemas"]["NewWorker"]["properties"]) == set(typing.get_type_hints(NewWorker))


def test_pages_that_nobody_asked_for_leave_no_schemas() -> None:
    schemas = openapi({("GET", "/health"): OwnPage(nobody, described.HEALTH)})["components"]["schemas"]
    assert set(schemas) == {"Health", "ErrorPage", "ErrorBody"}
