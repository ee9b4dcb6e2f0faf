"""A running router takes a changed configuration over without losing a stream, and refuses a bad one whole."""

import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.processes import engine, router, until, until_ready
from warmroute.gateway.cross_site import NOT_A_FORM

_MODEL = "warmroute-tiny"
_LONG = {"model": _MODEL, "prompt": list(range(20, 60)), "max_tokens": 600, "stream": True}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={NOT_A_FORM: "1"}) as made:
        yield made


def write(path: Path, workers: Sequence[str], **options: Any) -> None:
    lines = [f"{name} = {value!r}" for name, value in options.items()]
    lines += [f'[[workers]]\nurl = "{url}"' for url in workers]
    path.write_text("\n".join(lines) + "\n")


async def workers_of(session: aiohttp.ClientSession, url: str) -> dict[str, str]:
    """The origin of each worker."""
    async with session.get(f"{url}/warmroute/workers") as response:
        return {worker["url"]: worker["origin"] for worker in (await response.json())["workers"]}


async def reloaded(session: aiohttp.ClientSession, url: str) -> tuple[int, dict[str, Any]]:
    async with session.post(f"{url}/warmroute/reload") as response:
        return response.status, await response.json()


async def test_a_change_of_the_file_is_taken_over_and_no_stream_is_cut(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    path = tmp_path / "warmroute.toml"
    async with engine("--speedup", "1") as first, engine() as second:
        write(path, [first.url])
        async with router([], "--config", str(path)) as gate:
            await until_ready(gate.admin_url, 1)
            async with session.post(f"{gate.url}/v1/completions", json=_LONG) as stream:
                assert stream.status == 200
                await stream.content.readany()
                write(path, [second.url], policy="round-robin", max_attempts=1, port=1)
                state = await until(gate.admin_url, "/warmroute/state", lambda page: page["reload"])
                assert state["policy"] == "round-robin"
                assert state["reload"]["error"] is None
                assert set(state["reload"]["changed"]) == {"policy", "max_attempts", "workers"}
                await until_ready(gate.admin_url, 1)
                assert await workers_of(session, gate.admin_url) == {second.url: "configured"}
                assert (await stream.read()).rstrip().endswith(b"[DONE]")


async def test_a_bad_file_changes_nothing_and_says_why(session: aiohttp.ClientSession, tmp_path: Path) -> None:
    path = tmp_path / "warmroute.toml"
    async with engine() as only:
        write(path, [only.url])
        async with router([], "--config", str(path), "--no-watch-config") as gate:
            await until_ready(gate.admin_url, 1)
            for bad in ("port = ", "polizy = 'x'", "[[workers]]\nurl = 'ftp://h:1'", "max_attempts = 0"):
                path.write_text(bad)
                status, report = await reloaded(session, gate.admin_url)
                assert (status, bool(report["error"])) == (409, True), report
                assert await workers_of(session, gate.admin_url) == {only.url: "configured"}
            path.unlink()
            assert (await reloaded(session, gate.admin_url))[0] == 409
            state = await until(gate.admin_url, "/warmroute/state", lambda page: page["reload"])
            assert "cannot read" in state["reload"]["error"]
            write(path, [only.url], policy="random")
            gate.process.send_signal(signal.SIGHUP)
            state = await until(gate.admin_url, "/warmroute/state", lambda page: page["policy"] == "random")
            assert (state["reload"]["occasion"], state["reload"]["error"]) == ("SIGHUP", None)


async def test_workers_that_were_added_outlive_reloads_and_restarts(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    path = tmp_path / "warmroute.toml"
    flags = ("--config", str(path), "--no-watch-config", "--state-file", str(tmp_path / "router.index"))
    async with engine() as first, engine() as second, engine() as third:
        write(path, [first.url])
        async with router([], *flags) as gate:
            await until_ready(gate.admin_url, 1)
            for url in (second.url, third.url):
                async with session.post(f"{gate.admin_url}/warmroute/workers", json={"url": url}) as response:
                    assert response.status == 201
            async with session.post(
                f"{gate.admin_url}/warmroute/workers/drain",
                params={"url": second.url},
            ) as response:
                assert response.status == 200
            # The third is configured from now on, the first no longer.
            write(path, [third.url])
            assert (await reloaded(session, gate.admin_url))[1]["changed"] == ["workers"]
            expected = {second.url: "added", third.url: "configured"}
            assert await workers_of(session, gate.admin_url) == expected
        async with router([], *flags) as gate:
            await until_ready(gate.admin_url, 1)
            assert await workers_of(session, gate.admin_url) == expected
            page = await until(
                gate.admin_url,
                "/warmroute/workers",
                lambda page: (
                    {w["url"]: w["status"] for w in page["workers"]} == {second.url: "draining", third.url: "ready"}
                ),
            )
            assert page


async def test_what_somebody_removed_does_not_come_back_by_another_change(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    path = tmp_path / "warmroute.toml"
    dead = "http://127.0.0.1:9"
    async with engine() as only:
        write(path, [only.url, dead])
        async with router([], "--config", str(path), "--no-watch-config") as gate:
            async with session.delete(f"{gate.admin_url}/warmroute/workers", params={"url": dead}) as response:
                assert response.status == 200
            write(path, [only.url, dead], policy="random", host="0.0.0.0")
            status, report = await reloaded(session, gate.admin_url)
            assert (status, report["changed"], report["needs_restart"]) == (200, ["policy"], ["host"])
            assert set(await workers_of(session, gate.admin_url)) == {only.url}
