"""`warmroute tokens --diff` for people."""

from rich.text import Text

from warmroute.cli import tokens_text
from warmroute.cli.tokens_diff import Difference, Side
from warmroute.cli.tokens_text import counted


def print_difference(difference: Difference) -> None:
    """Where, what it costs, both sides, and what it looks like."""
    output = tokens_text.console()
    in_colour = tokens_text.is_coloured(output)
    headline = _headline(difference)
    style = "bold red" if difference.diverges or not difference.same_namespace else "bold green"
    output.print(Text(headline, style=style) if in_colour else headline)
    output.print(_cost(difference))
    if not difference.same_namespace:
        output.print("adapter or cache_salt are not the same, so no block is shared, whatever the tokens")
    for letter, side in (("A", difference.a), ("B", difference.b)):
        output.print()
        output.print(f"{letter} {_where(side)}")
        line = Text("  ").append_text(tokens_text.line_of_pieces(side.around, side.marked, in_colour))
        output.print(line)
    if difference.hint is not None:
        hint = difference.hint
        pair = f"{tokens_text.quoted(hint.a.encode())} and {tokens_text.quoted(hint.b.encode())}"
        output.print(f"\nlooks like {hint.kind}: {pair}; {hint.advice}")


def _headline(difference: Difference) -> str:
    block = difference.token // difference.block_size
    if difference.diverges:
        return f"they part at token {difference.token:,}, in block {block:,}"
    lengths = len(difference.a.content.ids), len(difference.b.content.ids)
    if lengths[0] == lengths[1]:
        return "all tokens are the same"
    return f"the same up to token {difference.token:,}, where {'A' if lengths[0] < lengths[1] else 'B'} ends"


def _cost(difference: Difference) -> str:
    size, lost, token = difference.block_size, difference.lost_blocks, difference.token
    shared = f"shared: {counted(token, 'token')}, {counted(difference.shared_blocks, 'block')} of {size}"
    if not lost:
        return shared
    shorter = min(len(difference.a.content.hashes), len(difference.b.content.hashes))
    return f"{shared}; lost: {lost:,} of the shorter prompt's {counted(shorter, 'block')} ({lost * size:,} tokens)"


def _where(side: Side) -> str:
    name = tokens_text.readable(side.body.named.name)
    tokens = counted(len(side.content.ids), "token")
    match = "" if side.body.match == "exact" else f", {side.body.match.value} ({side.body.reason})"
    return (
        f"{name} ({tokens}{match}): line {side.line:,}, column {side.column:,}, character {side.offset:,}{_field(side)}"
    )


def _field(side: Side) -> str:
    place = side.place
    if place.field is not None:
        role = f" ({tokens_text.readable(place.role)})" if place.role else ""
        return f", in {tokens_text.readable(place.field)}{role} from character {place.offset:,} on"
    if place.message is not None:
        return f", in what the chat template writes around messages[{place.message}] ({place.role})"
    return ""
