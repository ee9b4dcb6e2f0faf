"""What is measured beside us: Dynamo, in an environment of its own, made when it is not there."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-dynamo" / "bin" / "python"


def install() -> None:
    """Makes the environment, or makes it anew where its lock has changed; says so on stderr."""
    subprocess.run([ROOT / "scripts" / "install_dynamo.sh"], check=True)


class DynamoTree:
    """The tree in its process; see `bench.dynamo_tree` for what can be asked."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """One question, one answer. RuntimeError when the process has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Dynamo's process ended at {what!r}, exit status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def dynamo_tree() -> Iterator[DynamoTree]:
    """A tree, empty at first."""
    install()
    command = [str(PYTHON), "-m", "bench.dynamo_tree"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield DynamoTree(process)
        finally:
            process.terminate()


def version() -> str:
    """Of the installed one."""
    code = "from importlib.metadata import version; print(version('ai-dynamo-runtime'))"
    return subprocess.run([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
