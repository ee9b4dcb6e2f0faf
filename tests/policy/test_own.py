"""A policy of one's own: found by `package.module:Class`, or it is said what to mend."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmroute.errors import ConfigError
from warmroute.policy import POLICIES, PolicyRequest, check_policy_name, own_policy, policy_named

MINE = '''
from warmroute.policy import Cost

class Mine:
    """The first worker."""

    name = "mine"
    unit = "position"

    def costs(self, request, candidates, rng):
        return [Cost(float(position), {}) for position, _ in enumerate(candidates)]

class Other(Mine):
    name = "other"

def made():
    return Mine()
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, empty; what it holds is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions of a file within a second look the same
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("mine", "package_of_mine"):
            del sys.modules[name]


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        policy_named(name)
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_routers_own_have_their_names(name: str) -> None:
    assert policy_named(name).name == name
    assert policy_named(name) is not policy_named(name)


def test_a_name_that_is_nearly_one_is_told_the_nearest() -> None:
    assert refusal("weigthed") == (
        "there is no policy 'weigthed' (one of your own is package.module:Class); did you mean 'weighted'?"
    )
    assert refusal("xyz").endswith("; known: least-loaded, longest-prefix, random, round-robin, warmroute, weighted")


def test_a_class_of_the_current_folder(folder: Path) -> None:
    (folder / "mine.py").write_text(MINE)
    policy = policy_named("mine:Mine")
    assert policy.name == "mine"
    costs = policy.costs(PolicyRequest(1, 1.0, 0), [], random.Random(0))
    assert costs == []
    make, first = own_policy("mine:Mine")
    assert make.__doc__ == "The first worker."
    assert first is not make()


def test_a_class_of_a_package_and_what_a_function_makes(folder: Path) -> None:
    package = folder / "package_of_mine"
    package.mkdir()
    (package / "inner.py").write_text(MINE)
    assert policy_named("package_of_mine.inner:Other").name == "other"
    assert policy_named("package_of_mine.inner:made").name == "mine"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("mine:", ""),
        (":Mine", ""),
        ("mine..inner:Mine", ""),
        ("mine:Mine()", ""),
        ("mine:Mine:Mine", ""),
        ("mine.py:Mine", "; write mine:Mine"),
        ("examples/standby.py:Standby", "; write examples.standby:Standby"),
        ("./mine.py:Mine", "; write mine:Mine"),
        ("/srv/mine.py:Mine", ""),
    ],
)
def test_another_shape_is_told_the_right_one(name: str, written: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_policy_name(name)
    assert str(caught.value) == f"a policy of your own is named package.module:Class, not '{name}'{written}"
    assert refusal(name) == str(caught.value)


def test_a_name_is_checked_without_importing_anything(folder: Path) -> None:
    (folder / "mine.py").write_text("raise AssertionError")
    check_policy_name("mine:Mine")
    check_policy_name("warmroute")


@pytest.mark.parametrize(("name", "missing"), [("mine:Mine", "mine"), ("mine.inner:Mine", "mine")])
def test_a_module_that_is_not_there(folder: Path, name: str, missing: str) -> None:
    said = refusal(name)
    assert f"there is no module {missing} in {folder} and none installed" in said
    assert "PYTHONPATH" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_thing_at_all", "imported: ModuleNotFoundError: No module named 'no_such_thing_at_all' ("),
        ("x = 1\n1 / 0", "mine.py, line 2)"),
        ("raise SystemExit(3)", "imported: SystemExit: 3 ("),
        ("def", "imported: SyntaxError: invalid syntax (mine.py, line 1)"),
        ("raise ValueError('one\\ntwo')", "imported: ValueError: one two ("),
    ],
)
def test_a_module_that_fails(folder: Path, text: str, said: str) -> None:
    (folder / "mine.py").write_text(text)
    assert said in refusal("mine:Mine")


def test_a_class_that_is_not_there(folder: Path) -> None:
    (folder / "mine.py").write_text(MINE)
    assert refusal("mine:Mien").endswith("mine.py has no Mien; did you mean 'Mine'?")
    (folder / "package_of_mine.py").write_text("from random import Random")
    assert refusal("package_of_mine:Mine").endswith("has no Mine; it has no class with costs")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def __init__(self, weight): pass", "missing 1 required positional argument: 'weight'; it is made without"),
        ("def __init__(self): raise OSError('no disk')", "cannot be made: OSError: no disk ("),
        ("name = 'mine'", "is no policy: it has no unit, it has no costs; it needs name and unit"),
        ("name, unit, costs = 1, 'u', print", "is no policy: its name is no text;"),
        ("name, unit = 'n', 'u'\n    def costs(self, request): pass", "its costs takes other arguments;"),
        ("name, unit, costs = 'n', 'u', 3", "its costs takes other arguments;"),
        ("name, unit = 'n', 'u'\n    async def costs(self, request, candidates, rng): pass", "must not be async"),
    ],
)
def test_a_class_that_makes_no_policy(folder: Path, body: str, said: str) -> None:
    (folder / "mine.py").write_text(f"class Mine:\n    {body}\n")
    assert said in refusal("mine:Mine")


@pytest.mark.parametrize("broken", ["class Mine: pass", "1 / 0", "", "class Mine:\n    def __init__(self, x): pass"])
def test_one_that_was_mended_is_taken(folder: Path, broken: str) -> None:
    (folder / "mine.py").write_text(broken)
    refusal("mine:Mine")
    (folder / "mine.py").write_text(MINE)
    assert policy_named("mine:Mine").name == "mine"


def test_one_that_is_in_use_is_not_run_again(folder: Path) -> None:
    (folder / "mine.py").write_text(MINE)
    used = own_policy("mine:Mine")[0]
    refusal("mine:Absent")
    assert own_policy("mine:Mine")[0] is used
