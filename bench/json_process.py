"""What is measured runs in a process of its own, so that it shares no interpreter with the one that measures."""

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]


class JsonProcess:
    """A process that hears lines and answers with JSON, a line each."""

    def __init__(self, *command: str) -> None:
        self._running = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._running.pid

    def tell(self, line: str) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(line + "\n")
        self._running.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next answer. RuntimeError when the process has died."""
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._running.args!r} ended with {self._running.wait()}")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """One question, one answer. RuntimeError as above."""
        self.tell(json.dumps({"do": what, **arguments}))
        return self.hear()

    def end(self) -> None:
        """Stop it and wait for its end."""
        self._running.terminate()
        self._running.wait()
        for pipe in (self._running.stdin, self._running.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
