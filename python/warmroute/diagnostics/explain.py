"""A decision in words and numbers: what each worker would have cost, the terms of that cost, what would change it."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from warmroute.block import Overlap
from warmroute.diagnostics.counterfactual import Change, counterfactual, runner_up
from warmroute.openai_api import Match
from warmroute.router import Decision, Refusal, WorkerCost
from warmroute.worker import Lane

# Policies that do not look at prefixes.
_BLIND = {
    "round-robin": "it was this worker's turn",
    "random": "it was chosen at random",
    "least-loaded": "it had the fewest requests in flight",
}


class View(StrEnum):
    """What the router's picture of a lane's cache rests on, and so what a miss there may mean."""

    WHOLE = "whole"
    """Every KV event was heard: a miss is a miss."""
    PARTIAL = "partial"
    """Some were lost: a miss may be a hit."""
    GUESSED = "guessed"
    """The engine tells none: what it was sent is all that is known."""


def explain(verdict: Decision | Refusal, view_of: Callable[[Lane], View | None] = lambda _: None) -> dict[str, Any]:
    """A decision or refusal as a JSON object; workers are listed from the cheapest to the dearest, the winner first.

    `view_of`: what is known of a lane's cache, or None where nothing speaks against what the router goes by.
    """
    if isinstance(verdict, Refusal):
        return {"refused": verdict.reason.value, "detail": verdict.detail}
    lines = sorted(verdict.considered, key=lambda line: (line.cost.total, line.lane is not verdict.lane))
    reason = because(verdict)
    if view_of(verdict.lane) is View.PARTIAL:
        reason += "; KV events of this worker were lost, so it may hold more"
    return {
        "worker": verdict.worker.id,
        "rank": verdict.lane.rank,
        "policy": verdict.policy,
        "unit": verdict.unit,
        "model": verdict.request.model,
        "prompt_tokens": verdict.request.prompt_tokens,
        "cached_tokens": verdict.cached_tokens,
        "match": verdict.request.match,
        "reason": verdict.request.untold,
        "because": reason,
        "runner_up": _runner_up(verdict),
        "eligible": verdict.eligible,
        "workers": [_line(line, view_of(line.lane)) for line in lines],
    }


def because(decision: Decision) -> str:
    """One sentence that says why the chosen worker won."""
    if decision.policy in _BLIND:
        return _BLIND[decision.policy]
    request, considered = decision.request, decision.considered
    if any(line.session_tokens for line in considered):
        reason = _of_session(decision)
    elif request.match is Match.NONE:
        return "the prompt's tokens are not known, so load alone decided"
    else:
        reason = _of_tokens(decision, max(line.cached_tokens for line in considered))
    if request.match is Match.TEXT_PREFIX and request.token_ids is not None:
        reason += f"; only the first {len(request.token_ids)} tokens could be told"
    return reason


def _of_session(decision: Decision) -> str:
    if decision.chosen.session_tokens:
        return f"it answered this session last, so {decision.chosen.cached_tokens} tokens should be there"
    return "the worker that answered this session last costs more because of its load"


def _of_tokens(decision: Decision, most: int) -> str:
    held = f"it holds {decision.chosen.cached_tokens} of {decision.request.prompt_tokens} prompt tokens"
    if most == 0:
        return "no worker holds any of the prompt; this one was the cheapest for a full prefill"
    if decision.chosen.cached_tokens == most:
        return f"{held}, as much as any worker"
    return f"{held}; a worker that holds {most} costs more because of its load"


def _runner_up(decision: Decision) -> dict[str, Any] | None:
    """The cheapest of the others, how its terms differ from the winner's, and what would have had it win."""
    position = runner_up(decision)
    if position is None:
        return None
    line, winner = decision.considered[position], decision.chosen
    names = dict.fromkeys((*winner.cost.terms, *line.cost.terms))
    found = counterfactual(decision, position)
    return {
        "worker": line.worker,
        "rank": line.lane.rank,
        "gap": _finite(line.cost.total - winner.cost.total),
        "terms": _all_finite({name: line.cost.terms.get(name, 0) - winner.cost.terms.get(name, 0) for name in names}),
        "changes": [_change(decision, change) for change in found.changes],
        "wins_if_idle": found.wins_if_idle,
        "unchangeable": found.unchangeable,
    }


def _change(decision: Decision, change: Change) -> dict[str, Any]:
    candidate = decision.candidates[change.position]
    return {
        "worker": candidate.worker.id,
        "rank": candidate.lane.rank,
        "figure": change.figure,
        "now": change.now,
        "needed": change.needed,
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity, by which a policy may rule out a worker."""
    return value if math.isfinite(value) else None


def _all_finite(terms: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in terms.items()}


def _line(line: WorkerCost, view: View | None) -> dict[str, Any]:
    return {
        "worker": line.worker,
        "rank": line.lane.rank,
        "cost": _finite(line.cost.total),
        "terms": _all_finite(line.cost.terms),
        "overlap": overlap_blocks(line.overlap),
        "cached_tokens": line.cached_tokens,
        "session_tokens": line.session_tokens,
        "view": view or (View.WHOLE if line.followed else View.GUESSED),
        "requests": line.requests,
        "queued_tokens": line.queued_tokens,
    }


def overlap_blocks(overlap: Overlap) -> dict[str, int]:
    """Leading blocks of the prompt by where they are held, and their sum."""
    return {
        "blocks": overlap.blocks,
        "device": overlap.device,
        "host": overlap.host,
        "disk": overlap.disk,
        "remote": overlap.remote,
        "predicted": overlap.predicted,
    }
