"""Predictions are compared with what engines report; a lane that drifts is learned anew, and the cause is named."""

import pytest

from router.fleet import BLOCK_SIZE, Fleet, blocks
from warmroute.diagnostics.audit import ENOUGH_ANSWERS, WINDOW, Audit
from warmroute.diagnostics.metrics import RouterMetrics
from warmroute.router import Outcome
from warmroute.worker import Lane, Worker

_HELD = 8 * BLOCK_SIZE


class Audited:
    """A worker that holds eight blocks of the prompt that is asked again and again, as far as its events say."""

    def __init__(self, ranks: int = 1) -> None:
        self.fleet = Fleet("A")
        if ranks > 1:
            self.fleet.set_ranks("A", ranks)
        self.resyncs: list[tuple[Worker, Lane, str]] = []
        self.audit = Audit(lambda worker, lane, reason: self.resyncs.append((worker, lane, reason)))
        self.fleet.router.observe(self.audit)
        self.metrics = RouterMetrics()
        self.metrics.registry.register(self.audit)
        self.prompt = list(range(_HELD))
        self.fleet.holds("A", self.prompt)
        self.now = 0.0
        self._fresh = 1_000_000

    def answer(
        self, cached_tokens: int | None, times: int = 1, counted: int | None = None, every_s: float = 0.1
    ) -> None:
        """The prompt with an end of its own, one request after the other, `every_s` seconds apart."""
        for _ in range(times):
            self.now += every_s
            self._fresh += 1
            prompt = [*self.prompt, self._fresh]
            decision = self.fleet.route(self.fleet.request(prompt), now=self.now)
            ended = Outcome(True, False, self.now, self.now, 200, counted or len(prompt), 5, cached_tokens)
            self.fleet.router.settle(decision, ended)

    def figure(self, name: str, rank: str = "") -> float | None:
        self.metrics.expose()
        return self.metrics.registry.get_sample_value(name, {"worker": "http://A:1", "rank": rank})

    @property
    def reasons(self) -> list[str]:
        return [reason for _, _, reason in self.resyncs]


def test_exact_predictions_are_exact_and_cause_nothing(caplog: pytest.LogCaptureFixture) -> None:
    audited = Audited()
    audited.answer(_HELD, 3 * ENOUGH_ANSWERS)
    assert audited.figure("warmroute_audit_exact_ratio") == 1.0
    assert audited.figure("warmroute_audit_drift_tokens") == 0.0
    assert audited.figure("warmroute_audit_resyncs_total") == 0.0
    assert audited.resyncs == []
    assert not caplog.records


def test_the_window_forgets() -> None:
    audited = Audited()
    audited.answer(_HELD - BLOCK_SIZE, WINDOW // 4)
    audited.answer(_HELD, 3 * WINDOW // 4)
    assert audited.figure("warmroute_audit_exact_ratio") == 0.75
    assert audited.figure("warmroute_audit_drift_tokens") == BLOCK_SIZE / 4
    audited.answer(_HELD, WINDOW // 4)
    assert audited.figure("warmroute_audit_exact_ratio") == 1.0
    assert audited.figure("warmroute_audit_drift_tokens") == 0.0


def test_missing_figures_are_unknown_and_in_no_ratio() -> None:
    audited = Audited()
    audited.answer(None, ENOUGH_ANSWERS)
    assert audited.figure("warmroute_audit_exact_ratio") is None
    audited.answer(_HELD)
    audited.answer(None, ENOUGH_ANSWERS)
    assert audited.figure("warmroute_audit_exact_ratio") == 1.0


def test_a_report_of_nothing_is_not_unknown() -> None:
    audited = Audited()
    audited.answer(0)
    assert audited.figure("warmroute_audit_exact_ratio") == 0.0
    assert audited.figure("warmroute_audit_drift_tokens") == _HELD


class TestDrift:
    def test_a_lane_that_holds_less_than_believed_is_learned_anew(self, caplog: pytest.LogCaptureFixture) -> None:
        audited = Audited(ranks=2)
        audited.answer(_HELD, 2)
        audited.answer(2 * BLOCK_SIZE, ENOUGH_ANSWERS)
        worker = audited.fleet.workers["A"]
        assert [(found, lane) for found, lane, _ in audited.resyncs] == [(worker, worker.lanes[0])]
        assert "removed blocks were lost or a restart went unseen" in audited.reasons[0]
        assert " rank 0: cached tokens were predicted wrongly for 18 of its last 20 answers" in caplog.text
        assert audited.figure("warmroute_audit_resyncs_total", "0") == 1.0

    def test_a_lane_that_holds_more_than_believed_has_lost_stores(self) -> None:
        audited = Audited()
        audited.answer(_HELD, 2)
        audited.prompt += list(range(50_000, 50_000 + 3 * BLOCK_SIZE))
        for i in range(ENOUGH_ANSWERS):
            audited.prompt[-3 * BLOCK_SIZE] = 60_000 + i
            audited.answer(_HELD + 3 * BLOCK_SIZE, every_s=10.0)
        assert len(audited.resyncs) == 1
        assert "stored blocks were lost, or keyed by a salt or adapter" in audited.reasons[0]

    def test_one_block_of_error_is_no_drift(self) -> None:
        audited = Audited()
        audited.answer(_HELD - BLOCK_SIZE, 5 * ENOUGH_ANSWERS)
        assert audited.resyncs == []
        assert audited.figure("warmroute_audit_exact_ratio") == 0.0

    def test_a_minority_of_errors_is_no_drift(self) -> None:
        audited = Audited()
        for _ in range(2 * ENOUGH_ANSWERS):
            audited.answer(_HELD)
            audited.answer(0)
        assert audited.resyncs == []

    def test_never_right_means_another_tokenizer_or_block_size(self) -> None:
        audited = Audited()
        audited.answer(0, ENOUGH_ANSWERS)
        assert "none was ever right, so tokenizer, chat template or block size differ" in audited.reasons[0]

    def test_another_count_of_prompt_tokens_means_another_tokenizer_or_template(self) -> None:
        audited = Audited()
        audited.answer(_HELD, 2)
        audited.answer(2 * BLOCK_SIZE, ENOUGH_ANSWERS, counted=_HELD + 9)
        assert "counts other prompt tokens than the router" in audited.reasons[0]

    def test_errors_both_ways_mean_late_or_lost_events(self) -> None:
        audited = Audited()
        audited.answer(_HELD, 2)
        for _ in range(ENOUGH_ANSWERS):
            audited.answer(0)
            audited.answer(_HELD + 5 * BLOCK_SIZE)
        assert "now more, now less" in audited.reasons[0]

    def test_it_is_learned_anew_once_a_minute_then_half_as_often(self) -> None:
        audited = Audited()
        audited.answer(0, 10_000, every_s=0.1)
        assert len(audited.resyncs) == 5  # at 2, 62, 182, 422 and 902 of 1,000 s

    def test_a_later_drift_of_a_sound_lane_is_a_new_one(self) -> None:
        audited = Audited()
        audited.answer(0, 1_000)
        assert len(audited.resyncs) == 2
        audited.answer(_HELD, 4_000)
        audited.answer(0, 400)
        assert len(audited.resyncs) == 3
        audited.answer(0, 700)
        assert len(audited.resyncs) == 4, "a minute later again, not four"

    def test_what_was_said_before_the_resync_is_not_held_against_it(self) -> None:
        audited = Audited()
        early = [audited.fleet.route(audited.fleet.request([*audited.prompt, i])) for i in range(60)]
        for decision in early:
            audited.fleet.router.first_byte(decision, 0.0)
        audited.now = 1_000.0
        audited.answer(0, ENOUGH_ANSWERS)
        assert len(audited.resyncs) == 1
        for decision in early:
            audited.fleet.complete(decision, 5_000.0, cached_tokens=0)
        assert len(audited.resyncs) == 1

    def test_requests_whose_twin_was_in_flight_do_not_count(self) -> None:
        audited = Audited()
        for _ in range(ENOUGH_ANSWERS):
            audited.prompt = list(range(audited.prompt[-1] + 1, audited.prompt[-1] + 1 + _HELD))
            twins = [audited.fleet.route(audited.fleet.request(audited.prompt), now=audited.now) for _ in range(2)]
            assert twins[1].cached_tokens == _HELD - BLOCK_SIZE
            for twin in twins:
                audited.fleet.complete(twin, audited.now, cached_tokens=0)
        assert audited.resyncs == []
        assert audited.figure("warmroute_audit_exact_ratio") == 0.5


def test_an_engine_that_never_reports_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    audited = Audited()
    audited.answer(None, 5 * ENOUGH_ANSWERS)
    assert caplog.text.count("--enable-prompt-tokens-details") == 1
    assert audited.resyncs == []


def test_an_engine_that_reports_hits_only_is_not_blamed(caplog: pytest.LogCaptureFixture) -> None:
    """vLLM gives null where nothing was cached."""
    audited = Audited()
    audited.answer(_HELD)
    audited.answer(None, 5 * ENOUGH_ANSWERS)
    assert not caplog.records


def test_answers_without_usage_say_nothing_of_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    audited = Audited()
    for i in range(5 * ENOUGH_ANSWERS):
        decision = audited.fleet.route(audited.fleet.request([*audited.prompt, i]))
        audited.fleet.router.settle(decision, Outcome(True, False, 1.0, 1.0, 200))
    assert not caplog.records


def test_refused_and_broken_requests_are_not_audited() -> None:
    audited = Audited()
    for outcome in (Outcome(True, False, 1.0, 1.0, 400, cached_tokens=0), Outcome(False, False, 1.0, cached_tokens=0)):
        audited.fleet.router.settle(audited.fleet.route(audited.fleet.request(audited.prompt)), outcome)
    assert audited.figure("warmroute_audit_exact_ratio") is None


def test_lanes_and_workers_that_are_gone_have_no_series() -> None:
    audited = Audited(ranks=2)
    audited.answer(_HELD)
    late = audited.fleet.route(audited.fleet.request(blocks("z")))
    assert audited.figure("warmroute_audit_exact_ratio", "0") == 1.0
    audited.fleet.router.set_ranks(audited.fleet.workers["A"], [1])
    assert audited.figure("warmroute_audit_exact_ratio", "0") is None
    audited.fleet.router.forget(audited.fleet.workers["A"])
    audited.fleet.complete(late, cached_tokens=0)
    assert audited.figure("warmroute_audit_exact_ratio", "1") is None
