"""`warmroute explain` for people: a row with a bar for each worker, why the first one won, what would change that."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from warmroute.cli import tokens_text
from warmroute.cli.explain_bars import Bars
from warmroute.cli.tokens_text import counted, readable
from warmroute.diagnostics.lever import Figure
from warmroute.gateway.page_types import ChangeReport, ConsideredWorker, ExplainedRefusal, Explanation, RunnerUp

_WITHOUT_BOUND = 10_000
_LOAD, _TERMS = "load", "terms"
# What is left out, one after the other, until a row fits into the terminal.
_LAYOUTS = (frozenset({_LOAD, _TERMS}), frozenset({_TERMS}), frozenset[str]())
_NOUNS = {
    Figure.CACHED_TOKENS: "cached token",
    Figure.REQUESTS: "request",
    Figure.QUEUED_TOKENS: "queued token",
}
_IN_VAIN_FOR_THE_RUNNER_UP = {
    Figure.CACHED_TOKENS: "no number of cached tokens, not even all of the prompt",
    Figure.REQUESTS: "no fewer requests, not even none",
    Figure.QUEUED_TOKENS: "no fewer queued tokens, not even none",
}
_IN_VAIN_FOR_THE_WINNER = {
    Figure.CACHED_TOKENS: "no fewer cached tokens, not even none",
    Figure.REQUESTS: "no number of requests",
    Figure.QUEUED_TOKENS: "no number of queued tokens",
}


class _Unit:
    """How costs are shown: seconds as milliseconds, all others as they are."""

    def __init__(self, unit: str) -> None:
        self._in_ms = unit == "seconds"
        self.name = "ms" if self._in_ms else unit

    def figure(self, value: float | None, sign: str = "") -> str:
        """A cost; `-` for one that is no finite number."""
        if value is None:
            return "-"
        if self._in_ms:
            return f"{1000.0 * value:{sign}z,.1f}"
        return f"{value:{sign}z,.0f}" if value == int(value) else f"{value:{sign}z,.2f}"

    def label(self, term: str) -> str:
        """A term's name for people."""
        return (term.removesuffix("_s") if self._in_ms else term).replace("_", " ")


def print_refusal(refusal: ExplainedRefusal) -> None:
    """No worker would get the request, and why."""
    output = tokens_text.console()
    headline = f"refused ({readable(refusal['refused'])}): no worker would get it"
    output.print(Text(headline, style="bold red") if tokens_text.is_coloured(output) else headline)
    output.print(readable(refusal["detail"]))


def print_explanation(told: Explanation, most_workers: int) -> None:
    """The decision, the cheapest workers as a table with bars, and what would have had to be otherwise."""
    output, unit = tokens_text.console(), _Unit(told["unit"])
    shown = told["workers"][:most_workers]
    bars = Bars.of([line["terms"] for line in shown], [line["cost"] for line in shown])
    output.print(Text(f"{_name(told['worker'], told['rank'])} gets it: {readable(told['because'])}", style="bold"))
    output.print(_asked(told, unit))
    output.print(_fitting(output, shown, bars, unit))
    for line in (*_legend(bars, unit), *_left_out(told, len(shown))):
        output.print(line)
    for line in _otherwise(told, unit):
        output.print(line)


def _name(worker: str, rank: int | None) -> str:
    return readable(worker) if rank is None else f"{readable(worker)} rank {rank}"


def _asked(told: Explanation, unit: _Unit) -> str:
    model = "" if told["model"] is None else f" for {readable(told['model'])}"
    known = "" if told["reason"] is None else f" ({told['match'].value}: {readable(told['reason'])})"
    return (
        f"{counted(told['prompt_tokens'], 'prompt token')}{model}{known}; policy {readable(told['policy'])}, "
        f"costs in {readable(unit.name)}, lowest wins"
    )


def _fitting(output: Console, shown: Sequence[ConsideredWorker], bars: Bars, unit: _Unit) -> Table:
    """The table with as many of its columns as the terminal has room for; bars are kept."""
    unbounded = output.options.update_width(_WITHOUT_BOUND)
    drawn = [_table(shown, bars, unit, layout) for layout in _LAYOUTS]
    fits = (each for each in drawn if Measurement.get(output, unbounded, each).maximum <= output.width)
    return next(fits, drawn[-1])


def _table(shown: Sequence[ConsideredWorker], bars: Bars, unit: _Unit, layout: frozenset[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("worker", overflow="fold")
    terms = bars.terms if _TERMS in layout else ()
    load = ("requests", "queued\ntokens") if _LOAD in layout else ()
    for heading in ("cached\ntokens", *load, *map(unit.label, terms), "cost"):
        table.add_column(heading, justify="right")
    table.add_column("", no_wrap=True)
    for number, line in enumerate(shown):
        figures = [f"{line['cached_tokens']:,}"]
        figures += [f"{line['requests']:,}", f"{line['queued_tokens']:,}"] if load else []
        figures += [unit.figure(line["terms"].get(term, 0.0)) for term in terms]
        figures.append(unit.figure(line["cost"]))
        worker = Text(_name(line["worker"], line["rank"]))
        table.add_row(worker, *figures, bars.bar(line["terms"]), style="bold" if number == 0 else None)
    return table


def _legend(bars: Bars, unit: _Unit) -> Iterator[Text]:
    """Which sign of a bar is which term; nothing where there are no bars."""
    if not bars.drawn:
        return
    legend = Text("bars:")
    for term in bars.terms:
        legend.append("  ").append_text(bars.sign(term)).append(f" {readable(unit.label(term))}")
    yield legend


def _left_out(told: Explanation, shown: int) -> Iterator[str]:
    considered, eligible = len(told["workers"]), told["eligible"]
    if considered > shown:
        yield f"and {considered - shown:,} more that were considered (--workers {considered} shows them)"
    if eligible > considered:
        yield (
            f"of {eligible:,} workers that could take it {considered:,} were looked at: those that hold the most of "
            "the prompt, and those with the least to do"
        )


def _otherwise(told: Explanation, unit: _Unit) -> Iterator[str]:
    second = told["runner_up"]
    yield ""
    if second is None:
        yield "no other worker was considered"
        return
    yield _gap(second, unit)
    if second["unchangeable"] is not None:
        yield readable(second["unchangeable"])
        return
    own = [change for change in second["changes"] if change["worker"] == second["worker"]]
    others = [change for change in second["changes"] if change["worker"] != second["worker"]]
    if own:
        yield "it would surely win with"
        yield from (f"  {_change(change, _IN_VAIN_FOR_THE_RUNNER_UP)}" for change in own)
        yield from _idle(second, own)
    if others:
        yield f"{_name(told['worker'], told['rank'])} would surely lose with"
        yield from (f"  {_change(change, _IN_VAIN_FOR_THE_WINNER)}" for change in others)


def _gap(second: RunnerUp, unit: _Unit) -> str:
    name, gap = f"runner-up: {_name(second['worker'], second['rank'])}", second["gap"]
    if gap is None:
        return f"{name}, whose cost is no finite number"
    if gap == 0.0:
        return f"{name}, which costs the same: chance decided"
    apart = [
        f"{readable(unit.label(term))} {unit.figure(difference, '+')}"
        for term, difference in second["terms"].items()
        if difference
    ]
    return f"{name}, which costs {unit.figure(gap)} more" + (f": {', '.join(apart)}" if apart else "")


def _change(change: ChangeReport, in_vain: dict[Figure, str]) -> str:
    figure, now, needed = change["figure"], change["now"], change["needed"]
    if needed is None:
        return in_vain[figure]
    noun = f"{'more' if needed > now else 'fewer'} {_NOUNS[figure]}"
    return f"{counted(abs(needed - now), noun)}: {needed:,} instead of {now:,}"


def _idle(second: RunnerUp, own: Sequence[ChangeReport]) -> Iterator[str]:
    """Whether all of its load makes the difference, where no single figure of it does."""
    load = [change for change in own if change["figure"] is not Figure.CACHED_TOKENS]
    if len(load) > 1 and all(change["needed"] is None for change in load):
        yield "idle it would surely win" if second["wins_if_idle"] else "not even idle would it surely win"
