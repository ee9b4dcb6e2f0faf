"""Predicted against reported: how true the router's picture of each cache is, and what to do when it is not.

Each answer that reports its cached tokens is compared with what was predicted at dispatch. Two windows are kept of each
lane: of all such answers, for metrics, and of those whose error nothing but a wrong picture explains, to find drift.
Left out of the second are requests that were predicted while other prompts were still to be computed there, where what
is cached at admission depends on the order of work, and what was said before the last resync.

A lane drifts where more than half of its latest judged answers (20 at least) were wrong by more than one block. It is
then learned anew, not more than once a minute, and half as often each time that this did not help.

Missing figures mean unknown: they are in no window.
"""

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.openai_api import Match
from warmroute.router import Decision, Outcome, Refusal, RouteRequest
from warmroute.worker import Lane, LaneKey, Worker

_log = logging.getLogger(__name__)

WINDOW = 200
ENOUGH_ANSWERS = 20
DRIFTING_SHARE = 0.5
# Below it a lane is sound again, and a later drift is a new one.
_SOUND_SHARE = 0.1
FIRST_BACKOFF_S = 60.0
LONGEST_BACKOFF_S = 3_600.0


class Resync(Protocol):
    """Learns a lane's blocks anew."""

    def __call__(self, worker: Worker, lane: Lane, reason: str) -> None:
        """`reason` is for a person."""


class _Sample(NamedTuple):
    """One answer. `error` is predicted less reported tokens, `is_wrong` if by more than a block; `other_length`: the
    engine counted another prompt."""

    error: int
    is_wrong: bool
    other_length: bool


@dataclass(slots=True)
class _Window:
    """The latest samples with their sums."""

    samples: deque[_Sample] = field(default_factory=deque)
    exact: int = 0
    over: int = 0
    under: int = 0
    wrong: int = 0
    other_length: int = 0
    error: int = 0

    def __len__(self) -> int:
        return len(self.samples)

    def add(self, sample: _Sample) -> None:
        """Take a sample in and let the oldest go."""
        self.samples.append(sample)
        self._count(sample, 1)
        if len(self.samples) > WINDOW:
            self._count(self.samples.popleft(), -1)

    def _count(self, sample: _Sample, by: int) -> None:
        if sample.other_length:
            self.other_length += by
        if sample.error == 0:
            self.exact += by
            return
        self.error += by * sample.error
        if sample.is_wrong:
            self.wrong += by
            self.over += by * (sample.error > 0)
            self.under += by * (sample.error < 0)


@dataclass(slots=True)
class _LaneAudit:
    """What is known of one lane's predictions. `hit_once`: a prediction of cached tokens has come true before."""

    worker: Worker
    lane: Lane
    answers: _Window = field(default_factory=_Window)
    judged: _Window = field(default_factory=_Window)
    hit_once: bool = False
    resyncs: int = 0
    resynced_at: float = float("-inf")
    backoff_s: float = 0.0

    @property
    def is_gone(self) -> bool:
        return self.worker.removed or self.lane not in self.worker.lanes

    @property
    def labels(self) -> list[str]:
        return [self.worker.id, "" if self.lane.rank is None else str(self.lane.rank)]

    def is_drifting(self, now: float) -> bool:
        """Whether the lane should be learned anew now."""
        answers = len(self.judged)
        if answers < ENOUGH_ANSWERS or now < self.resynced_at + self.backoff_s:
            return False
        if self.judged.wrong < _SOUND_SHARE * answers:
            self.backoff_s = 0.0
        return self.judged.wrong > DRIFTING_SHARE * answers

    def begin_anew(self, now: float) -> None:
        """The lane is being learned anew: what was judged so far speaks of the old picture."""
        self.resyncs += 1
        self.resynced_at = now
        self.backoff_s = min(max(2.0 * self.backoff_s, FIRST_BACKOFF_S), LONGEST_BACKOFF_S)
        self.judged = _Window()


class Audit(Collector):
    """Observer of the router and collector of metrics; calls `resync` for lanes that drift."""

    def __init__(self, resync: Resync) -> None:
        self._resync = resync
        self._lanes: dict[LaneKey, _LaneAudit] = {}
        self._mute: dict[Worker, int] = {}  # answers without a figure; -1 once there was one

    def decided(self, decision: Decision) -> None:
        """Nothing is known yet."""

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        """Nothing was predicted."""

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        """Compare an answer's report with its prediction."""
        told = decision.request.match is Match.EXACT
        if decision.worker.removed or not outcome.completed or outcome.refused or not told:
            return
        if outcome.cached_tokens is None:
            self._note_mute(decision, outcome)
            return
        self._mute[decision.worker] = -1
        audit = self._lanes.get(decision.lane.key)
        if audit is None:
            audit = self._lanes[decision.lane.key] = _LaneAudit(decision.worker, decision.lane)
        error = decision.cached_tokens - outcome.cached_tokens
        other_length = outcome.prompt_tokens not in (None, decision.request.prompt_tokens)
        sample = _Sample(error, abs(error) > decision.foundation.block_size, other_length)
        audit.answers.add(sample)
        if _tells_of_drift(decision) and decision.decided_at >= audit.resynced_at:
            audit.hit_once = audit.hit_once or (sample.error == 0 and outcome.cached_tokens > 0)
            audit.judged.add(sample)
            self._judge(audit, outcome.ended_at)

    def collect(self) -> Iterator[Metric]:
        """Exactness and drift of each lane, and how often it was learned anew; of lanes that are there."""
        self._lanes = {key: audit for key, audit in self._lanes.items() if not audit.is_gone}
        self._mute = {worker: answers for worker, answers in self._mute.items() if not worker.removed}
        labels = ["worker", "rank"]
        exact = GaugeMetricFamily(
            "warmroute_audit_exact_ratio",
            f"Share of the last {WINDOW} reported answers whose cached tokens were predicted exactly.",
            labels=labels,
        )
        drift = GaugeMetricFamily(
            "warmroute_audit_drift_tokens",
            f"Mean of predicted less reported cached tokens over the last {WINDOW} reported answers.",
            labels=labels,
        )
        resyncs = CounterMetricFamily(
            "warmroute_audit_resyncs", "Times that a lane was learned anew because of drift.", labels=labels
        )
        for audit in self._lanes.values():
            answers = len(audit.answers)
            exact.add_metric(audit.labels, audit.answers.exact / answers)
            drift.add_metric(audit.labels, audit.answers.error / answers)
            resyncs.add_metric(audit.labels, audit.resyncs)
        yield from (exact, drift, resyncs)

    def _judge(self, audit: _LaneAudit, now: float) -> None:
        if not audit.is_drifting(now) or audit.is_gone:
            return
        judged, cause = audit.judged, likely_cause(audit)
        _log.warning(
            "worker %s%s: cached tokens were predicted wrongly for %d of its last %d answers; %s. It is learned anew",
            audit.worker.shown,
            "" if audit.lane.rank is None else f" rank {audit.lane.rank}",
            judged.wrong,
            len(judged),
            cause,
        )
        audit.begin_anew(now)
        self._resync(audit.worker, audit.lane, cause)

    def _note_mute(self, decision: Decision, outcome: Outcome) -> None:
        """Tell once of a worker that gives usage without cached tokens, though there must have been some."""
        if outcome.prompt_tokens is None or decision.cached_tokens == 0:
            return
        answers = self._mute.get(decision.worker, 0)
        if answers < 0:
            return
        self._mute[decision.worker] = answers + 1
        if answers + 1 == ENOUGH_ANSWERS:
            _log.warning(
                "worker %s has never reported cached tokens, so predictions cannot be checked against it; start vLLM "
                "with --enable-prompt-tokens-details, SGLang with --enable-cache-report. If it was, none came true",
                decision.worker.shown,
            )


def likely_cause(audit: _LaneAudit) -> str:
    """What most likely makes the predictions of a drifting lane wrong, for a person."""
    judged = audit.judged
    if judged.other_length > len(judged) / 2:
        return "the engine counts other prompt tokens than the router, so tokenizer or chat template differ"
    if not audit.hit_once:
        return "none was ever right, so tokenizer, chat template or block size differ from the engine's"
    if judged.under == 0:
        return "it held less than predicted, so removed blocks were lost or a restart went unseen"
    if judged.over == 0:
        return "it held more than predicted, so stored blocks were lost, or keyed by a salt or adapter unknown here"
    return "it held now more, now less than predicted, so KV events were lost or come late"


def _tells_of_drift(decision: Decision) -> bool:
    """Whether the prediction rested on what the lane surely held, not on prompts that were still to be computed."""
    if decision.request.prompt_tokens != len(decision.request.token_ids or ()):
        return False
    foundation = decision.foundation
    return foundation.settled or (foundation.followed and decision.candidates[decision.position].overlap.predicted == 0)
