"""The multipart messages around a batch: `[topic, seq, payload]` live, with further frames in front in a replay.

Which frames come first depends on the release (a topic was added to replays with vLLM 0.26 and SGLang 0.5.22), so
messages are read from the end: the last frame is the payload, the one before it the number, 8 bytes big-endian.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.errors import UndecodableFrame

# -1 as a signed 64-bit number: with an empty payload the end of a replay.
_END = b"\xff" * 8


@dataclass(frozen=True, slots=True)
class NumberedPayload:
    """One batch as published: its sequence number and its undecoded payload."""

    seq: int
    payload: bytes

    @property
    def mark(self) -> int:
        """Tells this batch from another of the same number, within this process: payloads carry a timestamp."""
        return hash(self.payload)


def read_frames(frames: Sequence[bytes]) -> NumberedPayload | None:
    """The batch in a multipart message; None for the marker that ends a replay.

    Raises UndecodableFrame for fewer than two frames or a number that is not 8 bytes.
    """
    if len(frames) < 2 or len(frames[-2]) != 8:
        raise UndecodableFrame(
            f"not [..., sequence number, payload]: {len(frames)} frames, {list(map(len, frames))} bytes"
        )
    if frames[-2] == _END and not frames[-1]:
        return None
    return NumberedPayload(int.from_bytes(frames[-2]), frames[-1])
