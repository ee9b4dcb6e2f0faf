"""The same seed gives the same bytes, in any process and whatever strings hash to."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.workloads.made import TRACES
from warmroute.simulator.workload import Workload
from warmroute.simulator.workloads import WORKLOADS, scaled, workload
from warmroute.simulator.workloads.recorded import Recorded

_ONE_OF = 23
"""Tokens are made of every so many requests only, which is enough to tell two orders or two texts apart."""


def digest(opened: Workload, seed: int) -> str:
    """Of every time, dependence and length, and of some tokens."""
    told, number = hashlib.sha256(), 0
    for stage in opened.stages(seed):
        told.update(repr((stage.name, stage.rate, stage.counted, stage.pause_s)).encode())
        for session in stage.sessions:
            told.update(repr((session.start_s, session.name)).encode())
            for turn in session.turns:
                told.update(
                    repr((len(turn.prompt), len(turn.answer), turn.after, turn.wait_s, turn.max_tokens)).encode()
                )
                number += 1
                if number % _ONE_OF == 0:
                    told.update(turn.prompt.ids().tobytes())
                    told.update(turn.answer.ids().tobytes())
    return told.hexdigest()


def all_digests() -> list[str]:
    """Of every workload that can be had here."""
    traces = TRACES if TRACES.is_dir() else None
    named = [listed.name for listed in WORKLOADS if traces is not None or not isinstance(listed, Recorded)]
    return [f"{name} {digest(scaled(workload(name, traces), 1.5, 40.0), seed=5)}" for name in named]


def in_another_process(hash_seed: str) -> list[str]:
    tests = Path(__file__).resolve().parents[2]
    code = "from simulator.workloads.test_determinism import all_digests\nprint(*all_digests(), sep='\\n')"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(tests)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.split("\n")[:-1]


def test_two_processes_make_the_same_bytes() -> None:
    one = in_another_process("1")
    assert len(one) == len({line.split()[1] for line in one}) >= 14
    assert one == in_another_process("4242")


@pytest.mark.parametrize("name", ["reference", "multi-turn", "burst"])
def test_seeds_differ(name: str) -> None:
    opened = scaled(workload(name, None), 1.0, 10.0)
    assert digest(opened, 1) == digest(opened, 1) != digest(opened, 2)
