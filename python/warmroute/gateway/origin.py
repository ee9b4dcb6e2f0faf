"""Who has brought a worker in, and so who may take it out again."""

from enum import StrEnum


class Origin(StrEnum):
    """Of one worker of the fleet."""

    CONFIGURED = "configured"
    """The configuration names it."""
    ADDED = "added"
    """Somebody has added it while the router ran; it is kept over reloads and restarts."""
