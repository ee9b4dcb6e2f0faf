"""The multipart messages around a batch: `[topic, seq, payload]` live, with further frames in front in a replay.

Which frames come first depends on the release (a topic was added to replays with vLLM 0.26 and SGLang 0.5.22), so
messages are read from the end: the last frame is the payload, the one before it the number, 8 bytes big-endian.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmroute.errors import UndecodableFrame

SLICE_MESSAGES = 64
"""Batches taken in before other lanes of the same thread get their turn: 2,000 blocks, where each has 32."""

SLICE_BYTES = 1 << 20
"""The same for batches that are long: a slice ends with the one that goes beyond."""

# -1 as a signed 64-bit number: with an empty payload the end of a replay.
_END = b"\xff" * 8


@dataclass(frozen=True, slots=True)
class NumberedPayload:
    """One batch as published: its sequence number and its undecoded payload."""

    seq: int
    payload: bytes

    @property
    def mark(self) -> int:
        """Tells this batch from another of the same number; see `mark_of`."""
        return mark_of(self.payload)


def mark_of(payload: bytes) -> int:
    """63 bits that tell a batch from another process's of the same number, for payloads carry a timestamp.

    The same in every process, so that it can be saved.
    """
    return (len(payload) & 0x7FFF_FFFF) << 32 | zlib.crc32(payload)


def slices(batches: Sequence[NumberedPayload]) -> Iterator[list[NumberedPayload]]:
    """The batches in parts that may be applied at one go."""
    part: list[NumberedPayload] = []
    size = 0
    for batch in batches:
        part.append(batch)
        size += len(batch.payload)
        if len(part) >= SLICE_MESSAGES or size >= SLICE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def read_frames(frames: Sequence[bytes]) -> NumberedPayload | None:
    """The batch in a multipart message; None for the marker that ends a replay.

    Raises UndecodableFrame for fewer than two frames or a number that is not 8 bytes, or beyond 63 bits.
    """
    if len(frames) < 2 or len(frames[-2]) != 8:
        raise UndecodableFrame(
            f"not [..., sequence number, payload]: {len(frames)} frames, {list(map(len, frames))} bytes"
        )
    if frames[-2] == _END and not frames[-1]:
        return None
    if frames[-2][0] >= 0x80:
        raise UndecodableFrame(f"no sequence number: {frames[-2].hex()}")
    return NumberedPayload(int.from_bytes(frames[-2]), frames[-1])
