"""The bodies and the model of the golden renderings; imported by the recorder and by the test.

The recorder runs where warmroute is not installed, so that nothing of it may be imported here.
"""

import json
import shutil
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TINY = HERE.parents[1] / "python" / "warmroute" / "models" / "warmroute-tiny"
TODAY = (2026, 3, 9)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'The weather of a <city> & its unit\'s "name" in °C.',
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
            "required": ["city"],
        },
    },
}
UNTIDY_TOOL = {"function": {"parameters": {"b": 1, "a": [True, None, 1.5]}, "name": "untidy", "strict": True, "x": 1}}
BARE_TOOL = {"type": "function", "function": {"name": "ping"}}

SYSTEM = {"role": "system", "content": "You are a helpful assistant.  "}
HELLO = {"role": "user", "content": " Hello, Καλημέρα, 你好 😀! <|im_end|> <b>&amp;</b> "}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "type": "function",
            "id": "call_0001",
            "function": {"name": "get_weather", "arguments": '{"unit": "celsius", "city": "Θεσσαλονίκη"}'},
        }
    ],
}
RESULT = {
    "role": "tool",
    "tool_call_id": "call_0001",
    "content": [{"type": "text", "text": "22"}, {"type": "text", "text": "°C"}],
}
THOUGHT = {"role": "assistant", "content": "It is warm.", "reasoning_content": "22 degrees\nis warm"}
THANKS = {"role": "user", "content": [{"type": "text", "text": "Thanks."}, {"type": "text", "text": "And tomorrow?"}]}


def call_with(arguments: Any) -> dict[str, Any]:
    """An assistant's call whose arguments are `arguments`."""
    function = {"arguments": arguments, "name": "get_weather"}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


CHATS: dict[str, dict[str, Any]] = {
    "one question": {"messages": [HELLO]},
    "system and question": {"messages": [SYSTEM, HELLO]},
    "no cue": {"messages": [SYSTEM, HELLO], "add_generation_prompt": False},
    "two turns": {"messages": [SYSTEM, HELLO, {"role": "assistant", "content": "Hi!\n"}, THANKS]},
    "tools": {"messages": [SYSTEM, HELLO], "tools": [WEATHER], "tool_choice": "auto"},
    "tools without system": {"messages": [HELLO], "tools": [WEATHER, BARE_TOOL]},
    "untidy tools": {"messages": [HELLO], "tools": [UNTIDY_TOOL, BARE_TOOL], "tool_choice": "none"},
    "no tools": {"messages": [HELLO], "tools": []},
    "call and result": {"messages": [SYSTEM, HELLO, CALL, RESULT], "tools": [WEATHER]},
    "whole loop": {"messages": [SYSTEM, HELLO, CALL, RESULT, THOUGHT, THANKS], "tools": [WEATHER]},
    "two results": {"messages": [HELLO, CALL, RESULT, {"role": "tool", "tool_call_id": "c2", "content": "ok"}]},
    "thought last": {"messages": [HELLO, THOUGHT]},
    "thought inline": {"messages": [HELLO, {"role": "assistant", "content": "<think>\nx\n</think>\n\nyes"}]},
    "arguments not JSON": {"messages": [HELLO, call_with("{"), RESULT]},
    "arguments a list": {"messages": [HELLO, call_with("[1]"), RESULT]},
    "arguments empty": {"messages": [HELLO, call_with(""), RESULT]},
    "no calls": {"messages": [HELLO, {"role": "assistant", "content": "x", "tool_calls": []}, THANKS]},
    "continued": {
        "messages": [HELLO, {"role": "assistant", "content": "The answer is "}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "continued parts": {
        "messages": [HELLO, {"role": "assistant", "content": [{"type": "text", "text": "The answer"}]}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "special tokens": {"messages": [HELLO], "add_special_tokens": True},
    "developer": {"messages": [SYSTEM, {"role": "developer", "content": "Be brief."}, HELLO]},
    "developer first": {"messages": [{"role": "developer", "content": "Be brief."}, HELLO, SYSTEM]},
    "named": {"messages": [{"role": "user", "content": "x", "name": "bob", "unknown": 1}]},
    "thinking off": {"messages": [HELLO], "chat_template_kwargs": {"enable_thinking": False}},
    "effort none": {"messages": [HELLO], "reasoning_effort": "none"},
    "effort high": {"messages": [HELLO], "reasoning_effort": "high"},
    "date given": {"messages": [HELLO], "chat_template_kwargs": {"date_string": "1 Jan 1970", "bos_token": "B"}},
    "documents": {"messages": [HELLO], "documents": [{"title": "T", "text": "x"}]},
    "roles do not alternate": {"messages": [HELLO, HELLO]},
    "refusal": {"messages": [HELLO, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, THANKS]},
    "billing header": {"messages": [{"role": "system", "content": "x-anthropic-billing-header: 1\nBe kind."}, HELLO]},
    "empty text": {"messages": [{"role": "user", "content": ""}]},
    "no content": {"messages": [HELLO, {"role": "assistant"}, HELLO]},
    "empty parts": {"messages": [{"role": "user", "content": []}]},
    "strings as parts": {"messages": [{"role": "user", "content": ["a", "b"]}]},
}

RESPONSES: dict[str, dict[str, Any]] = {
    "text": {"input": "Hello"},
    "instructions": {"input": "Hello", "instructions": "Be kind."},
    "items": {
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": "Hello"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        ],
    },
    "calls": {
        "tools": [
            {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False},
        ],
        "input": [
            {"role": "user", "content": "Weather?"},
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Rome"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "22"},
        ],
    },
    "effort": {"input": "Hello", "reasoning": {"effort": "low"}},
    "assistant text": {
        "input": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
    },
}

MESSAGES: dict[str, dict[str, Any]] = {
    "text": {"messages": [{"role": "user", "content": "Hello"}]},
    "system": {"system": "Be kind.", "messages": [{"role": "user", "content": "Hello"}]},
    "system blocks": {
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
            {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": " Be brief."},
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    },
    "tools": {
        "tools": [
            {"name": "get_weather", "description": "Weather", "input_schema": {"type": "object", "properties": {}}},
            {"name": "ping", "input_schema": {"properties": {}}},
        ],
        "messages": [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome", "a": "é"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "22"}]},
                    {"type": "text", "text": "So?"},
                ],
            },
        ],
    },
    "result only": {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        ],
    },
    "thinking disabled": {"messages": [{"role": "user", "content": "x"}], "thinking": {"type": "disabled"}},
}


def bodies() -> list[tuple[str, str, dict[str, Any]]]:
    """(endpoint, name, body) of every request."""
    chats = [("chat", name, {"model": "tiny", **body}) for name, body in CHATS.items()]
    responses = [("responses", name, {"model": "tiny", **body}) for name, body in RESPONSES.items()]
    messages = [("messages", name, {"model": "tiny", "max_tokens": 8, **body}) for name, body in MESSAGES.items()]
    return chats + responses + messages


def templates() -> dict[str, str]:
    """The templates by name; `tiny` is the packaged one."""
    found = {file.stem: file.read_text(encoding="utf-8") for file in sorted((HERE / "templates").glob("*.jinja"))}
    return found | {"tiny": (TINY / "chat_template.jinja").read_text(encoding="utf-8")}


def write_model(folder: Path, template: str) -> None:
    """The packaged model with another template, and with a first token that is put before every text."""
    for name in ("tokenizer.json", "config.json", "generation_config.json"):
        shutil.copy(TINY / name, folder / name)
    config = json.loads((TINY / "tokenizer_config.json").read_text(encoding="utf-8"))
    config |= {"bos_token": "<|endoftext|>", "add_bos_token": True, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
