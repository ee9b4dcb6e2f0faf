"""Which request of a session goes on from which: what then lies between their prompts is the answer, as it was kept.

A log seldom holds answers as tokens, and its anonymized form never. But the next turn of a conversation repeats the
answer before it, and an engine that still has that finds it. Only requests that the log puts into one session are
taken so: of others that begin alike nothing says that the one follows from the other.
"""

from collections.abc import Sequence

from warmroute.request_log.blocks import BlockedRequest

# Turns of one session that may still be gone on from: sub-agents and retries make branches, but few.
_MOST_OPEN = 64


def successors(requests: Sequence[BlockedRequest]) -> list[int | None]:
    """For each request, in the order of their times, the position of the one that goes on from it; None for none.

    It is the first later one of the session that is longer and begins with all full blocks of the request.
    """
    found: list[int | None] = [None] * len(requests)
    open_turns: dict[str, list[int]] = {}
    for position, request in enumerate(requests):
        if request.session is None:
            continue
        turns = open_turns.setdefault(request.session, [])
        before = next((turn for turn in reversed(turns) if _goes_on(request, requests[turn])), None)
        if before is not None:
            found[before] = position
            turns.remove(before)
        turns.append(position)
        del turns[:-_MOST_OPEN]
    return found


def _goes_on(request: BlockedRequest, before: BlockedRequest) -> bool:
    """A block's hash covers all before it, so the last of the full ones speaks for them all."""
    last = before.full_blocks - 1
    if last < 0 or request.full_blocks <= last or request.prompt_tokens <= before.prompt_tokens:
        return False
    return request.blocks[last] == before.blocks[last]
