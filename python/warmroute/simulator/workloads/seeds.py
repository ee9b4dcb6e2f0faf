"""Seeds for the parts of a workload: each part draws from its own, so that a change to one leaves the others alone."""

from hashlib import blake2b


def seed_of(*parts: int | str) -> int:
    """A seed of 64 bits for what `parts` name; equal for equal parts, in every process."""
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest(), "little")
