"""`warmroute explain` of a running router before running engines: what it says would change a decision does so."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from e2e.processes import Running, engine, router, until, until_ready
from warmroute.gateway.keys import Role, new_key
from warmroute.gateway.page_types import Explanation
from warmroute.worker import WorkerId, default_name

_MODEL = "warmroute-tiny"
_BLOCK = 16
_PROMPT = list(range(20, 20 + 100 * _BLOCK + 1))


async def warmroute_explain(file: Path, gate: Running, *words: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", "explain", str(file), "--url", gate.admin_url, *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), 50.0)
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def explained(file: Path, gate: Running) -> Explanation:
    code, output, errors = await warmroute_explain(file, gate, "--json")
    assert (code, errors) == (0, "")
    return msgspec.json.decode(output, type=Explanation)


async def send(url: str, tokens: list[int]) -> str | None:
    """Who answered, where a router was asked."""
    body = {"model": _MODEL, "prompt": tokens, "max_tokens": 1}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        return response.headers.get("x-warmroute-worker")


async def known_blocks(gate: Running, url: str, count: int) -> None:
    def holds(page: dict[str, Any]) -> bool:
        return any(worker["url"] == url and worker["blocks"] == count for worker in page["workers"])

    await until(gate.admin_url, "/warmroute/workers", holds)


@pytest.fixture
async def engines() -> AsyncIterator[tuple[str, str]]:
    async with engine("--block-size", str(_BLOCK)) as first, engine("--block-size", str(_BLOCK)) as second:
        yield first.url, second.url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "body.json"
    written.write_text(json.dumps({"model": _MODEL, "prompt": _PROMPT, "max_tokens": 1}))
    return written


@pytest.mark.timeout(120)
async def test_a_runner_up_wins_with_as_many_cached_tokens_as_was_said(engines: tuple[str, str], file: Path) -> None:
    warm, cold = engines
    await send(warm, _PROMPT[: 60 * _BLOCK])
    async with router([warm, cold]) as gate:
        await until_ready(gate.admin_url, 2)
        await known_blocks(gate, warm, 60)
        told = await explained(file, gate)
        second = told["runner_up"]
        assert second is not None
        assert (told["worker"], told["cached_tokens"], second["worker"]) == (warm, 60 * _BLOCK, cold)
        (change,) = (each for each in second["changes"] if each["worker"] == cold)
        assert (change["figure"], change["now"], change["needed"]) == ("cached_tokens", 0, 61 * _BLOCK)

        code, output, _ = await warmroute_explain(file, gate)
        assert code == 0
        assert output.startswith(f"{warm} gets it: it holds 960 of 1601 prompt tokens, as much as any worker\n")
        assert f"runner-up: {cold}, which costs " in output
        assert "  976 more cached tokens: 976 instead of 0\n" in output

        await send(cold, _PROMPT[: 61 * _BLOCK])
        await known_blocks(gate, cold, 61)
        assert (await explained(file, gate))["worker"] == cold
        assert await send(gate.url, _PROMPT) == default_name(WorkerId(cold))


@pytest.mark.timeout(120)
async def test_refusals_keys_and_wrong_bodies(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with router([]) as gate:
        code, output, _ = await warmroute_explain(file, gate)
        assert (code, output) == (1, "refused (no-worker-ready): no worker would get it\nno worker is registered\n")
        other = tmp_path / "other.json"
        other.write_text('{"messages": "x"}')
        code, output, errors = await warmroute_explain(other, gate)
        assert (code, output) == (2, "")
        assert "messages" in errors
    secret, key = new_key("us", Role.ADMIN)
    keys = tmp_path / "keys"
    keys.write_text(key.line + "\n")
    async with router([], "--api-keys", str(keys)) as gate:
        monkeypatch.delenv("WARMROUTE_ADMIN_KEY", raising=False)
        code, _, errors = await warmroute_explain(file, gate)
        assert (code, "WARMROUTE_ADMIN_KEY" in errors) == (2, True)
        monkeypatch.setenv("WARMROUTE_ADMIN_KEY", secret)
        assert (await warmroute_explain(file, gate))[0] == 1
