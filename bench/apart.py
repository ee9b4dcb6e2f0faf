"""Something that works in a process of its own, a fork of the one that asks it.

What was filled before is shared; what one of them leaves in memory, and what it costs to collect that, is not told of
another.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

WorkT = TypeVar("WorkT")
ResultT = TypeVar("ResultT")
P = ParamSpec("P")


class Apart(Generic[WorkT]):
    """`make` is called in the process. To be used in a `with`."""

    def __init__(self, make: Callable[[], WorkT]) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_answer, args=(there, make), daemon=True)
        self._process.start()
        there.close()

    def ask(self, what: Callable[Concatenate[WorkT, P], ResultT], *arguments: P.args, **named: P.kwargs) -> ResultT:
        """What a function gives for the work and these arguments, there. EOFError where it failed; stderr says how."""
        self._pipe.send((what, arguments, named))
        result: ResultT = self._pipe.recv()
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()
        self._pipe.close()


def _answer(pipe: Connection, make: Callable[[], Any]) -> None:
    work = make()
    while True:
        what, arguments, named = pipe.recv()
        pipe.send(what(work, *arguments, **named))
