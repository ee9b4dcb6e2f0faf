"""What goes wrong is said clearly, and nothing is lost."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from e2e.processes import Running, engine, router, until, until_ready
from warmroute.worker import WorkerId, default_name

_CHAT = {"model": "warmroute-tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as made:
        yield made


@pytest.fixture
async def worker() -> AsyncIterator[Running]:
    async with engine() as running:
        yield running


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_a_worker_that_is_not_there_is_kept_shown_and_taken_when_it_comes(session: aiohttp.ClientSession) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with router([url]) as gate:
        async with session.get(f"{gate.url}/ready") as response:
            assert response.status == 503
        async with session.post(f"{gate.url}/v1/chat/completions", json=_CHAT) as response:
            assert response.status == 503
            assert response.headers["retry-after"] == "1"
            assert response.headers["x-warmroute-refused"] == "no-worker-ready"
            assert default_name(WorkerId(url)) in (await response.json())["error"]["message"]
        page = await until(gate.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["status"] == "down")
        assert "Connect" in page["workers"][0]["reason"]
        async with engine(port=port):
            await until_ready(gate.admin_url, 1)
            async with session.post(f"{gate.url}/v1/chat/completions", json=_CHAT) as response:
                assert response.status == 200
            async with session.get(f"{gate.url}/ready") as response:
                assert response.status == 200


async def test_an_unknown_model_is_404(worker: Running, session: aiohttp.ClientSession) -> None:
    async with router([worker.url]) as gate:
        await until_ready(gate.admin_url, 1)
        async with session.post(f"{gate.url}/v1/chat/completions", json=_CHAT | {"model": "other"}) as response:
            assert response.status == 404
            assert "warmroute-tiny" in (await response.json())["error"]["message"]


_BAD_BODIES = {
    "empty": b"",
    "object": b"{}",
    "malformed": b"{not json",
    "array": b"[1, 2]",
    "string": b'"text"',
    "null": b"null",
    "binary": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "wrong type": b'{"messages": 7}',
}


async def test_a_bad_body_gets_the_workers_answer(worker: Running, session: aiohttp.ClientSession) -> None:
    async with router([worker.url]) as gate:
        await until_ready(gate.admin_url, 1)
        for name, body in _BAD_BODIES.items():
            for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
                direct = await posted(session, worker.url + path, body)
                assert await posted(session, gate.url + path, body) == direct, name
                assert 400 <= direct[0] < 500, name


async def posted(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[int, bytes]:
    async with session.post(url, data=body, headers={"content-type": "application/json"}) as response:
        return response.status, await response.read()


async def test_a_worker_that_dies_is_passed_over(session: aiohttp.ClientSession) -> None:
    async with engine() as first, engine() as second, router([first.url, second.url]) as gate:
        await until_ready(gate.admin_url, 2)
        first.kill()
        await first.process.wait()
        for _ in range(8):
            async with session.post(f"{gate.url}/v1/chat/completions", json=_CHAT) as response:
                assert response.status == 200
                assert response.headers["x-warmroute-worker"] == default_name(WorkerId(second.url))


async def test_a_worker_that_dies_in_mid_stream_gives_one_error_event(session: aiohttp.ClientSession) -> None:
    async with engine("--speedup", "1") as worker, router([worker.url]) as gate:
        await until_ready(gate.admin_url, 1)
        body = _CHAT | {"stream": True, "max_tokens": 500, "ignore_eos": True}
        async with session.post(f"{gate.url}/v1/chat/completions", json=body) as response:
            assert response.status == 200
            await response.content.readline()
            worker.kill()
            rest = (await response.content.read()).decode()
        events = [line for line in rest.splitlines() if line.startswith("data: ")]
        assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "worker_failed"
        assert "[DONE]" not in rest
        await until(gate.admin_url, "/warmroute/state", lambda state: state["requests_in_flight"] == 0)


async def test_a_client_that_leaves_leaves_nothing_behind(worker: Running, session: aiohttp.ClientSession) -> None:
    async with router([worker.url]) as gate:
        await until_ready(gate.admin_url, 1)
        body = _CHAT | {"max_tokens": 4000, "ignore_eos": True}
        for stream in (False, True):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(
                    read_all(session, f"{gate.url}/v1/chat/completions", body | {"stream": stream}), 0.3
                )
            await until(gate.admin_url, "/warmroute/state", lambda state: state["requests_in_flight"] == 0, limit_s=2)
            await until_idle(session, worker.url)


async def read_all(session: aiohttp.ClientSession, url: str, body: dict[str, object]) -> bytes:
    async with session.post(url, json=body) as response:
        return await response.read()


async def until_idle(session: aiohttp.ClientSession, url: str) -> None:
    """Within two seconds the engine runs nothing any more."""
    running: list[str] = []
    for _ in range(40):
        page = (await read_page(session, f"{url}/metrics")).splitlines()
        running = [line for line in page if line.startswith("vllm:num_requests_running")]
        if all(line.endswith(" 0.0") for line in running):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the engine still runs: {running}")


async def read_page(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as response:
        return await response.text()


async def end_of(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode is not None
    return process.returncode, stderr.decode()


async def test_a_taken_port_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = await end_of("serve", "--port", port)
        assert code == 2
        assert f"127.0.0.1:{port} is in use" in said
        code, said = await end_of("engine", "--port", port)
        assert code == 2
        assert port in said
    assert "Traceback" not in said


async def test_a_missing_tokenizer_is_said() -> None:
    code, said = await end_of("serve", "--port", "0", "--tokenizer", "/no/such/folder")
    assert code == 2
    assert "/no/such/folder" in said
    assert "Traceback" not in said


async def test_a_wrong_flag_is_said() -> None:
    code, said = await end_of("serve", "--policy", "warmrout")
    assert code == 2
    assert "warmrout" in said
    code, said = await end_of("serve", "--worker", "10.0.0.5:8000")
    assert code == 2
    assert "http://HOST:PORT" in said
