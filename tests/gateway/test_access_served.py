"""Keys through a running router: who may come in, what reaches the workers, and what the router shows them itself."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from gateway.listening_engine import BODY, MODEL, ListeningEngine, gated, until_all_are
from warmroute.gateway.access import Access, Rights, read_rights
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.keys import Role, new_key
from warmroute.gateway.relay import Arrival
from warmroute.gateway.tls import Tls

_COMPLETIONS = "/v1/completions"


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str, Path]:
    """A key for traffic, one for operators, and their file."""
    (traffic, of_traffic), (admin, of_admin) = new_key("team-a", Role.TRAFFIC), new_key("ops", Role.ADMIN)
    file = tmp_path / "keys"
    file.write_text(f"{of_traffic.line}\n{of_admin.line}\n")
    return traffic, admin, file


async def status(client: aiohttp.ClientSession, method: str, url: str, key: str | None = None) -> int:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with client.request(method, url, headers=headers, json=BODY if method == "POST" else None) as response:
        return response.status


async def test_pages_need_the_key_of_their_role_and_load_balancers_none(keys: tuple[str, str, Path]) -> None:
    traffic, admin, file = keys
    engine = ListeningEngine()
    async with engine.serve(), gated(engine, access=AccessOptions(api_keys=str(file))) as (gateway, client):
        await until_all_are(gateway)
        for page in ("/health", "/ready"):
            assert await status(client, "GET", gateway.url + page) == 200
            assert await status(client, "GET", gateway.admin_url + page) == 200
        for page in ("/v1/models", _COMPLETIONS):
            method = "GET" if page == "/v1/models" else "POST"
            told = [await status(client, method, gateway.url + page, key) for key in (None, "wrong", traffic, admin)]
            assert told == [401, 401, 200, 200]
        for page in ("/metrics", "/warmroute/workers", "/warmroute/state", "/warmroute/nothing"):
            told = [await status(client, "GET", gateway.admin_url + page, key) for key in (None, "wrong", traffic)]
            assert told == [401, 401, 403]
        assert await status(client, "GET", gateway.admin_url + "/warmroute/workers", admin) == 200
        assert await status(client, "DELETE", gateway.admin_url + "/warmroute/workers", traffic) == 403
    assert len(engine.headers_at(_COMPLETIONS)) == 2


@pytest.mark.parametrize(("path", "kind"), [(_COMPLETIONS, "invalid_request_error"), ("/v1/messages", None)])
async def test_a_refusal_speaks_the_dialect_of_its_endpoint(
    keys: tuple[str, str, Path], path: str, kind: str | None
) -> None:
    engine = ListeningEngine()
    async with engine.serve(), gated(engine, access=AccessOptions(api_keys=str(keys[2]))) as (gateway, client):
        async with client.post(gateway.url + path, json=BODY, headers={"x-api-key": "guessed-word"}) as response:
            assert (response.status, response.headers["www-authenticate"][:6]) == (401, "Bearer")
            error = await response.json()
        if kind is None:
            assert (error["type"], error["error"]["type"]) == ("error", "authentication_error")
        else:
            assert (error["error"]["type"], error["error"]["code"]) == (kind, "invalid_api_key")
        assert "guessed-word" not in str(error)


@pytest.mark.parametrize("shown", ["authorization", "x-api-key", "both"])
async def test_a_key_of_the_routers_own_never_reaches_a_worker(
    keys: tuple[str, str, Path], tmp_path: Path, shown: str
) -> None:
    traffic, _, file = keys
    headers = {"authorization": f"bearer {traffic}", "x-api-key": traffic}
    headers = headers if shown == "both" else {shown: headers[shown]}
    engine = ListeningEngine(key="engine-key")
    of_workers = tmp_path / "worker-keys"
    of_workers.write_text("engine-key\n")
    access = AccessOptions(api_keys=str(file), worker_api_key_file=str(of_workers))
    async with engine.serve(), gated(engine, access=access) as (gateway, client):
        await until_all_are(gateway)
        async with client.post(gateway.url + _COMPLETIONS, json=BODY, headers=headers) as response:
            assert response.status == 200
    assert traffic not in str(engine.asked)
    (arrived,) = engine.headers_at(_COMPLETIONS)
    assert (arrived["authorization"], "x-api-key" in arrived) == ("Bearer engine-key", False)
    assert all(told["authorization"] == "Bearer engine-key" for told in engine.headers_at("/v1/models"))


async def test_without_a_key_for_workers_they_get_none(keys: tuple[str, str, Path]) -> None:
    engine = ListeningEngine()
    async with engine.serve(), gated(engine, access=AccessOptions(api_keys=str(keys[2]))) as (gateway, client):
        await until_all_are(gateway)
        assert await status(client, "POST", gateway.url + _COMPLETIONS, keys[0]) == 200
    assert all("authorization" not in headers for _, headers in engine.asked)


@pytest.mark.parametrize(
    "shown", [{"authorization": "Bearer theirs"}, {"x-api-key": "theirs"}, {"authorization": "Basic dTpw"}, {}]
)
async def test_where_the_router_needs_no_key_the_clients_goes_on_as_it_is(
    tmp_path: Path, shown: Mapping[str, str]
) -> None:
    engine = ListeningEngine()
    of_workers = tmp_path / "worker-keys"
    of_workers.write_text("ours\n")
    access = AccessOptions(worker_api_key_file=str(of_workers))
    async with engine.serve(), gated(engine, access=access) as (gateway, client):
        await until_all_are(gateway)
        async with client.post(gateway.url + _COMPLETIONS, json=BODY, headers=shown) as response:
            assert response.status == 200
    (arrived,) = engine.headers_at(_COMPLETIONS)
    assert {name: arrived[name] for name in ("authorization", "x-api-key") if name in arrived} == shown
    assert engine.headers_at("/health")[0]["authorization"] == "Bearer ours", "the router's own questions"


async def test_a_worker_that_wants_a_key_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    engine = ListeningEngine(key="engine-key")
    async with engine.serve(), gated(engine, model=MODEL) as (gateway, client):
        await until_all_are(gateway)
        async with asyncio.timeout(10):
            while len(engine.headers_at("/v1/models")) < 3:
                await asyncio.sleep(0.01)
        (worker,) = gateway.router.table
        assert "--worker-api-key-file" in worker.status_reason
        assert await status(client, "POST", gateway.url + _COMPLETIONS, "engine-key") == 200, "clients may have it"
    assert sum("--worker-api-key-file" in record.getMessage() for record in caplog.records) == 1


async def test_keys_are_read_anew(keys: tuple[str, str, Path]) -> None:
    traffic, admin, file = keys
    engine = ListeningEngine()
    access = AccessOptions(api_keys=str(file))
    told: list[Configuration] = []
    async with engine.serve(), gated(engine, access=access, read=lambda: told[0]) as (gateway, client):
        await until_all_are(gateway)
        told.append(gateway.reloader.current)
        lines = file.read_text().splitlines()
        file.write_text(lines[1])
        assert (await gateway.reloader.reload("a test")).error is None
        page = gateway.url + "/v1/models"
        assert [await status(client, "GET", page, key) for key in (traffic, admin)] == [401, 200]
        file.write_text("nonsense")
        assert "line 1" in str((await gateway.reloader.reload("a test")).error)
        assert [await status(client, "GET", page, key) for key in (traffic, admin)] == [401, 200]
        told[0] = replace(told[0], access=AccessOptions())
        assert (await gateway.reloader.reload("a test")).error is None
        assert await status(client, "GET", page) == 200


def test_the_name_of_a_key_is_the_tenant(keys: tuple[str, str, Path]) -> None:
    @dataclass
    class Shown:
        headers: Mapping[str, str]

        def header(self, name: str) -> str | None:
            return self.headers.get(name)

    def tenant(access: Access, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return access.tenant_of(cast(Arrival, Shown(named)))

    traffic, admin, file = keys
    access = Access(read_rights(AccessOptions(api_keys=str(file))), Tls(AccessOptions()))
    assert tenant(access, authorization=f"Bearer {traffic}") == "team-a"
    assert tenant(access, authorization="Bearer wrong", x_api_key=admin) == "ops"
    assert tenant(access) == tenant(Access(Rights(), access.tls), x_api_key=admin) == ""
