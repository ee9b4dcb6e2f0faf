"""A short run of the whole: the router holds, and the harness says so."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
_SECONDS = 20
_SEED = 5


@pytest.mark.timeout(240)
async def test_twenty_seconds_of_chaos(tmp_path: Path) -> None:
    words = ["--seconds", str(_SECONDS), "--seed", str(_SEED), "--engines", "3", "--liars", "2", "--clients", "10"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "chaos",
        *words,
        "--json",
        "--log",
        str(tmp_path / "router.log"),
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    assert process.returncode < 2, err.decode()
    report: dict[str, Any] = json.loads(out)
    assert report["violations"] == []
    assert process.returncode == 0
    assert report["requests, by how they ended"]["whole answer"] > 50
    assert sum(report["faults"].values()) > 10
    assert sum(count for lie, count in report["what liars told"].items() if lie != "honest") > 5
