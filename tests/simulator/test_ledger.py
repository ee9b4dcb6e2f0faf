"""Rows and samples as they are written."""

from warmroute.simulator.ledger import NOBODY, NOT_YET, Ledger, Requests


def test_a_row_begins_with_nothing_but_its_arrival() -> None:
    requests = Requests()
    assert [requests.begin(0, 1.5, 100), requests.begin(2, 1.5, 7)] == [0, 1]
    assert len(requests) == 2
    assert (list(requests.stage), list(requests.arrived_at)) == ([0, 2], [1.5, 1.5])
    assert list(requests.prompt_tokens) == [100, 7]
    for times in (requests.sent_at, requests.first_at, requests.ended_at):
        assert list(times) == [NOT_YET, NOT_YET]
    for counts in (requests.output_tokens, requests.cached, requests.predicted):
        assert list(counts) == [0, 0]
    assert list(requests.worker) == [NOBODY, NOBODY]
    assert requests.failed == ["", ""]


def test_each_worker_has_samples_of_its_own() -> None:
    gauges = Ledger().gauges
    gauges.add_worker()
    gauges.sample(0, 3, 1, 0.5)
    gauges.add_worker()
    gauges.sample(0, 2, 0, 0.25)
    gauges.sample(1, 1, 4, 0.75)
    assert [list(each) for each in gauges.running] == [[3, 2], [1]]
    assert [list(each) for each in gauges.waiting] == [[1, 0], [4]]
    assert [list(each) for each in gauges.kv_usage] == [[0.5, 0.25], [0.75]]


def test_ledgers_share_nothing() -> None:
    one, other = Ledger(), Ledger()
    one.requests.begin(0, 0.0, 1)
    one.stage_names.append("stage")
    assert (len(other.requests), other.stage_names) == (0, [])
