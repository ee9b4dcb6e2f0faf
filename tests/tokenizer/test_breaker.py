"""The pause that a failing engine gets, against a plain restatement of the rule."""

from hypothesis import given
from hypothesis import strategies as st

from warmroute.tokenizer.breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker, EngineRecord


def test_pauses_double_up_to_a_limit_and_end_with_one_answer() -> None:
    breaker, now, pauses = Breaker(), 0.0, []
    for _ in range(12):
        breaker.begin()
        breaker.failed(now)
        pauses.append(max(0.0, breaker.retry_at - now))
        now = max(now, breaker.retry_at)
    assert pauses[:6] == [0.0, 0.0, FIRST_PAUSE_S, 4.0, 8.0, 16.0]
    assert pauses[-1] == LONGEST_PAUSE_S
    breaker.begin()
    breaker.succeeded()
    assert breaker.allows(now)
    assert breaker.failures == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 100.0)), max_size=60))
def test_it_never_stays_shut_and_never_lets_two_try(steps: list[tuple[bool, float]]) -> None:
    breaker, now = Breaker(), 0.0
    for answers, waited in steps:
        now += waited
        if not breaker.allows(now):
            assert breaker.failures >= 3
            assert breaker.allows(breaker.retry_at), "it ends"
            continue
        breaker.begin()
        assert breaker.failures < 3 or not breaker.allows(now), "only one tries"
        if answers:
            breaker.succeeded()
        else:
            breaker.failed(now)
        assert breaker.retry_at <= now + LONGEST_PAUSE_S


def test_a_missing_page_is_remembered_for_its_path_alone_and_for_a_while() -> None:
    record = EngineRecord()
    record.note_missing("/tokenize", 10.0)
    assert record.lacks("/tokenize", 10.0)
    assert not record.lacks("/v1/chat/completions/render", 10.0)
    assert not record.lacks("/tokenize", 310.0)
