"""Where a block lies, from the names that engines and KV connectors give to their media."""

from typing import Any

from warmroute.block import Tier

# Upper case; the spellings differ by engine, connector and release.
_TIERS = {
    "GPU": Tier.DEVICE,
    "CPU": Tier.HOST,
    "CPU_PINNED": Tier.HOST,
    "DISK": Tier.DISK,
    "STORAGE": Tier.DISK,
    "FS": Tier.DISK,
    "EXTERNAL": Tier.REMOTE,
    "OBJ": Tier.REMOTE,
    "REMOTE": Tier.REMOTE,
}


def tier_of(medium: Any, locality: Any = None) -> Tier:
    """The tier of a `medium`: None is the device, what nobody has heard of is remote."""
    if _upper(locality) == "REMOTE":
        return Tier.REMOTE
    return Tier.DEVICE if medium is None else _TIERS.get(_upper(medium), Tier.REMOTE)


def _upper(name: Any) -> str:
    """In upper case where it is ASCII; other letters may become ASCII ones, which would be another name."""
    return name.upper() if isinstance(name, str) and name.isascii() else ""
