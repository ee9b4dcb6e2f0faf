"""The words of the workload: instructions, tools and messages, composed at random from phrases."""

import random
from typing import Any

_TRADES = (
    "travel", "billing", "library", "hospital", "shipping", "insurance", "weather", "museum", "bakery", "railway",
    "harbour", "school", "garden", "repair", "music", "archive",
)  # fmt: skip
_TASKS = ("support", "booking", "research", "planning", "review", "reporting")
_OCCASIONS = (
    "a customer asks for a refund", "the answer is not in the records", "two entries contradict each other",
    "the request names a person", "a date lies in the past", "the amount is above the limit",
    "somebody writes in another language", "the same question comes twice", "a tool returns an error",
    "the result is empty", "the user is in a hurry", "an address is incomplete", "the price has changed since",
    "a message contains a table", "the order has already left", "a colleague has opened the same case",
)  # fmt: skip
_DUTIES = (
    "look up the newest record first", "say which source you used", "ask one short question and wait",
    "write the numbers in full", "compare both versions line by line", "state what is known and what is not",
    "keep the answer below five sentences", "name the next step and who takes it", "check the calendar again",
    "repeat the identifier as it was given", "sort the list by date", "mark the uncertain parts",
    "explain the reason in plain words", "offer two alternatives", "close the case only after a confirmation",
    "leave the original text unchanged",
)  # fmt: skip
_CAUTIONS = (
    "never guess a number", "do not promise a date", "do not mention other customers", "avoid abbreviations",
    "keep private data out of the summary", "do not repeat the whole history", "never change a record silently",
    "do not call the same function twice", "leave opinions out", "do not translate names",
    "never skip the last check", "do not answer for another department", "keep the tone friendly",
    "do not round the result", "never invent a reference", "stop when you are asked to",
)  # fmt: skip
_VERBS = ("find", "list", "create", "update", "cancel", "compare", "count", "export", "restore", "schedule")
_THINGS = ("order", "customer", "invoice", "ticket", "route", "report", "document", "reservation", "payment", "item")
_FIELDS = ("identifier", "city", "date", "amount", "language", "status", "priority", "comment", "owner", "limit")
_STATES = ("open", "closed", "waiting", "paid", "late", "confirmed", "cancelled", "in review")
_REQUESTS = (
    "Please continue with the next case and tell me what you found.",
    "What does this mean for the plan of tomorrow?",
    "Summarise the differences and suggest what to do.",
    "Which of these should be handled first, and why?",
    "Is anything missing here that we would need for the report?",
    "Check these entries against the rules and name the exceptions.",
)


def agent_title(index: int) -> str:
    """A title of its own for each agent, such as "travel support agent 3"."""
    trade = _TRADES[index % len(_TRADES)]
    task = _TASKS[index // len(_TRADES) % len(_TASKS)]
    return f"{trade} {task} agent {index + 1}"


def instructions(rng: random.Random, title: str, rules: int) -> str:
    """A system prompt of `rules` numbered rules; titles differ in the first words, and so do their prefixes."""
    opening = f"You are the {title}. You answer with the help of the functions below and keep to these rules."
    return "\n".join([opening, *(f"{number}. {_rule(rng)}" for number in range(1, rules + 1))])


def tools(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """`count` function declarations in the shape of the chat endpoint, no two with the same name."""
    names = rng.sample([(verb, thing) for verb in _VERBS for thing in _THINGS], count)
    return [_tool(rng, verb, thing) for verb, thing in names]


def findings(rng: random.Random, lines: int) -> str:
    """A user's message: `lines` records, as a function would return them, and what to do with them."""
    return "\n".join([*(_record(rng) for _ in range(lines)), rng.choice(_REQUESTS)])


def _rule(rng: random.Random) -> str:
    return f"When {rng.choice(_OCCASIONS)}, {rng.choice(_DUTIES)}, and {rng.choice(_CAUTIONS)}."


def _tool(rng: random.Random, verb: str, thing: str) -> dict[str, Any]:
    fields = rng.sample(_FIELDS, 3)
    properties = {
        field: {"type": "string", "description": f"The {field} of the {thing}; {rng.choice(_CAUTIONS)}."}
        for field in fields
    }
    parameters = {"type": "object", "properties": properties, "required": fields[:1]}
    description = f"Use it to {verb} one {thing}: {rng.choice(_DUTIES)}."
    return {
        "type": "function",
        "function": {"name": f"{verb}_{thing}", "description": description, "parameters": parameters},
    }


def _record(rng: random.Random) -> str:
    number, state, thing = rng.randrange(1000, 10_000), rng.choice(_STATES), rng.choice(_THINGS)
    return f'{{"{thing}": {number}, "status": "{state}", "comment": "{rng.choice(_OCCASIONS)}"}}'
