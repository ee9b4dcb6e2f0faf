"""Log lines for what an operator should know of a worker's KV events: losses and restarts, in words, once each."""

import logging

from warmroute.kv_event import Gap, Unobserved

_log = logging.getLogger(__name__)


class EventLog(Unobserved):
    """The observer of one worker's event stream that writes to the log."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._undecodable = 0

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
