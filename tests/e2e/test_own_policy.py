"""A policy of one's own in a running router: named at the start or by a reload, and never at the cost of a request."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.processes import engine, router, until, until_ready
from warmroute.gateway.cross_site import NOT_A_FORM

_ROOT = Path(__file__).resolve().parents[2]
_MODEL = "warmroute-tiny"

LISTENING = '''
from warmroute.policy import Cost


class Listening:
    """The last worker; counts what it is told."""

    name = "listening"
    unit = "position"

    def __init__(self):
        self.told = 0

    def costs(self, request, candidates, rng):
        return [Cost(-float(position), {"told": float(self.told)}) for position, _ in enumerate(candidates)]

    def decided(self, decision):
        self.told += 1

    def refused(self, request, refusal):
        self.told += 1

    def settled(self, decision, outcome):
        self.told += 1


class Failing(Listening):
    """Fails whenever it is asked or told."""

    name = "failing"

    def costs(self, request, candidates, rng):
        raise ZeroDivisionError("a fault on purpose")

    decided = settled = costs
'''


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={NOT_A_FORM: "1"}) as made:
        yield made


def write(path: Path, policy: str, **workers: str) -> None:
    tables = [f'[[workers]]\nurl = "{url}"\nname = "{name.replace("_", "-")}"' for name, url in workers.items()]
    path.write_text("\n".join([f'policy = "{policy}"', *tables]) + "\n")


async def answered_by(session: aiohttp.ClientSession, url: str, number: int) -> str:
    """Who answers a prompt that nobody has seen."""
    body = {"model": _MODEL, "prompt": [300 + number] * 64, "max_tokens": 2}
    async with session.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        return response.headers["x-warmroute-worker"]


async def explained(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    body = {"model": _MODEL, "prompt": [1] * 64}
    async with session.post(f"{url}/warmroute/explain?path=/v1/completions", json=body) as response:
        assert response.status == 200
        told: dict[str, Any] = await response.json()
        return told


async def reloaded(session: aiohttp.ClientSession, url: str) -> tuple[int, dict[str, Any]]:
    async with session.post(f"{url}/warmroute/reload") as response:
        return response.status, await response.json()


async def test_the_example_spares_the_rented_worker_until_it_is_needed(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    path = tmp_path / "warmroute.toml"
    flags = ("--config", str(path), "--policy", "examples.standby:Standby")
    async with engine() as own, engine() as rented:
        write(path, "random", standby_1=rented.url, own=own.url)
        async with router([], *flags, folder=_ROOT) as gate:
            await until_ready(gate.admin_url, 2)
            assert {await answered_by(session, gate.url, number) for number in range(8)} == {"own"}
            told = await explained(session, gate.admin_url)
            assert (told["policy"], told["unit"]) == ("standby", "seconds")
            assert [line["terms"]["standby_s"] for line in told["workers"]] == [0.0, 2.0]
            async with session.post(f"{gate.admin_url}/warmroute/workers/drain", params={"name": "own"}) as response:
                assert response.status == 200
            assert await answered_by(session, gate.url, 9) == "standby-1"


async def test_a_reload_takes_one_up_and_is_refused_while_it_is_broken(
    session: aiohttp.ClientSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, module = tmp_path / "warmroute.toml", tmp_path / "mine.py"
    async with engine() as first, engine() as second:
        workers = {"first": first.url, "second": second.url}
        write(path, "least-loaded", **workers)
        async with router([], "--config", str(path), "--no-watch-config", folder=tmp_path) as gate:
            await until_ready(gate.admin_url, 2)
            write(path, "mine:Listening", **workers)
            for text, said in (
                (None, "there is no module mine in"),
                ("\n1 / 0", "mine.py, line 2)"),
                ("class Listening: pass", "is no policy"),
                ("class Listener: costs = 1", "has no Listening; did you mean 'Listener'?"),
            ):
                if text is not None:
                    module.write_text(text)
                status, report = await reloaded(session, gate.admin_url)
                assert status == 409
                assert said in report["error"]
                state = await until(gate.admin_url, "/warmroute/state", lambda page: page["policy"] == "least-loaded")
                assert said in state["reload"]["error"]
                await answered_by(session, gate.url, 0)
            module.write_text(LISTENING)
            status, report = await reloaded(session, gate.admin_url)
            assert (status, report["changed"], report["error"]) == (200, ["policy"], None)
            assert {await answered_by(session, gate.url, number) for number in range(5)} == {"second"}
            told = await until_told(session, gate.admin_url, 10.0)
            assert told["policy"] == "listening"
    assert "the configuration stays as it was: the policy mine:Listening cannot be imported" in capsys.readouterr().err


async def test_one_that_fails_costs_no_request_and_each_is_logged(
    session: aiohttp.ClientSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "warmroute.toml"
    (tmp_path / "mine.py").write_text(LISTENING + "\n\nclass Again(Failing):\n    name = 'again'\n")
    async with engine() as only:
        write(path, "mine:Failing", only=only.url)
        async with router([], "--config", str(path), "--no-watch-config", folder=tmp_path) as gate:
            await until_ready(gate.admin_url, 1)
            for number in range(3):
                assert await answered_by(session, gate.url, number) == "only"
            assert (await explained(session, gate.admin_url))["policy"] == "least-loaded"
            await until(gate.admin_url, "/warmroute/state", lambda page: page["policy_failures"] >= 10)
            write(path, "mine:Again", only=only.url)
            assert (await reloaded(session, gate.admin_url))[0] == 200
            assert await answered_by(session, gate.url, 5) == "only"
    log = capsys.readouterr().err
    assert log.count("policy failing failed; requests go to the least loaded worker") == 1
    assert log.count("policy again failed") == 1
    assert "a fault on purpose" in log


async def until_told(session: aiohttp.ClientSession, url: str, count: float) -> dict[str, Any]:
    """The decision of a policy that has been told of so many things: answers come before they are settled."""
    while True:
        told = await explained(session, url)
        if told["workers"][0]["terms"]["told"] >= count:
            assert told["workers"][0]["terms"]["told"] == count
            return told


@pytest.mark.parametrize("told", ["flag", "variable"])
def test_a_broken_one_at_the_start_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    flags = ["--policy", "mine:Mine"] if told == "flag" else []
    if told == "variable":
        monkeypatch.setenv("WARMROUTE_POLICY", "mine:Mine")
    done = subprocess.run(
        [sys.executable, "-m", "warmroute", "serve", "--port", "0", *flags],
        cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "warmroute serve: the policy mine:Mine cannot be found: there is no module mine in" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_says_how_one_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warmroute", "serve", "--help"], capture_output=True, text=True, timeout=30, check=True
    )
    words = " ".join(done.stdout.split())
    assert "--policy POLICY how a worker is chosen: warmroute, weighted," in words
    assert "or package.module:Class for one of your own" in words
