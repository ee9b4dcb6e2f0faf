"""One worker of a simulated fleet: its engine, and the way of its KV events to the router."""

from collections.abc import Callable

from warmroute.engine_model import Admission, EngineModel, EngineOptions, EngineState, Output, Request, Step
from warmroute.simulator.agenda import Agenda
from warmroute.simulator.event_stream import EventStream
from warmroute.simulator.flight import Flight
from warmroute.worker import Worker

# Tokens that an engine may decode as one step: none has longer answers.
_MOST_ITERATIONS = 1_000_000

Answered = Callable[["Pod", Flight, Output], None]


class Pod:
    """An engine that is moved on by the agenda. `answered` is told of an answer's first and last tokens.

    `stream` is None where the router does not hear the engine's events.
    """

    def __init__(
        self,
        worker: Worker,
        position: int,
        options: EngineOptions,
        stream: EventStream | None,
        agenda: Agenda,
        answered: Answered,
    ) -> None:
        self.worker, self.position, self.options = worker, position, options
        self.flights: dict[str, Flight] = {}
        self.is_alive = True
        self._stream, self._agenda, self._answered = stream, agenda, answered
        self._processes = 1
        self._engine = self._new_engine()
        self._step: Step | None = None

    def fits(self, flight: Flight) -> bool:
        """Whether the engine takes a request of that length."""
        return self._engine.fits(flight.request.prompt_tokens, len(flight.answer))

    def submit(self, flight: Flight) -> None:
        """Hand the engine a request."""
        request, step = flight.request, self._step
        assert request.token_ids is not None
        iterations = step.iterations if step else 0
        self.flights[request.request_id] = flight
        self._engine.submit(Request(request.request_id, request.token_ids, flight.answer), self._agenda.now)
        if step is None:
            self._go_on()
        elif step.iterations != iterations:  # it ends earlier now, so that the newcomer can be admitted
            self._agenda.at(step.ends_at, self._end, step, step.iterations)

    def tell(self, now: float) -> None:
        """Let the router hear what happened to the cache early enough to have come by now."""
        if self._stream is None:
            return
        happened_by = now - self._stream.delay_s
        if self._step is not None and happened_by > self._step.started_at:
            self._stream.publish(self._engine.changes_until(self._step, happened_by), now)
        self._stream.take(now)

    def state(self) -> EngineState:
        """What the engine's metrics show now."""
        return self._engine.state(self._agenda.now)

    def die(self) -> list[Flight]:
        """The process ends with all that it has in work, which is given back."""
        broken_off = list(self.flights.values())
        self.flights.clear()
        self.is_alive, self._step = False, None
        self._processes += 1
        self._engine = self._new_engine()
        return broken_off

    def come_back(self) -> None:
        """A new process takes over, with an empty cache; the router connects to its events at once."""
        self.is_alive = True
        if self._stream is not None:
            self._stream.begin_anew()

    def check_integrity(self) -> None:
        """Assert that the engine is whole and idle."""
        self._engine.check_integrity()
        state = self._engine.state()
        assert not self.flights, "a request has not ended"
        assert state.running == state.waiting == 0, "the engine has something in work"

    def _new_engine(self) -> EngineModel:
        # Each process has a hash root of its own.
        return EngineModel(self.options, seed=1 + self.position + 1_000_000 * self._processes)

    def _go_on(self) -> None:
        """Start the next step, now or when somebody can be scheduled."""
        now = self._agenda.now
        wake_at = self._engine.wake_at(now)
        if wake_at is None:
            return
        if wake_at > now:
            self._agenda.at(wake_at, self._wake, self._engine)
            return
        self._step = step = self._engine.step(now, _MOST_ITERATIONS)
        if step is None:  # all that is there is on its way from a slower tier
            self._go_on()
            return
        for admission in step.admitted:
            self._note_admission(admission)
        self._agenda.at(step.ends_at, self._end, step, step.iterations)

    def _note_admission(self, admission: Admission) -> None:
        self.flights[admission.request_id].cached = admission.cached_tokens

    def _wake(self, engine: EngineModel) -> None:
        if engine is self._engine and self.is_alive and self._step is None:
            self._go_on()

    def _end(self, step: Step, iterations: int) -> None:
        """The end of a step, unless it was cut, or lost with its process, since that was planned."""
        if step is not self._step or step.iterations != iterations:
            return
        now = self._agenda.now
        self.tell(now)
        self._step = None
        result = self._engine.complete(step, every_token=False)
        if self._stream is not None:
            due_at = self._stream.publish(result.changes, now + self._stream.delay_s)
            if due_at is not None:
                self._agenda.at(due_at, self._hear)
        for output in result.outputs:
            flight = self.flights[output.request_id]
            if output.finished:
                del self.flights[output.request_id]
            self._answered(self, flight, output)
        if self._step is None and self.is_alive:
            self._go_on()

    def _hear(self) -> None:
        assert self._stream is not None
        look_again_at = self._stream.take(self._agenda.now)
        if look_again_at is not None:
            self._agenda.at(look_again_at, self._hear)
