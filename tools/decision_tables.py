"""The tables of bench/decision.py's result."""

from collections.abc import Iterable

from tools.tables import Result, machine, table, us

_HELD_BY = {"nobody": "nobody", "one": "one", "some": "some, in part", "head": "a tenth by all, most by one"}


def decisions(result: Result) -> str:
    """Each fleet's decisions by the length of the prompt, and the medians of what was compared."""
    others = [name for name in result["fleets"][0]["decision_us"] if name != "warmroute"]
    heads = ["workers", "prompt", "p50", "p99", "max", "settling, p50", *(f"{_code(name)}, p50" for name in others)]
    rows = (_row(fleet, length, result, others) for fleet in result["fleets"] for length in result["prompt_tokens"])
    long = [fleet["decision_us"]["warmroute"]["100k"] for fleet in result["fleets"]]
    spreads = [each["median_of_repeats"] for each in long]
    apart = ", ".join(f"{us(each['min'])} to {us(each['max'])}" for each in spreads)
    processor = ", ".join(f"{us(each['cpu']['median'])} / {us(each['cpu']['p99'])}" for each in long)
    blocks = ", ".join(f"{fleet['blocks_per_worker']:,}" for fleet in result["fleets"])
    return (
        f"{table(heads, rows)}\n\nMicroseconds, {result['repeats']} times {result['decisions']:,} decisions of each "
        f"policy, in random order over prompts of both lengths. Of the long prompts the repeats' medians are {apart}; "
        f"p50 / p99 by the processor's own account are {processor}. Workers of these fleets hold {blocks} blocks of "
        f"{result['block_size']} tokens each. Measured on {machine(result)}, {result['load_1min_at_the_end']:g} at the "
        "end, this process included."
    )


def _row(fleet: Result, length: str, result: Result, others: Iterable[str]) -> list[str]:
    ours = fleet["decision_us"]["warmroute"][length]["all"]
    figures = [us(ours[name]) for name in ("median", "p99", "max")]
    beside = [us(fleet["decision_us"][name][length]["all"]["median"]) for name in others]
    prompt = f"{result['prompt_tokens'][length]:,} tokens"
    return [f"{fleet['workers']:,}", prompt, *figures, us(fleet["settle_us"]["median"]), *beside]


def _code(name: str) -> str:
    """A policy's name as such, and what was changed about it."""
    policy, comma, changed = name.partition(", ")
    return f"`{policy}`{comma}{changed}"


def by_holders(result: Result) -> str:
    """Of the long prompts, by who holds them."""
    cases = list(result["fleets"][0]["decision_us"]["warmroute"]["100k"]["by_case"])
    heads = ["p50 / p99", *(_HELD_BY[case] for case in cases)]
    rows = []
    for fleet in result["fleets"]:
        found = fleet["decision_us"]["warmroute"]["100k"]["by_case"]
        cells = [f"{us(found[case]['median'])} / {us(found[case]['p99'])}" for case in cases]
        rows.append([f"{fleet['workers']:,} workers", *cells])
    return f"{table(heads, rows)}\n\nMicroseconds, prompts of {result['prompt_tokens']['100k']:,} tokens."


def parts(result: Result) -> str:
    """What the time goes to."""
    names = list(result["fleets"][0]["parts_us"]["100k"])
    rows = []
    for fleet in result["fleets"]:
        for length, found in fleet["parts_us"].items():
            prompt = f"{result['prompt_tokens'][length]:,} tokens"
            rows.append([f"{fleet['workers']:,}", prompt, *(us(found[name]) for name in names)])
    return f"{table(['workers', 'prompt', *names], rows)}\n\nMicroseconds, differences of medians."
