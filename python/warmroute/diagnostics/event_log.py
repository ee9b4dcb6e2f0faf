"""Log lines for what an operator should know of a worker's KV events: losses and restarts, in words, once each."""

import logging
from collections.abc import Sequence

from warmroute.kv_event import ApplyReport, Gap, Unobserved

_log = logging.getLogger(__name__)


class EventLog(Unobserved):
    """The observer of one lane's event stream that writes to the log. It is told on the lane's thread and counts only
    what it alone looks at.

    `worker` names the worker, and the rank where it has several, for a person.
    """

    def __init__(self, worker: str) -> None:
        self._worker_id = worker
        self._undecodable = 0
        self._rejected = False

    def batches_applied(self, worker: int, seqs: Sequence[int], report: ApplyReport) -> None:
        """The first event that was left out is told, the rest are counted in the metrics."""
        if report.rejected and not self._rejected:
            self._rejected = True
            _log.warning(
                "worker %s: a KV event is left out (%s); others like it are counted only",
                self._worker_id,
                "; ".join(report.rejections),
            )

    def connection_changed(self, worker: int, connected: bool) -> None:
        """Coming and going are normal at a restart; the view is kept meanwhile."""
        _log.info("worker %s: KV events %s", self._worker_id, "connected" if connected else "disconnected")

    def gap_found(self, worker: int, gap: Gap, filled: bool) -> None:
        """A loss that no replay made good leaves blocks unknown, and removed ones believed."""
        if filled:
            _log.info("worker %s: missed KV events %d to %d, replayed", self._worker_id, gap.first, gap.last)
            return
        _log.warning(
            "worker %s: KV events %d to %d are lost; some of its prefixes are not known until it clears its cache. "
            "A replay_endpoint in the engine's kv-events-config, or a longer buffer_steps, prevents this",
            self._worker_id,
            gap.first,
            gap.last,
        )

    def engine_restarted(self, worker: int) -> None:
        """Another process has an empty cache."""
        _log.info("worker %s: the engine was restarted; its prefixes are forgotten", self._worker_id)

    def saved_view_dropped(self, worker: int, reason: str) -> None:
        """An engine that was restarted while the router was down."""
        _log.info("worker %s: what was saved of its prefixes is not used: %s", self._worker_id, reason)

    def frame_undecodable(self, worker: int, reason: str) -> None:
        """The first of these is told, the rest are counted in the metrics: an upgraded engine sends thousands."""
        self._undecodable += 1
        if self._undecodable == 1:
            _log.error(
                "worker %s: a KV-event message cannot be read (%s); its prefixes are not followed. "
                "Was the engine upgraded?",
                self._worker_id,
                reason,
            )
