"""What the router knows of the engines' caches, as one file: for its next process, and for `warmroute index`.

    offset      bytes   content
    0           8       the magic: b"warmidx\\n"
    8           4       format version        u32 little-endian, as every number here
    12          4       length of the head
    16          n       head: MessagePack of `_Head`, one entry for each lane with the length of its blob
    16 + n      ...     the lanes' blobs, in that order, each as `PrefixIndex.dump` gave it
    end - 32    32      BLAKE2b-256 of everything before

A file that fails in any point is refused as a whole: half a picture of a cache is worth less than none. Fields that
this version does not know are passed over in the head; what changes the meaning of others changes the version.
"""

import contextlib
import glob
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from warmroute.errors import WarmrouteError
from warmroute.kv_event.listener import Position

MAGIC = b"warmidx\n"
VERSION = 1
_DIGEST_BYTES = 32
_FIXED_BYTES = 16
_SHORTEST = _FIXED_BYTES + _DIGEST_BYTES

_Count = Annotated[int, msgspec.Meta(ge=0)]


class UnusableState(WarmrouteError):
    """A state file cannot be read or written; the text says why and names no file."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane's confirmed blocks and the last batch of events that is in them.

    `position` is None where nothing could be gone on from. `blob` is what `PrefixIndex.dump` gave, `taken_at` when, in
    seconds of the Unix epoch; `block_size` is the worker's, in tokens.
    """

    worker: str
    endpoint: str
    rank: int | None
    position: Position | None
    block_size: int | None
    taken_at: float
    blob: bytes

    @property
    def name(self) -> str:
        """For people: the worker, and the rank where it has one."""
        return self.worker if self.rank is None else f"{self.worker} rank {self.rank}"


@dataclass(frozen=True, slots=True)
class SavedState:
    """Everything that one file holds; `saved_at` in seconds of the Unix epoch, `router` the version that wrote it."""

    saved_at: float
    router: str
    lanes: tuple[LaneState, ...]


class _PositionEntry(msgspec.Struct, frozen=True):
    seq: _Count
    mark: _Count
    complete: bool


class _LaneEntry(msgspec.Struct, frozen=True):
    worker: str
    endpoint: str
    rank: _Count | None
    position: _PositionEntry | None
    block_size: _Count | None
    taken_at: float
    blob_bytes: _Count


class _Head(msgspec.Struct, frozen=True):
    saved_at: float
    router: str
    lanes: tuple[_LaneEntry, ...]


def encode(state: SavedState) -> Iterator[bytes]:
    """The file in pieces. Hashing them lets other threads run, as writing them does; joining them would not."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for piece in _undigested(state):
        digest.update(piece)
        yield piece
    yield digest.digest()


def _undigested(state: SavedState) -> Iterator[bytes]:
    head = msgspec.msgpack.encode(_Head(state.saved_at, state.router, tuple(map(_entry, state.lanes))))
    yield MAGIC + VERSION.to_bytes(4, "little") + len(head).to_bytes(4, "little")
    yield head
    for lane in state.lanes:
        yield lane.blob


def _entry(lane: LaneState) -> _LaneEntry:
    told = lane.position
    position = None if told is None else _PositionEntry(told.seq, told.mark, told.complete)
    return _LaneEntry(lane.worker, lane.endpoint, lane.rank, position, lane.block_size, lane.taken_at, len(lane.blob))


def decode(data: bytes) -> SavedState:
    """What `encode` was given. Raises UnusableState with the reason; the blobs themselves are not looked into."""
    view = memoryview(data)
    _check_frame(view)
    head_end = _FIXED_BYTES + int.from_bytes(view[12:_FIXED_BYTES], "little")
    if head_end > len(view) - _DIGEST_BYTES:
        raise UnusableState("its head is longer than the file")
    try:
        head = msgspec.msgpack.decode(view[_FIXED_BYTES:head_end], type=_Head)
    except msgspec.DecodeError as error:
        raise UnusableState(f"its head cannot be read: {error}") from error
    blobs = view[head_end : len(view) - _DIGEST_BYTES]
    if sum(entry.blob_bytes for entry in head.lanes) != len(blobs):
        raise UnusableState("its lanes do not add up to its length")
    return SavedState(head.saved_at, head.router, tuple(_lanes(head.lanes, blobs)))


def _check_frame(view: memoryview) -> None:
    """Magic, version and digest, in the order in which they tell a person the most."""
    if view[: len(MAGIC)] != MAGIC[: len(view)] or not view:
        raise UnusableState("it is empty" if not view else "it is no state file of warmroute")
    if len(view) < _SHORTEST:
        raise UnusableState(f"it is cut off after {len(view)} bytes")
    version = int.from_bytes(view[8:12], "little")
    if version != VERSION:
        age = "an older" if version < VERSION else "a newer"
        raise UnusableState(f"{age} router wrote it: format version {version}, and {VERSION} is read here")
    digest = hashlib.blake2b(view[:-_DIGEST_BYTES], digest_size=_DIGEST_BYTES).digest()
    if view[-_DIGEST_BYTES:] != digest:
        raise UnusableState("its checksum is wrong: it is cut off or damaged")


def _lanes(entries: tuple[_LaneEntry, ...], blobs: memoryview) -> Iterator[LaneState]:
    start = 0
    for entry in entries:
        blob = bytes(blobs[start : start + entry.blob_bytes])
        start += entry.blob_bytes
        told = entry.position
        position = None if told is None else Position(told.seq, told.mark, told.complete)
        yield LaneState(entry.worker, entry.endpoint, entry.rank, position, entry.block_size, entry.taken_at, blob)


def read(path: Path) -> SavedState | None:
    """The state in a file; None where there is no file. Raises UnusableState."""
    try:
        # Not what would never end, or wait for a writer: a device, a pipe.
        if path.exists() and not path.is_file():
            raise UnusableState("it is no regular file")
        return decode(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnusableState(f"it cannot be read: {error.strerror}") from error


def write(path: Path, state: SavedState) -> int:
    """Put `state` in the place of the file at `path`, whole or not at all; its size in bytes. Raises UnusableState.

    Folders that are missing are made. The file is for its owner alone: its blocks tell which prompts are alike.
    """
    try:
        return replace_file(path, encode(state))
    except OSError as error:
        raise UnusableState(f"it cannot be written: {error.strerror}") from error


def replace_file(path: Path, pieces: Iterable[bytes]) -> int:
    """Put these bytes in the place of the file, whole or not at all, for its owner alone; their number.

    Folders that are missing are made. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = _replace(path, pieces)
    _sync_folder(path.parent)
    return size


def leftovers(path: Path) -> Iterator[Path]:
    """What writers that were killed half-way have left beside the file."""
    return path.parent.glob(f".{glob.escape(path.name)}.*.part")


def _replace(path: Path, pieces: Iterable[bytes]) -> int:
    descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            size = sum(map(file.write, pieces))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return size


def _sync_folder(folder: Path) -> None:
    """Without it a power cut may bring the old name back, or none."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
