"""The parts of a router that a new configuration concerns: its workers, and the options that may change."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from warmroute.gateway.configuration import Configuration
from warmroute.gateway.failover import apply_failover
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.origin import Origin
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.reload import Apply
from warmroute.gateway.state_keeper import StateKeeper
from warmroute.policy import policy_named
from warmroute.router import Router
from warmroute.worker import WorkerId, WorkerSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workers:
    """Workers come, go and change as the configuration does; those that were added by POST stay.

    What is the same in both configurations is left alone, so a worker that somebody removed does not come back by the
    reload of something else.
    """

    fleet: Fleet
    removed: Callable[[WorkerId], None]

    def prepare(self, old: Configuration, new: Configuration) -> Apply:
        """See `warmroute.gateway.reload.Prepare`."""
        before = {spec.id: spec for spec in old.specs}
        after = {spec.id: spec for spec in new.specs}
        gone = [worker_id for worker_id in before if worker_id not in after]
        told = [spec for worker_id, spec in after.items() if before.get(worker_id) != spec]

        async def apply() -> None:
            for worker_id in gone:
                await self._let_go(worker_id)
            for spec in told:
                await self._take_in(spec)

        return apply

    async def _let_go(self, worker_id: WorkerId) -> None:
        if await self.fleet.remove(worker_id):
            self.removed(worker_id)
            _log.info("worker %s is no longer configured", worker_id)

    async def _take_in(self, spec: WorkerSpec) -> None:
        member = self.fleet.member(spec.id)
        if member is not None and member.worker.spec == spec:
            member.origin = Origin.CONFIGURED
            return
        if member is not None:
            _log.info("worker %s is configured otherwise; it is asked anew", spec.id)
            await self.fleet.remove(spec.id)
        again = self.fleet.add(spec)
        if member is not None and member.worker.draining:
            self.fleet.set_draining(again, True)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that hold from the next request, look or save on."""

    router: Router
    proxy: Proxy
    fleet: Fleet
    keeper: StateKeeper

    def prepare(self, old: Configuration, new: Configuration) -> Apply:
        """See `warmroute.gateway.reload.Prepare`."""
        config = new.serve
        policy = None if old.serve.policy == config.policy else policy_named(config.policy)

        async def apply() -> None:
            if policy is not None:
                self.router.policy, self.router.policy_failures = policy, 0
            self.proxy.max_attempts = config.max_attempts
            apply_failover(new.failover, self.router, self.proxy)
            self.fleet.look_every(config.probe_interval_s)
            self.fleet.block_size = config.block_size
            self.keeper.interval_s = config.state_interval_s
            logging.getLogger().setLevel(config.log_level.upper())

        return apply
