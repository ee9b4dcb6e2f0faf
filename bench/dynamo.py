"""What is measured beside us: Dynamo, in an environment of its own, made when it is not there."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.json_process import ROOT, JsonProcess

PYTHON = ROOT / ".venv-dynamo" / "bin" / "python"


def install() -> None:
    """Makes the environment, or makes it anew where its lock has changed; says so on stderr."""
    subprocess.run([ROOT / "scripts" / "install_dynamo.sh"], check=True)


@contextmanager
def dynamo_tree() -> Iterator[JsonProcess]:
    """A tree, empty at first; see `bench.dynamo_tree` for what can be asked."""
    install()
    with JsonProcess(str(PYTHON), "-m", "bench.dynamo_tree") as process:
        yield process


def version() -> str:
    """Of the installed one."""
    code = "from importlib.metadata import version; print(version('ai-dynamo-runtime'))"
    return subprocess.run([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
