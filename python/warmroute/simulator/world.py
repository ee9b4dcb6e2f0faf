"""One simulation: the production router, modelled engines, and a clock that jumps from one happening to the next."""

from collections.abc import Callable, Iterable

from warmroute.admission import FailoverOptions
from warmroute.engine_model import EngineOptions
from warmroute.errors import WarmrouteError
from warmroute.policy import Policy
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Router, RouteRequest, RouterObserver
from warmroute.simulator.agenda import Agenda
from warmroute.simulator.arm import Arm
from warmroute.simulator.fleet import MODEL, Fleet
from warmroute.simulator.flight import Flight, SessionRun
from warmroute.simulator.front import Front
from warmroute.simulator.ledger import Ledger
from warmroute.simulator.workload import FleetPlan, Happening, Session, Stage, WorkerAdded
from warmroute.worker import WorkerTable

SAMPLE_INTERVAL_S = 1.0
_TOLD_EVERY = 100

Told = Callable[[str, int, int], None]
"""Hears of progress: the stage's name, how many of its requests have been sent, of how many."""


class PolicyFailed(WarmrouteError):
    """A policy raised an error. The router goes on without it; a result under its name would be a lie."""


class World:
    """A router and a fleet. One stage after the other is put on with `play`; what happened is in `ledger`."""

    def __init__(self, arm: Arm, policy: Policy, plan: FleetPlan, workers: int, seed: int) -> None:
        self.ledger = Ledger()
        self._agenda = Agenda()
        failover = FailoverOptions()
        slow_start_s = failover.slow_start_s if arm.holds_back else 0.0
        table = WorkerTable(slow_start_s=slow_start_s, limits=arm.holds_back)
        observers = [policy] if isinstance(policy, RouterObserver) else []
        self.router = Router(table, PrefixIndex(), policy, observers=observers)
        own_seed = f"{seed}/{arm.name}"
        self._front = Front(
            self.router, self._agenda, self.ledger.requests, failover, arm.holds_back, own_seed, self._ended
        )
        path = plan.event_path if arm.hears_events else None
        self._front.fleet = self.fleet = Fleet(
            self.router, self._agenda, self.ledger.gauges, path, own_seed, self._front.answered
        )
        self._scrape_interval_s = arm.scrape_interval_s
        self._open_sessions = self._stage = self._sequence = 0
        for position in range(workers):
            self._join(plan.engine(position))
        for happening in plan.happenings:
            self._agenda.at(happening.at_s, self._happen, happening)
        self._agenda.at(SAMPLE_INTERVAL_S, self._sample)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._agenda.now

    def play(self, stages: Iterable[Stage], told: Told | None = None) -> None:
        """Put on all stages, to the end of their last request. `told` hears of progress."""
        for number, stage in enumerate(stages):
            self._stage = number
            self.ledger.stage_names.append(stage.name)
            self._begin(stage)
            total, before, last_told = _turns(stage), len(self.ledger.requests), 0
            while self._open_sessions:
                self._agenda.advance()
                if self.router.policy_failures:
                    raise PolicyFailed("the policy raised an error")
                ended = len(self.ledger.requests) - before
                if told is not None and ended - last_told >= _TOLD_EVERY:
                    last_told = ended
                    told(stage.name, ended, total)
            if told is not None:
                told(stage.name, total, total)
            self._pause(stage.pause_s)

    def check_integrity(self) -> None:
        """Assert that no load is left booked, and that every engine is whole and idle."""
        self.router.table.check_integrity()
        assert [worker.requests for worker in self.router.table] == [0] * len(self.router.table)
        for pod in self.fleet.pods:
            pod.check_integrity()

    def _begin(self, stage: Stage) -> None:
        start = self._agenda.now
        for session in stage.sessions:
            self._open_sessions += 1
            self._agenda.at(start + session.start_s, self._start, session)

    def _pause(self, seconds: float) -> None:
        until, over = self._agenda.now + seconds, list[bool]()
        self._agenda.at(until, over.append, True)
        while not over:
            self._agenda.advance()

    def _start(self, session: Session) -> None:
        self._send_followers(SessionRun(session), None)

    def _send_followers(self, run: SessionRun, position: int | None) -> None:
        for follower in run.followers(position):
            self._agenda.at(self._agenda.now + run.session.turns[follower].wait_s, self._send, run, follower)

    def _send(self, run: SessionRun, position: int) -> None:
        turn = run.session.turns[position]
        prompt = turn.prompt.ids()
        self._sequence += 1
        request = RouteRequest(
            f"r{self._sequence}",
            MODEL,
            prompt,
            len(prompt),
            stream=True,
            max_tokens=turn.max_tokens,
            session=run.session.name,
        )
        row = self.ledger.requests.begin(self._stage, self._agenda.now, len(prompt))
        self._front.arrive(Flight(run, position, row, request, turn.answer.ids()))

    def _ended(self, flight: Flight) -> None:
        flight.run.open_turns -= 1
        if flight.run.open_turns == 0:
            self._open_sessions -= 1
        self._send_followers(flight.run, flight.position)

    def _join(self, engine: EngineOptions) -> None:
        pod = self.fleet.add(engine)
        self._agenda.at(self._agenda.now + self._scrape_interval_s, self._scrape, pod.position)

    def _scrape(self, position: int) -> None:
        pod = self.fleet.pods[position]
        pod.tell(self._agenda.now)
        self.fleet.look(pod)
        self._agenda.at(self._agenda.now + self._scrape_interval_s, self._scrape, position)

    def _sample(self) -> None:
        # What comes again and again is one sample, and one scrape for each worker.
        assert not self._open_sessions or len(self._agenda) > len(self.fleet.pods), "a request got lost"
        self.fleet.sample(self._stage, self._front.held)
        self._agenda.at(self._agenda.now + SAMPLE_INTERVAL_S, self._sample)

    def _happen(self, happening: Happening) -> None:
        if isinstance(happening, WorkerAdded):
            self._join(happening.engine)
            return
        if happening.worker >= len(self.fleet.pods) or not self.fleet.pods[happening.worker].is_alive:
            return  # the fleet was made smaller, or it is dead already
        pod = self.fleet.pods[happening.worker]
        self.fleet.tell()
        for flight in pod.die():
            self._front.broke_off(pod, flight)
        if happening.for_s is not None:
            self._agenda.at(self._agenda.now + happening.for_s, pod.come_back)


def _turns(stage: Stage) -> int:
    return sum(len(session.turns) for session in stage.sessions)
