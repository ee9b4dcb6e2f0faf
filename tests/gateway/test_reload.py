"""Taking over a configuration: all parts or none, and what needs a restart keeps its value."""

import dataclasses
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.fleet_of_one import NOBODY, fleet_of_one
from warmroute.config import changed_options
from warmroute.errors import ConfigError
from warmroute.gateway.configuration import Configuration, FileWatch
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.origin import Origin
from warmroute.gateway.registrations import Registered, Registrations, read_registrations
from warmroute.gateway.relay import RelayOptions
from warmroute.gateway.reload import Apply, Reloader
from warmroute.gateway.reload_parts import Workers
from warmroute.worker import WorkerId, WorkerSpec

_OTHER = "http://127.0.0.1:10"


class Part:
    """Records what it is asked to apply, and refuses when it is told to."""

    def __init__(self, refuses: bool = False) -> None:
        self.applied: list[Configuration] = []
        self.refuses = refuses

    def prepare(self, old: Configuration, new: Configuration) -> Apply:
        if self.refuses:
            raise ConfigError("not this one")

        async def apply() -> None:
            self.applied.append(new)

        return apply


def reloader(new: Configuration | Exception, *parts: Part) -> Reloader:
    def read() -> Configuration:
        if isinstance(new, Exception):
            raise new
        return new

    made = Reloader(Configuration(ServeConfig()), read)
    made.parts = [part.prepare for part in parts]
    return made


async def test_what_needs_a_restart_keeps_its_value_and_is_named() -> None:
    part = Part()
    new = Configuration(ServeConfig(policy="random", port=9), RelayOptions(relay_threads=7))
    made = reloader(new, part)
    reload = await made.reload("test")
    assert (reload.changed, reload.needs_restart, reload.error) == (["policy"], ["port", "relay_threads"], None)
    (applied,) = part.applied
    kept = RelayOptions().relay_threads
    assert (applied.serve.policy, applied.serve.port, applied.relay.relay_threads) == ("random", 8080, kept)
    assert made.current is applied


async def test_one_part_that_refuses_keeps_all_of_the_old() -> None:
    first, second = Part(), Part(refuses=True)
    made = reloader(Configuration(ServeConfig(policy="random")), first, second)
    before = made.current
    assert (await made.reload("test")).error == "not this one"
    assert (first.applied, made.current) == ([], before)


async def test_a_fault_in_reading_is_told_and_changes_nothing() -> None:
    made = reloader(ZeroDivisionError("odd"))
    before = made.current
    assert "odd" in str((await made.reload("test")).error)
    assert made.current is before


def test_every_option_is_live_or_fixed_and_both_kinds_are_found() -> None:
    old = ServeConfig()
    assert changed_options(old, old) == ([], [])
    assert changed_options(old, dataclasses.replace(old, grace_s=1.0, port=1)) == (["grace_s"], ["port"])


def test_a_file_counts_as_changed_once_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    watch = FileWatch()
    assert not watch.changed((path,))
    assert not watch.changed((path,))
    other = tmp_path / "other"
    other.write_text("b")
    os.replace(other, path)
    assert [watch.changed((path,)) for _ in range(3)] == [False, True, False]
    path.write_text("longer")
    assert not watch.changed((path,))
    path.write_text("and longer")
    assert [watch.changed((path,)) for _ in range(3)] == [False, True, False]
    path.unlink()
    assert [watch.changed((path,)) for _ in range(3)] == [False, True, False]


def test_a_file_that_is_new_on_the_list_has_not_changed(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("1")
    second.write_text("2")
    watch = FileWatch()
    looks: list[Callable[[], bool]] = [lambda: watch.changed((first,)), lambda: watch.changed((first, second))]
    assert [look() for look in looks] == [False, False]


def specs(*urls: str) -> Configuration:
    return Configuration(ServeConfig(), specs=tuple(WorkerSpec(url) for url in urls))


def going(part: Workers, old: Configuration, new: Configuration) -> Awaitable[None]:
    return part.prepare(old, new)()


async def test_workers_come_go_and_change_with_the_configuration() -> None:
    async with fleet_of_one() as one:
        removed: list[str] = []
        part = Workers(one.fleet, removed.append)
        await going(part, specs(NOBODY), specs(NOBODY, _OTHER))
        kept = one.router.table.get(WorkerId(NOBODY))
        assert [member.worker.id for member in one.fleet.members] == [NOBODY, _OTHER]
        other = Configuration(ServeConfig(), specs=(WorkerSpec(NOBODY), WorkerSpec(_OTHER, block_size=32)))
        one.fleet.set_draining(one.fleet.members[1].worker, True)
        await going(part, specs(NOBODY, _OTHER), other)
        changed = one.router.table.get(WorkerId(_OTHER))
        assert changed is not None
        assert (changed.block_size, changed.draining) == (32, True)
        assert one.router.table.get(WorkerId(NOBODY)) is kept
        await going(part, other, specs(_OTHER))
        assert removed == [NOBODY]


async def test_registrations_are_kept_and_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "8080.workers"
    async with fleet_of_one() as one:
        kept = Registrations(path, one.fleet)
        kept.begin((), read_registrations(path))
        one.fleet.add(WorkerSpec(_OTHER, block_size=32, kv_topic="t"), Origin.ADDED)
        one.fleet.set_draining(one.member.worker, True)
        await kept.close()
    assert path.stat().st_mode & 0o777 == 0o600
    registered = read_registrations(path)
    assert registered == Registered((WorkerSpec(_OTHER, block_size=32, kv_topic="t"),), frozenset([WorkerId(NOBODY)]))
    async with fleet_of_one() as one:
        kept = Registrations(path, one.fleet)
        kept.begin((), registered)
        assert [member.origin for member in one.fleet.members] == [Origin.CONFIGURED, Origin.ADDED]
        assert one.member.worker.draining
        kept.abandon()
        await one.fleet.remove(WorkerId(_OTHER))
        await kept.close()
    assert read_registrations(path) == registered


def test_a_file_of_registrations_that_cannot_be_used_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "8080.workers"
    assert read_registrations(path) == read_registrations(None) == Registered()
    for text in ("", "{}", '{"warmroute": "1", "added": [{"url": 3}], "draining": []}'):
        path.write_text(text)
        assert read_registrations(path) == Registered()
