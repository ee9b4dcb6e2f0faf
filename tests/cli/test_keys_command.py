"""`warmroute keys`."""

import json
from pathlib import Path

import pytest

from warmroute.cli.main import main
from warmroute.gateway.keys import Role, read_keys


def test_the_key_is_told_once_and_the_line_is_for_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "team-a", "--role", "admin"]) == 0
    printed = capsys.readouterr()
    file = tmp_path / "keys"
    file.write_text(printed.out)
    secret = printed.err.split()[-1]
    key = read_keys(file).key_of(secret)
    assert key is not None
    assert (key.name, key.role) == ("team-a", Role.ADMIN)
    assert secret not in printed.out


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "b", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    file = tmp_path / "keys"
    file.write_text(told["line"])
    key = read_keys(file).key_of(told["key"])
    assert key is not None
    assert key.role is Role.TRAFFIC


def test_a_name_that_no_line_holds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "two words"]) == 2
    assert "letters" in capsys.readouterr().err
