"""`warmroute doctor` for people: what the log could share, and each finding, the most tokens lost first."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from warmroute.doctor import Told, ToldReport

_MOST_SHOWN = 50
_LONGEST = 300


def print_report(report: ToldReport) -> None:
    """Show a report on standard output."""
    console = Console(highlight=False, soft_wrap=True)
    estimated = "" if report.bytes_per_token is None else f", estimated at {report.bytes_per_token:g} bytes each"
    console.print(
        f"{report.requests:,} requests in {report.families:,} families, "
        f"{report.prompt_tokens:,} prompt tokens{estimated}\n"
        f"cached at best: {report.cached_share:.1%} now, {report.possible_share:.1%} with every fix"
    )
    for reason, count in report.dropped.items():
        console.print(f"{count:,}: {reason}", markup=False)
    if not report.findings:
        console.print("\nNothing breaks a prefix that could be shared.")
    for number, finding in enumerate(report.findings[:_MOST_SHOWN], start=1):
        _print_finding(console, number, finding)
    if len(report.findings) > _MOST_SHOWN:
        console.print(
            f"\n{len(report.findings) - _MOST_SHOWN:,} more findings with fewer tokens lost: see --json or --html"
        )


def _print_finding(console: Console, number: int, finding: Told) -> None:
    console.print(
        f"\n[bold]{number}. {finding.kind}[/bold] in [bold]{escape(finding.field)}[/bold], character "
        f"{finding.char_offset:,} (token {finding.token_offset:,}, block {finding.block:,})"
    )
    table = Table.grid(padding=(0, 2))
    table.add_row(f"   request {finding.left_request:,}", _shown(finding.left, "red"))
    table.add_row(f"   request {finding.right_request:,}", _shown(finding.right, "green"))
    console.print(table)
    console.print(
        f"   costs {finding.tokens_lost:,} tokens, {finding.prefill_s_lost:.1f} GPU seconds, {finding.share_lost:.1%} "
        f"of all prefill; {finding.requests:,} of {finding.family_requests:,} requests of {finding.family}"
    )
    console.print(f"   {finding.suggestion}", markup=False)


def _shown(text: str, style: str) -> Text:
    """A text on one line, its line ends and other invisible characters written out."""
    return Text(repr(text[:_LONGEST])[1:-1], style=style)
