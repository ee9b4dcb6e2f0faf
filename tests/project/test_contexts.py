"""A context that frees what it took only when all went well turns one failure into those of every later test."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_FREEING = {"close", "cleanup", "terminate", "kill", "shutdown"}


def contexts(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The context managers; a fixture goes on after its `yield` in any case."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            "contextmanager" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield node


def freed_only_after_success(body: Sequence[ast.stmt]) -> Iterator[int]:
    """The lines after an unguarded `yield` that free something."""
    for at, statement in enumerate(body):
        if not any(isinstance(node, ast.Yield) for node in ast.walk(statement)):
            continue
        if not isinstance(statement, ast.Try):
            for after in body[at + 1 :]:
                yield from (node.lineno for node in ast.walk(after) if isinstance(node, ast.Call) and _frees(node))
        for inner in ("body", "orelse"):
            if not (isinstance(statement, ast.Try) and statement.finalbody):
                yield from freed_only_after_success(getattr(statement, inner, []))


def _frees(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _FREEING


@pytest.mark.parametrize("folder", ["bench", "python", "tests", "tools"])
def test_what_a_context_took_is_freed_when_its_body_fails(folder: str) -> None:
    paths = sorted((_ROOT / folder).rglob("*.py"))
    assert paths
    wrong = [
        f"{path.relative_to(_ROOT)}:{line}"
        for path in paths
        for function in contexts(path.read_text())
        for line in freed_only_after_success(function.body)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("yield 1\nx.close()", [4]),
        ("with y:\n  yield 1\nawait x.close()", [5]),
        ("with y:\n  yield 1\n  x.kill()", [5]),
        ("try:\n  yield 1\nfinally:\n  x.close()", []),
        ("try:\n  with y:\n    yield 1\nfinally:\n  x.close()\nassert x", []),
        ("yield 1\nassert x.closed", []),
    ],
)
def test_the_check_sees_what_it_is_for(body: str, wrong: list[int]) -> None:
    indented = body.replace("\n", "\n  ")
    (function,) = contexts(f"@asynccontextmanager\nasync def f():\n  {indented}")
    assert list(freed_only_after_success(function.body)) == wrong
