"""Tools, documents and examples in another order, and others that are really others."""

from typing import Any

from doctor.requests_to_diagnose import MANY, RULES, chat, diagnosed, only, prose, question, shuffled
from warmroute.doctor import Kind, Logged

_TOOLS = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": prose(27, ("tool", n)), "parameters": {}}}
    for n in range(8)
]
_DOCUMENTS = [prose(63, ("document", n)) for n in range(6)]


def _few_shot(number: int) -> str:
    return f"Input: {prose(18, ('in', number))}\nOutput: {prose(18, ('out', number))}"


def test_tools_in_another_order() -> None:
    requests = [chat(RULES, question(n), tools=shuffled(_TOOLS, n)) for n in range(MANY)]
    finding = only(requests, Kind.TOOL_ORDER, "tools[0]")
    names = [tool["function"]["name"] for tool in finding.fix.apply(requests[3].body)["tools"]]
    assert names == sorted(names)


def test_tools_that_are_others_are_no_finding() -> None:
    def tools(agent: int) -> list[dict[str, Any]]:
        return [
            {"type": "function", "function": {"name": f"{agent}_{n}", "description": prose(27, (agent, n))}}
            for n in range(4)
        ]

    assert diagnosed([chat(RULES, question(n), tools=tools(n % 4)) for n in range(4 * MANY)]).findings == []


def test_documents_of_a_field() -> None:
    def documents(seed: int) -> list[dict[str, str]]:
        return [{"title": str(at), "text": text} for at, text in enumerate(shuffled(_DOCUMENTS, seed))]

    requests = [chat("Answer from the documents.", question(n), documents=documents(n)) for n in range(MANY)]
    report = diagnosed(requests)
    assert [found.kind for found in report.findings] == [Kind.DOCUMENT_ORDER]
    fixed = report.findings[0].fix.apply(requests[4].body)["documents"]
    assert [each["title"] for each in fixed] == list("012345")


def test_numbered_documents_in_a_message() -> None:
    def context(seed: int) -> str:
        return "\n\n".join(f"Document {at}: {text}" for at, text in enumerate(shuffled(_DOCUMENTS, seed), start=1))

    requests = [chat("Answer from the documents.", f"{context(n)}\n\nQuestion: {question(n)}") for n in range(MANY)]
    finding = only(requests, Kind.DOCUMENT_ORDER, "messages[1].content")
    text = finding.fix.apply(requests[5].body)["messages"][1]["content"]
    assert [line.partition(":")[0] for line in text.split("\n\n")] == [
        *(f"Document {n}" for n in range(1, 7)),
        "Question",
    ]


def test_documents_that_are_chosen_for_each_question_are_no_finding() -> None:
    pool = [prose(63, ("pool", n)) for n in range(40)]
    requests = [
        chat(RULES, "\n\n".join(shuffled(pool, n)[:4]) + f"\n\nQuestion: {question(n)}") for n in range(2 * MANY)
    ]
    assert diagnosed(requests).findings == []


def test_examples_in_the_system_prompt() -> None:
    requests = [
        chat(
            "Classify as shown.\n\n" + "\n\n".join(shuffled([_few_shot(k) for k in range(6)], n)) + f"\n\n{RULES}",
            question(n),
        )
        for n in range(MANY)
    ]
    only(requests, Kind.EXAMPLE_ORDER, "messages[0].content")


def test_examples_that_are_turns() -> None:
    pairs = [
        [{"role": "user", "content": prose(27, ("in", n))}, {"role": "assistant", "content": prose(27, ("out", n))}]
        for n in range(6)
    ]
    requests = [
        Logged(
            {
                "messages": [
                    *(turn for pair in shuffled(pairs, n) for turn in pair),
                    {"role": "user", "content": question(n)},
                ]
            }
        )
        for n in range(MANY)
    ]
    finding = only(requests, Kind.EXAMPLE_ORDER, "messages[0]")
    roles = [message["role"] for message in finding.fix.apply(requests[2].body)["messages"]]
    assert roles == ["user", "assistant"] * 6 + ["user"]
