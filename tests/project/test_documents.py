"""What the documents say is what the code and the results say."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from warmroute.admission import FailoverOptions
from warmroute.config import option_names
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.options import ServeConfig, worker_spec
from warmroute.gateway.relay import RelayOptions
from warmroute.policy import POLICIES

_ROOT = Path(__file__).resolve().parents[2]
_README = (_ROOT / "README.md").read_text()
_OPTIONS = (ServeConfig, AccessOptions, RelayOptions, FailoverOptions)
_ARCHITECTURE = (_ROOT / "ARCHITECTURE.md").read_text()


def test_documents_and_plots_show_the_results() -> None:
    done = subprocess.run(
        [sys.executable, "tools/render_results.py", "--check"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_first_two_commands_are_demo_and_test() -> None:
    commands = re.findall(r"^    (make \S+)", _README, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_flags_in_the_readme_exist() -> None:
    flags = {
        flag for line in re.findall(r"warmroute serve(?:\\\n|.)*", _README) for flag in re.findall(r"--[a-z-]+", line)
    }
    flags |= set(re.findall(r"`(--[a-z-]+)`", _README))
    known = {"--" + name.replace("_", "-") for name in option_names(*_OPTIONS)} | {"--config"}
    assert flags >= {"--worker", "--tokenizer", "--policy"}
    assert flags <= known


def test_the_configuration_in_the_readme_can_be_read() -> None:
    found = re.search(r'^ +tokenizer = "(?:.|\n)*?kv_replay = "[^"]*"', _README, re.MULTILINE)
    assert found is not None
    values = tomllib.loads("\n".join(line.strip() for line in found.group().splitlines()))
    workers = values.pop("workers")
    assert set(values) <= set(option_names(*_OPTIONS))
    assert [worker_spec(worker, where="README").kv_events for worker in workers] == ["tcp://10.0.0.5:5557"]


def test_every_policy_is_explained() -> None:
    assert all(f"`{policy}`" in _README for policy in POLICIES)


def test_the_architecture_names_files_that_exist() -> None:
    package = _ROOT / "python" / "warmroute"
    named = set(re.findall(r"\b[a-z_]+(?:/[a-z_]+)*(?:\.py|/)(?![\w/])", _ARCHITECTURE))
    assert len(named) > 15
    missing = {name for name in named if not (package / name).exists() and not (_ROOT / name).exists()}
    assert missing == set()


def test_the_layers_in_the_architecture_are_those_that_are_checked() -> None:
    contract = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    drawn = re.search(r"^    (cli > .*errors)$", _ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert drawn is not None
    assert re.split(r"\s*>\s*", drawn.group(1)) == [layer for layer in contract if layer != "__main__"]
