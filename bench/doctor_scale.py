"""A long log of requests of 8,000 tokens, and what `warmroute doctor` needs to read it.

The log is written as it is read, through a pipe to the command itself, so that nothing of it has to lie anywhere. Its
lines are put together from pieces that were encoded before: making one takes a small part of the time that reading it
takes, on another core.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from bench.doctor_corpus.application import Application, application
from bench.doctor_corpus.dialects import Dialect
from bench.doctor_corpus.traffic import EPOCH_S

TOKENS = 8_000
_BYTES_PER_TOKEN = 4
_PROGRAMS = 120
_OPEN_SESSIONS = 6
_POOL = 60
"""Of each program so many sentences are made; messages take some at random, each with a number of its own."""
_QUESTION, _ANSWER = 10, 7
_SPEED_SAMPLE = 2_000
_TOLD_EVERY = 10_000
_POLLED_EVERY_S = 0.01


@dataclass(slots=True)
class _Program:
    """One application: a third share all but a question, a third write the time first, a third converse."""

    app: Application
    is_dated: bool
    is_conversing: bool
    shared: bytes
    sentences: list[bytes]
    open_sessions: dict[str, bytes] = field(default_factory=dict)


def lines(count: int, seed: int) -> Iterator[bytes]:
    """A log of `count` requests, one a line, in an envelope with the time and the session."""
    rng = Random(f"scale/{seed}")
    programs = [_program(Random(f"scale/{seed}/{number}"), number) for number in range(_PROGRAMS)]
    at_s = float(EPOCH_S)
    for _ in range(count):
        at_s += rng.expovariate(2.0)
        yield _line(rng, rng.choice(programs), at_s)


def _program(rng: Random, number: int) -> _Program:
    size = TOKENS // 2 if number % 3 == 2 else TOKENS - 400
    app = application(rng, dialects=(Dialect.CHAT,), system_tokens=(size, size + 1), tools=(0, 0))
    return _Program(
        app=app,
        is_dated=number % 3 == 1,
        is_conversing=number % 3 == 2,
        shared=_encoded(app.system),
        sentences=[_encoded(app.voice.sentence(rng, "facts")) for _ in range(_POOL)],
    )


def _encoded(text: str) -> bytes:
    """The text as it stands in JSON, without the quotes."""
    return json.dumps(text, ensure_ascii=False).encode()[1:-1]


def _line(rng: Random, program: _Program, at_s: float) -> bytes:
    volatile = b"Current time: %.3f\\n\\n" % at_s if program.is_dated else b""
    session, messages = _messages(rng, program)
    return (
        b'{"timestamp":%.3f,"path":"/v1/chat/completions","session_id":"%s","body":{"model":"%s","messages":'
        b'[{"role":"system","content":"%s%s"},%s]}}\n'
        % (at_s, session.encode(), program.app.model.encode(), volatile, program.shared, messages)
    )


def _messages(rng: Random, program: _Program) -> tuple[str, bytes]:
    """The session and its messages, encoded; a conversation goes on until it is long enough."""
    asked = b'{"role":"user","content":"%s"}' % _text(rng, program, _QUESTION)
    if not program.is_conversing:
        return f"s{rng.getrandbits(48):x}", asked
    sessions = program.open_sessions
    session = rng.choice(list(sessions)) if len(sessions) >= _OPEN_SESSIONS else f"s{rng.getrandbits(48):x}"
    before = sessions.pop(session, b"")
    answered = b'{"role":"assistant","content":"%s"},' % _text(rng, program, _ANSWER) if before else b""
    messages = before + (b"," if before else b"") + answered + asked
    if len(messages) < TOKENS * _BYTES_PER_TOKEN:
        sessions[session] = messages
    return session, messages


def _text(rng: Random, program: _Program, sentences: int) -> bytes:
    """Sentences that no other message has."""
    return b" ".join(b"%d: %s" % (rng.getrandbits(40), each) for each in rng.choices(program.sentences, k=sentences))


@dataclass(frozen=True, slots=True)
class Scale:
    """What the command took. memory_bytes: what it was allowed to keep. lines_per_s: what the log is made at, alone."""

    requests: int
    mean_tokens: float
    mean_line_bytes: float
    memory_bytes: int
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    idle_rss_bytes: int
    lines_per_s: float
    findings: int
    families: int
    dropped: dict[str, int]

    def told(self) -> dict[str, Any]:
        """For JSON, with the rate."""
        return asdict(self) | {"requests_per_s": self.requests / self.wall_s}


def measured(count: int, seed: int, memory_bytes: int) -> Scale:
    """Write a log of `count` requests to the command, and see what it took. Raises RuntimeError where it failed."""
    idle = _run(["--help"], iter(()))
    sample = min(count, _SPEED_SAMPLE)
    begun = time.monotonic()
    sample_bytes = sum(map(len, lines(sample, seed)))
    lines_per_s = sample / (time.monotonic() - begun)
    ran = _run(["-", "--json", "--memory", f"{memory_bytes // 2**20}"], lines(count, seed))
    report = json.loads(ran.output)
    return Scale(
        requests=report["requests"],
        mean_tokens=report["prompt_tokens"] / report["requests"],
        mean_line_bytes=sample_bytes / sample,
        memory_bytes=memory_bytes,
        wall_s=ran.wall_s,
        cpu_s=ran.cpu_s,
        peak_rss_bytes=ran.peak_rss_bytes,
        idle_rss_bytes=idle.peak_rss_bytes,
        lines_per_s=lines_per_s,
        findings=len(report["findings"]),
        families=report["families"],
        dropped=report["dropped"],
    )


@dataclass(frozen=True, slots=True)
class _Ran:
    """A command that has ended. peak_rss_bytes: the most memory that it ever had."""

    output: bytes
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int


def _run(arguments: Sequence[str], log: Iterator[bytes]) -> _Ran:
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "warmroute", "doctor", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output)
        peak = max(_write(process, log), _peak_rss_until_it_ends(process.pid))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        told = output.read()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return _Ran(told, time.monotonic() - begun, usage.ru_utime + usage.ru_stime, peak)


def _write(process: "subprocess.Popen[bytes]", log: Iterator[bytes]) -> int:
    """All of the log; a command that ends sooner is judged by its exit code. The peak so far."""
    assert process.stdin is not None
    peak = 0
    try:
        with process.stdin as pipe:
            for number, line in enumerate(log, 1):
                pipe.write(line)
                if number % _TOLD_EVERY == 0:
                    peak = _peak_rss_bytes(process.pid)
                    print(f"{number:,} requests written, {peak / 2**20:,.0f} MiB", file=sys.stderr)
    except BrokenPipeError:
        print("the command did not read all of the log", file=sys.stderr)
    return peak


def _peak_rss_until_it_ends(pid: int) -> int:
    """The peak is asked for while there is somebody to ask: what `wait` tells begins with that of the parent."""
    peak = 0
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        peak = max(peak, _peak_rss_bytes(pid))
        time.sleep(_POLLED_EVERY_S)
    return peak


def _peak_rss_bytes(pid: int) -> int:
    """The most that a process has had in memory since it became what it is; 0 where it has ended."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return 0 if found is None else int(found[1]) * 1024
