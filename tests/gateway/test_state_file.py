"""The state file: what goes in comes out, and what is damaged is refused with the reason."""

import dataclasses
import errno
import hashlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.gateway.state_file import (
    MAGIC,
    VERSION,
    LaneState,
    SavedState,
    UnusableState,
    decode,
    encode,
    leftovers,
    read,
    write,
)
from warmroute.kv_event.listener import Position

LANES = (
    LaneState("http://a:1", "tcp://a:5557", None, Position(41, 2**63 + 5), 16, 1000.5, b"blob of a" * 20),
    LaneState("http://b:1", "tcp://b:5557", 0, Position(0, 0, complete=False), None, 1000.25, b""),
    LaneState("http://b:1", "tcp://b:5558", 1, None, 64, 1000.25, bytes(range(256))),
)
STATE = SavedState(1001.0, "0.1.0", LANES)
DATA = b"".join(encode(STATE))
_HEAD_END = 16 + int.from_bytes(DATA[12:16], "little")

_text = st.text(max_size=20)
_count = st.integers(0, 2**64 - 1)
_maybe = st.none() | _count
lanes = st.builds(
    LaneState,
    _text,
    _text,
    _maybe,
    st.none() | st.builds(Position, _count, _count, st.booleans()),
    _maybe,
    st.floats(allow_nan=False),
    st.binary(max_size=200),
)
states = st.builds(SavedState, st.floats(allow_nan=False), _text, st.lists(lanes, max_size=4).map(tuple))


def signed(undigested: bytes) -> bytes:
    """A file whose checksum is right, whatever it says."""
    return undigested + hashlib.blake2b(undigested, digest_size=32).digest()


def with_head(head: bytes, blobs: bytes = b"") -> bytes:
    return signed(MAGIC + VERSION.to_bytes(4, "little") + len(head).to_bytes(4, "little") + head + blobs)


@settings(deadline=None)
@given(states)
def test_what_is_written_is_read(state: SavedState) -> None:
    assert decode(b"".join(encode(state))) == state


def test_a_file_is_for_its_owner_and_holds_what_was_given(tmp_path: Path) -> None:
    path = tmp_path / "made" / "for it" / "8080.index"
    assert write(path, STATE) == len(DATA) == path.stat().st_size
    assert read(path) == STATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["8080.index"]


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert read(tmp_path / "none") is None
    assert read(tmp_path / "no" / "folder") is None
    (tmp_path / "file").touch()
    assert read(tmp_path / "file" / "none") is None


@pytest.mark.parametrize("at", [*range(0, _HEAD_END, 7), *range(_HEAD_END, len(DATA), 37), len(DATA) - 1])
def test_a_flipped_byte_is_noticed(at: int) -> None:
    for flip in (0x01, 0x80, 0xFF):
        damaged = bytearray(DATA)
        damaged[at] ^= flip
        with pytest.raises(UnusableState):
            decode(bytes(damaged))


_BOUNDARIES = (0, 1, 7, 8, 11, 12, 15, 16, 47, 48, _HEAD_END - 1, _HEAD_END, _HEAD_END + 180, len(DATA) - 32)


@pytest.mark.parametrize("length", [*_BOUNDARIES, len(DATA) - 1])
def test_a_file_that_is_cut_off_is_noticed(length: int) -> None:
    with pytest.raises(UnusableState, match="empty" if length == 0 else "cut off"):
        decode(DATA[:length])


def test_a_file_that_goes_on_is_noticed() -> None:
    with pytest.raises(UnusableState, match="checksum"):
        decode(DATA + b"\0")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"x", "no state file of warmroute"),
        (b"PK\x03\x04" + DATA, "no state file of warmroute"),
        (MAGIC + (VERSION + 1).to_bytes(4, "little") + DATA[12:], "a newer router wrote it: format version 2"),
        (MAGIC + (0).to_bytes(4, "little") + DATA[12:], "an older router wrote it: format version 0"),
        (signed(DATA[:12] + (2**32 - 1).to_bytes(4, "little") + DATA[16:-32]), "head is longer than the file"),
        (with_head(b""), "head cannot be read"),
        (with_head(b"\xc1"), "head cannot be read"),
        (with_head(b"\x91" * 100_000), "head cannot be read"),
        (with_head(msgspec.msgpack.encode({"saved_at": 1.0, "router": "x"})), "missing required field `lanes`"),
        (with_head(msgspec.msgpack.encode({"saved_at": "now", "router": "x", "lanes": []})), "Expected `float`"),
        (signed(DATA[:-32] + b"more"), "do not add up"),
        (signed(DATA[:-33]), "do not add up"),
    ],
)
def test_what_is_no_state_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnusableState, match=reason):
        decode(data)


def test_a_negative_length_adds_up_to_nothing() -> None:
    entry = dataclasses.asdict(LANES[0]) | {"blob_bytes": -5}
    del entry["blob"]
    both = [entry, entry | {"blob_bytes": 5}]
    with pytest.raises(UnusableState, match="head cannot be read"):
        decode(with_head(msgspec.msgpack.encode({"saved_at": 1.0, "router": "x", "lanes": both})))


def test_fields_of_a_later_router_are_passed_over() -> None:
    head = {"saved_at": 1.0, "router": "9.9", "lanes": [], "rates": {"http://a:1": 3}}
    assert decode(with_head(msgspec.msgpack.encode(head))) == SavedState(1.0, "9.9", ())


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for attempt in (data, MAGIC + data, with_head(data)):
        with pytest.raises(UnusableState):
            decode(attempt)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UnusableState, match="no regular file"):
            read(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "8080.index"
    write(path, STATE)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnusableState, match="cannot be written: No space left"):
        write(path, dataclasses.replace(STATE, lanes=()))
    assert read(path) == STATE
    assert list(leftovers(path)) == []


@pytest.mark.parametrize("where", ["a folder", "below a file"])
def test_what_cannot_be_written_is_told(tmp_path: Path, where: str) -> None:
    (tmp_path / "a file").write_bytes(b"")
    path = tmp_path / "taken" if where == "a folder" else tmp_path / "a file" / "8080.index"
    if where == "a folder":
        (path / "inside").mkdir(parents=True)
    with pytest.raises(UnusableState, match=r"cannot be written: (Is a directory|File exists)"):
        write(path, STATE)
    assert list(leftovers(path)) == []


def test_killed_between_writing_and_renaming_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "[80].index"
    write(path, STATE)
    script = f"""
import os, signal
from pathlib import Path
from warmroute.gateway import state_file
os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
state_file.write(Path({str(path)!r}), state_file.SavedState(2.0, "later", ()))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert read(path) == STATE
    assert len(list(leftovers(path))) == 1
