"""Where a block lies, from the names that engines and KV connectors give to their media."""

from typing import Any

from warmroute.block import Tier

# Upper case; the spellings differ by engine, connector and release (vLLM "GPU", "CPU", "FS", "STORAGE", LMCache and
# Mooncake "cpu", SGLang "CPU_PINNED", "DISK").
_TIERS = {
    "GPU": Tier.DEVICE,
    "CPU": Tier.HOST,
    "CPU_PINNED": Tier.HOST,
    "DISK": Tier.DISK,
    "STORAGE": Tier.DISK,
    "FS": Tier.DISK,
}


def tier_of(medium: Any, locality: Any = None) -> Tier:
    """The tier of a `medium` (None: the device, as in releases that had no tiers).

    A medium nobody has heard of counts as remote, the tier from which a block is slowest to come back.
    """
    if isinstance(locality, str) and locality.upper() == "REMOTE":
        return Tier.REMOTE
    if medium is None:
        return Tier.DEVICE
    return _TIERS.get(medium.upper(), Tier.REMOTE) if isinstance(medium, str) else Tier.REMOTE
