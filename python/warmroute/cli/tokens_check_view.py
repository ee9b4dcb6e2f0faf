"""`warmroute tokens --check` for people."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from warmroute.cli import tokens_text
from warmroute.cli.tokens_check import FINE, BodyResult, PageResult, Parting, Verdict
from warmroute.cli.tokens_text import counted, readable

_NEXT_STEPS = {
    Verdict.MISSING: (
        "the engine has no page for these bodies: vLLM has its render pages with --enable-scale-out, or under 'vllm "
        "launch render'; images, /v1/messages and /v1/responses can be checked on those only"
    ),
    Verdict.REFUSED: "the engine says why; --model names its model, --header a credential that it wants",
    Verdict.UNTOLD: "the reason stands above; what brings its own template takes --trust-request-chat-template",
    Verdict.FAILED: "look into the engine's log",
}


def print_results(url: str, results: Sequence[BodyResult]) -> None:
    """A line for each body, more where it is not equal; then the counts and what to do next."""
    output = tokens_text.console()
    width = max((len(result.verdict.value) for result in results), default=0)
    for result in results:
        _print_line(result, width, output)
        for page in result.pages:
            _print_page(page, result, output)
    counts = Counter(result.verdict for result in results)
    told = ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict if counts[verdict])
    output.print(f"{url}: {told or 'there was nothing to ask'}")
    for verdict, step in _NEXT_STEPS.items():
        if counts[verdict]:
            output.print(f"{verdict.value}: {step}")


def _print_line(result: BodyResult, width: int, output: Console) -> None:
    fine = result.verdict in FINE
    style = "green" if fine else "bold red" if result.verdict is Verdict.DIFFERENT else "yellow"
    line = Text()
    line.append(f"{result.verdict.value:<{width}}", style=style if tokens_text.is_coloured(output) else "")
    line.append(f"  {readable(result.body.named.name)}  {counted(result.body.total, 'token')}")
    asked = [page.path for page in result.pages if page.verdict in FINE]
    line.append(f"  {', '.join(dict.fromkeys(asked))}" if asked else "")
    output.print(line)


def _print_page(page: PageResult, result: BodyResult, output: Console) -> None:
    if page.verdict is Verdict.EQUAL and page.detail is None:
        return
    # A page that is not there matters only where no other one told.
    if page.verdict is Verdict.MISSING and result.verdict in (*FINE, Verdict.DIFFERENT):
        return
    number = f", prompt {page.prompt}" if page.prompt and len(result.body.contents) > 1 else ""
    output.print(f"  {page.path}{number}: {page.verdict.value}{_because(page, result)}")
    if page.parting is not None:
        for line in _parting(page.parting, tokens_text.is_coloured(output)):
            output.print(line)
        if page not in result.decisive:
            output.print("    what counts is the render page of the endpoint itself")


def _because(page: PageResult, result: BodyResult) -> str:
    own = result.body.detail or result.body.reason
    told = [f"here: {own}"] if own and page.verdict in (Verdict.UNTOLD, Verdict.REFUSED_BY_BOTH) else []
    told += [page.detail] if page.detail else []
    return f" ({readable('; '.join(told))})" if told else ""


def _parting(parting: Parting, in_colour: bool) -> Iterator[Text]:
    ours, theirs = parting.tokens
    yield Text(f"    from token {parting.token:,} on; {ours:,} tokens here, {theirs:,} there")
    for name, pieces in (("here ", parting.ours), ("there", parting.engine)):
        line = tokens_text.line_of_pieces(pieces, parting.token - parting.first, in_colour)
        yield Text(f"    {name}  ").append_text(line)
        ids = " ".join(str(piece.id) for piece in pieces)
        yield Text(f"           {ids}", style="dim" if in_colour else "")
    if parting.cause is not None:
        yield Text(f"    perhaps: {readable(parting.cause)}")
