"""The pages do what their own description says, whatever they are asked; schemathesis thinks of what to ask."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.processes import engine, router, until_ready
from warmroute.gateway.cross_site import NOT_A_FORM

_EXAMPLES = "150"
# 503 is an answer of two pages; of others it would not be described.
_SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
"""
# A schema cannot tell which URLs, names and files are of use; that those that are not get a declared answer is checked.
_EXCLUDED = "positive_data_acceptance"


async def described(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/warmroute/openapi.json") as response:
        assert response.status == 200
        schema: dict[str, Any] = await response.json()
        return schema


def narrowed(schema: dict[str, Any], urls: list[str]) -> dict[str, Any]:
    """Answers may hold nothing that is not described, and the workers that are named are on this machine."""
    components = schema["components"]["schemas"]
    for component in components.values():
        if "properties" in component:
            component["additionalProperties"] = False
    for name in ("NewWorker", "NamedWorker"):
        components[name]["properties"]["url"] = {"enum": urls}
    for operations in schema["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "url":
                    parameter["schema"] = {"enum": urls}
    return schema


async def schemathesis(folder: Path, schema: dict[str, Any], url: str) -> tuple[int, str]:
    """The exit code and the report; what it writes to its folder stays in `folder`."""
    file = folder / "openapi.json"
    file.write_text(json.dumps(schema))
    (folder / "schemathesis.toml").write_text(_SETTINGS)
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "schemathesis"),
        *("run", str(file), "--url", url, "--no-color", "--max-examples", _EXAMPLES, "--seed", "1"),
        *("--exclude-checks", _EXCLUDED, "--header", f"{NOT_A_FORM}: 1"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    report, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, report.decode()


@pytest.mark.timeout(120)
async def test_every_page_conforms_to_the_description(tmp_path: Path) -> None:
    async with engine() as first, engine() as second, router([first.url]) as gate:
        await until_ready(gate.admin_url, 1)
        async with aiohttp.ClientSession() as session:
            body = {"model": "warmroute-tiny", "prompt": list(range(20, 120)), "max_tokens": 2}
            async with session.post(f"{gate.url}/v1/completions", json=body) as response:
                assert response.status == 200
        urls = [first.url, second.url, "http://127.0.0.1:9", "http://[::1]:9/base", "no url", ""]
        code, report = await schemathesis(tmp_path, narrowed(await described(gate.admin_url), urls), gate.admin_url)
        assert code == 0, report
        assert "Operations:       " in report


async def test_every_page_is_described() -> None:
    async with router([]) as gate:
        paths = (await described(gate.admin_url))["paths"]
        assert {"/health", "/ready", "/metrics", "/v1/models", "/warmroute/workers/drain"} <= set(paths)
        for path, operations in paths.items():
            async with (
                aiohttp.ClientSession() as session,
                session.request("PATCH", gate.admin_url + path, headers={NOT_A_FORM: "1"}) as response,
            ):
                assert response.status == 405
                assert response.headers["allow"] == ", ".join(sorted(method.upper() for method in operations))
