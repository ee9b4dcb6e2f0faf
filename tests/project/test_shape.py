"""The shape that the code keeps, so that a newcomer finds the place for a change: small modules, small functions."""

import ast
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "python" / "warmroute"
_MOST_MODULE_LINES = 400
_MOST_FUNCTION_LINES = 50
_MEDIAN_FUNCTION_LINES = 10
_NAMES_THAT_SAY_NOTHING = ("util", "helper", "manager", "common", "misc", "v2")


def modules() -> list[Path]:
    return sorted(_PACKAGE.rglob("*.py"))


def rust_modules() -> list[Path]:
    return sorted((_ROOT / "crates").rglob("src/**/*.rs"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path.relative_to(_ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_there_is_something_to_check() -> None:
    assert len(modules()) > 50
    assert len(rust_modules()) > 20


@pytest.mark.parametrize("path", [*modules(), *rust_modules()], ids=lambda path: str(path.relative_to(_ROOT)))
def test_a_module_fits_in_the_head(path: Path) -> None:
    assert path.read_text().count("\n") <= _MOST_MODULE_LINES
    assert not any(word in path.stem.split("_") for word in _NAMES_THAT_SAY_NOTHING)


def test_functions_are_small() -> None:
    lengths = dict(found for path in modules() for found in functions(path))
    assert {name: length for name, length in lengths.items() if length > _MOST_FUNCTION_LINES} == {}
    assert statistics.median(lengths.values()) <= _MEDIAN_FUNCTION_LINES


def test_every_target_of_the_makefile_is_explained() -> None:
    makefile = (_ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)$", makefile, re.MULTILINE))
    assert phony == explained
    assert explained >= {"setup", "build", "demo", "test", "ci", "lint", "types", "bench", "fuzz", "test-vllm", "clean"}
    shown = subprocess.run(["make", "help"], cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    assert all(re.search(rf"^{target}\s+\S", shown, re.MULTILINE) for target in explained)


def test_lock_files_name_no_download_address() -> None:
    locks = sorted((_ROOT / "requirements").glob("*.lock"))
    assert locks
    for lock in locks:
        assert "://" not in lock.read_text(), lock


def test_versions_agree() -> None:
    from warmroute._native import __version__

    cargo = (_ROOT / "Cargo.toml").read_text()
    assert f'version = "{__version__}"' in cargo
    assert f"## {__version__}" in (_ROOT / "CHANGELOG.md").read_text()
