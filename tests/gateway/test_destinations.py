"""Where workers may be."""

import pytest

from warmroute.errors import ConfigError
from warmroute.gateway.destinations import destinations
from warmroute.worker import WorkerSpec

_NOBODY = (
    "169.254.169.254",
    "169.254.0.1",
    "0.0.0.0",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "224.0.0.1",
    "ff02::1",
    "100.100.100.200",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2852039166",
    "0xa9fea9fe",
    "169.254.43518",
    "0251.0376.0251.0376",
    "metadata.0x7f",
)
_ANYBODY = ("127.0.0.1", "10.0.0.5", "::1", "fd00::7", "worker-0.gpu.example.org", "localhost", "h200", "10-0-0-5.pod")


@pytest.mark.parametrize("host", _NOBODY)
def test_no_worker_is_there(host: str) -> None:
    assert destinations(()).refusal(host) is not None
    assert destinations(("10.0.0.0/8", "*.example.org")).refusal(host) is not None


@pytest.mark.parametrize("host", _ANYBODY)
def test_a_worker_may_be_there(host: str) -> None:
    assert destinations(()).refusal(host) is None


def test_what_is_named_is_allowed_and_nothing_else() -> None:
    only = destinations(("10.0.0.0/8", "fe80::/10", "*.gpu.example.org"))
    assert [
        only.refusal(host) is None for host in ("10.9.9.9", "fe80::1", "a.gpu.example.org", "A.GPU.example.org.")
    ] == [True] * 4
    assert [only.refusal(host) is None for host in ("11.0.0.1", "169.254.169.254", "::1")] == [False] * 3
    assert only.refusal("elsewhere.org") is None, "its addresses decide"
    assert destinations(("*.gpu.example.org",)).refusal("elsewhere.org") is not None


def test_the_addresses_of_a_name_are_judged_as_well() -> None:
    everywhere, some = destinations(()), destinations(("10.0.0.0/8", "*.example.org"))
    assert everywhere.permits("worker", "192.168.1.1")
    assert not everywhere.permits("worker", "169.254.169.254")
    assert not everywhere.permits("worker", "::ffff:169.254.169.254")
    assert some.permits("elsewhere", "10.1.1.1")
    assert not some.permits("elsewhere", "192.168.1.1")
    assert some.permits("a.example.org", "192.168.1.1"), "the name is allowed"
    assert not some.permits("a.example.org", "169.254.169.254")
    assert not some.permits("a.example.org", "no address")
    assert destinations(("169.254.0.0/16",)).permits("worker", "169.254.169.254"), "whoever says so means it"


def test_endpoints_of_events_fall_under_the_same_rule() -> None:
    everywhere = destinations(())
    everywhere.check(
        WorkerSpec("http://10.0.0.5:8000", kv_events="tcp://10.0.0.5:5557", kv_replay="tcp://10.0.0.5:5558")
    )
    everywhere.check(WorkerSpec("http://127.0.0.1:8000", kv_events="ipc:///tmp/engine"))
    for spec in (
        WorkerSpec("http://169.254.169.254"),
        WorkerSpec("http://[::ffff:a9fe:a9fe]:80"),
        WorkerSpec("http://10.0.0.5:8000", kv_events="tcp://169.254.169.254:80"),
        WorkerSpec("http://10.0.0.5:8000", kv_events="tcp://10.0.0.5:1", kv_replay="tcp://169.254.169.254:80"),
        WorkerSpec("http://10.0.0.5:8000", kv_events="ipc:///var/run/docker.sock"),
    ):
        with pytest.raises(ConfigError, match="--allow-workers"):
            everywhere.check(spec)


@pytest.mark.parametrize(
    ("endpoint", "permitted"),
    [
        ("tcp://worker-0:5557", True),
        ("tcp://10.0.0.6:5557", True),
        ("tcp://other-name:5557", False),
        ("tcp://169.254.169.254:80", False),
        ("tcp://2852039166:80", False),
        ("ipc:///var/run/docker.sock", False),
        ("tcp://[fe80::1]:5557", False),
        ("no endpoint", False),
    ],
)
def test_a_worker_sends_the_router_nowhere_by_a_name_of_its_choice(endpoint: str, permitted: bool) -> None:
    assert destinations(()).permits_told(endpoint, "http://worker-0:8000") is permitted


@pytest.mark.parametrize("entry", ["", "10.0.0.0/99", "300.1.1.1", "a b", "http://a", "0x7f"])
def test_an_entry_that_says_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match="allow_workers"):
        destinations((entry,))
