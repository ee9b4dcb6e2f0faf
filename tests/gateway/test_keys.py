"""API keys and the file that holds their hashes; the keys that workers are shown."""

from pathlib import Path

import pytest

from warmroute.errors import ConfigError
from warmroute.gateway.keys import KeyRing, Role, new_key, read_keys
from warmroute.gateway.worker_keys import WorkerKeys, read_worker_keys

_HASH = "sha256:" + "0" * 64


def test_a_key_is_found_again_by_what_the_file_has_of_it(tmp_path: Path) -> None:
    traffic, of_traffic = new_key("team-a", Role.TRAFFIC)
    admin, of_admin = new_key("ops@example.org", Role.ADMIN)
    file = tmp_path / "keys"
    file.write_text(f"# whose: who\n\n{of_traffic.line}\n  {of_admin.line}  # ours\n")
    ring = read_keys(file)
    assert traffic not in file.read_text()
    assert (ring.key_of(traffic), ring.key_of(admin)) == (of_traffic, of_admin)
    for wrong in ("", traffic[:-1], traffic + " ", traffic.upper(), _HASH, "\udc80", "wr-"):
        assert ring.key_of(wrong) is None


def test_an_admin_may_do_what_traffic_may() -> None:
    assert [new_key("a", role)[1].may(needed) for role in Role for needed in Role] == [True, False, True, True]


def test_no_two_keys_are_the_same() -> None:
    assert len({new_key("a", Role.TRAFFIC)[0] for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no API key"),
        ("# nothing\n", "no API key"),
        ("a traffic", "line 1"),
        ("\nsecret-word", "line 2"),
        (f"a root {_HASH}", "role on line 1"),
        ("a traffic sha256:12", "64 hexadecimal"),
        (f"{'a' * 65} traffic {_HASH}", "name on line 1"),
        (f"a/b traffic {_HASH}", "name on line 1"),
        (f"a traffic {_HASH}\na admin sha256:{'1' * 64}", "twice"),
        (f"a traffic {_HASH}\nb admin {_HASH}", "twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_by_its_line_and_never_shown(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigError, match=reason) as error:
        read_keys(file)
    assert "secret-word" not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_a_worker_has_its_own_key_or_that_of_all(tmp_path: Path) -> None:
    file = tmp_path / "worker-keys"
    file.write_text("# for the engines\nshared\nhttp://10.0.0.5:8000 own\n")
    keys = read_worker_keys(file)
    assert [keys.of(url) for url in ("http://10.0.0.5:8000/v1/models", "http://10.0.0.6:8000")] == ["own", "shared"]
    assert keys.instead_of_the_clients("http://10.0.0.5:8000")[0] == ("authorization", "Bearer own")
    assert WorkerKeys().instead_of_the_clients("http://a") == (("authorization", ""), ("x-api-key", ""))


@pytest.mark.parametrize("text", ["", "a b c", "one\ntwo", "word key", "http://a k\nhttp://a k", "k\u00e9y"])
def test_workers_keys_that_cannot_be_used_are_not_shown_either(tmp_path: Path, text: str) -> None:
    file = tmp_path / "worker-keys"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_worker_keys(file)
    assert "k\u00e9y" not in str(error.value)


def test_a_ring_without_keys_knows_nobody() -> None:
    assert KeyRing(()).key_of("") is None
