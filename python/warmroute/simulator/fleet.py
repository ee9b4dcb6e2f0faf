"""The workers of a simulation, as the router sees them: what a prober would tell it, when it would."""

import random

from warmroute.engine_model import EngineOptions
from warmroute.router import Router
from warmroute.simulator.agenda import Agenda
from warmroute.simulator.event_stream import EventStream
from warmroute.simulator.ledger import Gauges
from warmroute.simulator.pod import Answered, Pod
from warmroute.simulator.workload import EventPath
from warmroute.worker import LoadReport, WorkerFacts, WorkerId, WorkerSpec, WorkerStatus

MODEL = "model"


class Fleet:
    """All pods, in the order in which they joined."""

    def __init__(
        self,
        router: Router,
        agenda: Agenda,
        gauges: Gauges,
        event_path: EventPath | None,
        seed: str,
        answered: Answered,
    ) -> None:
        """`event_path`: None where the router does not listen to KV events."""
        self.pods: list[Pod] = []
        self._router, self._agenda, self._gauges = router, agenda, gauges
        self._event_path, self._answered = event_path, answered
        self._rng = random.Random(f"{seed}/events")
        self._of: dict[WorkerId, Pod] = {}

    def add(self, options: EngineOptions) -> Pod:
        """One more worker, ready at once."""
        position = len(self.pods)
        worker = self._router.add_worker(WorkerSpec(f"http://worker-{position}:8000", name=f"worker-{position}"))
        facts = WorkerFacts({MODEL: False}, options.block_size, options.num_blocks, options.context_tokens, "vllm")
        self._router.learn(worker, facts)
        stream = None
        if self._event_path is not None:
            stream = EventStream(self._router.index, worker.lanes[0].key, self._event_path, self._rng)
            self._router.expect_events(worker.lanes[0], True)
        pod = Pod(worker, position, options, stream, self._agenda, self._answered)
        self.pods.append(pod)
        self._of[worker.id] = pod
        self._gauges.add_worker()
        self._router.table.set_status(worker, WorkerStatus.READY, came_up_at=self._agenda.now)
        return pod

    def of(self, worker: WorkerId) -> Pod:
        """The pod behind a worker."""
        return self._of[worker]

    def tell(self) -> None:
        """Bring the router's picture of all caches to what it can be now."""
        for pod in self.pods:
            pod.tell(self._agenda.now)

    def look(self, pod: Pod) -> None:
        """What a prober's look at one worker tells the router."""
        table, worker, now = self._router.table, pod.worker, self._agenda.now
        if not pod.is_alive:
            table.set_status(worker, WorkerStatus.DOWN, "it refuses connections")
            return
        if table.set_status(worker, WorkerStatus.READY, came_up_at=now):
            self._router.came_up(worker)
        state = pod.state()
        requests = state.running + state.waiting
        table.take_report(worker, LoadReport(requests, state.kv_usage, now, waiting=state.waiting), worker.requests)

    def sample(self, stage: int, held: int) -> None:
        """Write the gauges down."""
        self._gauges.at.append(self._agenda.now)
        self._gauges.stage.append(stage)
        self._gauges.held.append(held)
        for pod in self.pods:
            state = pod.state()
            self._gauges.sample(pod.position, state.running, state.waiting, state.kv_usage)
