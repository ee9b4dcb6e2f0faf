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

# Puts <|endoftext|> before a text, so that it shows where an engine lets its tokenizer add tokens.
FIRST_TOKEN = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
}

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
    "parts without text": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": text} for text in ("a", "", "b", "")]}]
    },
    "strings as parts": {"messages": [{"role": "user", "content": ["a", "b"]}]},
}

CHATS |= {
    "required choice": {"messages": [HELLO], "tools": [WEATHER, BARE_TOOL], "tool_choice": "required"},
    "named choice": {
        "messages": [HELLO],
        "tools": [WEATHER, BARE_TOOL],
        "tool_choice": {"type": "function", "function": {"name": "ping"}},
    },
    "deferred tool": {"messages": [HELLO], "tools": [{**WEATHER, "defer_loading": True}, BARE_TOOL]},
    "tools as option": {"messages": [HELLO], "chat_template_kwargs": {"tools": [{"name": "other"}], "x": 1}},
    "tools and tools as option": {
        "messages": [HELLO],
        "tools": [WEATHER],
        "chat_template_kwargs": {"tools": [{"name": "other"}], "documents": [{"text": "y"}]},
    },
    "effort and option": {
        "messages": [HELLO],
        "reasoning_effort": "low",
        "chat_template_kwargs": {"reasoning_effort": "high", "enable_thinking": False},
    },
    "cue as option": {"messages": [HELLO], "chat_template_kwargs": {"add_generation_prompt": False}},
    "marked parts": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "x"}}]},
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "x"}, "id": 1}]},
        ]
    },
    "untidy call": {
        "messages": [
            HELLO,
            {
                "role": "assistant",
                "content": "So.",
                "tool_calls": [
                    {
                        "index": 0,
                        "type": "function",
                        "function": {"strict": True, "name": "ping", "arguments": "{}"},
                        "id": "c1",
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "ping", "content": "pong"},
        ]
    },
    "thoughts in both names": {
        "messages": [HELLO, {"role": "assistant", "content": "x", "reasoning": "a", "reasoning_content": "b"}, HELLO]
    },
    "thoughts in one name and null": {
        "messages": [HELLO, {"role": "assistant", "content": "x", "reasoning": None, "reasoning_content": "b"}, HELLO]
    },
    "thoughts as a part": {
        "messages": [
            HELLO,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}]},
            HELLO,
        ]
    },
    "a tool referred to": {
        "messages": [
            HELLO,
            CALL,
            {"role": "tool", "tool_call_id": "call_0001", "content": [{"type": "tool_reference", "name": "ping"}]},
        ],
        "tools": [WEATHER, BARE_TOOL],
    },
    "schema for the answer": {
        "messages": [HELLO],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    },
    "function role": {"messages": [HELLO, {"role": "function", "name": "f", "content": "x"}]},
    "continued thought": {
        "messages": [HELLO, {"role": "assistant", "content": "The answer\n", "reasoning": "It is"}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "developer with parts": {
        "messages": [
            SYSTEM,
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            HELLO,
        ]
    },
}

_URL = "data:image/png;base64,AAAA"
_IMAGE = {"type": "image_url", "image_url": {"url": _URL, "detail": "low"}}
_NAMED_IMAGE = {"type": "image_url", "image_url": {"url": _URL}, "uuid": "sku-1"}


def asked(*parts: Any) -> dict[str, Any]:
    """A message of the user; a text is a part."""
    return {
        "role": "user",
        "content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts],
    }


# What stands for an image is `<image>` here, in the templates that take parts and before those that take texts.
IMAGES: dict[str, dict[str, Any]] = {
    "image after text": {"messages": [SYSTEM, asked("What is", _IMAGE, "this?")]},
    "image first": {"messages": [SYSTEM, asked(_IMAGE, "What is this?")]},
    "image alone": {"messages": [asked(_IMAGE)]},
    "two images": {"messages": [SYSTEM, asked("a", _IMAGE, "b", _NAMED_IMAGE), THOUGHT, asked("c", _IMAGE)]},
    "image in a later turn": {"messages": [SYSTEM, HELLO, THOUGHT, asked("And", _IMAGE)]},
    "image with tools": {"messages": [SYSTEM, asked("Look", _IMAGE)], "tools": [WEATHER]},
    "image in a result": {
        "messages": [
            SYSTEM,
            HELLO,
            CALL,
            {"role": "tool", "tool_call_id": "call_0001", "content": [{"type": "text", "text": "see"}, _IMAGE]},
        ]
    },
    "the text of an image": {"messages": [SYSTEM, asked("Is <image> a tag?", _IMAGE, _IMAGE)]},
}

COMPLETIONS: dict[str, dict[str, Any]] = {
    "text": {"prompt": " Hello, 你好 <|im_end|>\n"},
    "texts": {"prompt": ["a b", "c d e"]},
    "ids": {"prompt": [5, 6, 7]},
    "lists of ids": {"prompt": [[5, 6], [7]]},
    "echo": {"prompt": "Hello", "echo": True, "max_tokens": 0},
    "no special tokens": {"prompt": "Hello", "add_special_tokens": False},
    "empty": {"prompt": ""},
}

EMBEDDINGS: dict[str, dict[str, Any]] = {
    "text": {"input": "Hello"},
    "texts": {"input": ["a b", "c"]},
    "ids": {"input": [[5, 6], [7]]},
    "messages": {"messages": [SYSTEM, HELLO]},
    "messages with the cue": {"messages": [HELLO], "add_generation_prompt": True, "add_special_tokens": True},
    "messages as input": {"input": [SYSTEM, HELLO]},
    "continued": {"messages": [HELLO, {"role": "assistant", "content": "yes"}], "continue_final_message": True},
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
    "thoughts, text and calls": {
        "input": [
            {"role": "user", "content": "Weather?"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "22"}]},
            {"type": "function_call_output", "call_id": "c2", "output": "ok"},
        ]
    },
    "two thoughts and a summary": {
        "input": [
            {"role": "user", "content": "x"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
            {"role": "user", "content": "y"},
        ]
    },
    "developer": {
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"role": "user", "content": "x"},
        ]
    },
    "custom tools": {
        "tools": [
            {"type": "custom", "name": "patch", "description": "Applies a patch."},
            {"type": "web_search"},
            {"type": "function", "name": "f", "description": "d", "parameters": None, "strict": True},
        ],
        "input": [
            {"role": "user", "content": "x"},
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** é"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ],
    },
    "a namespace of tools": {
        "tools": [
            {
                "type": "namespace",
                "name": "files",
                "description": "d",
                "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
            }
        ],
        "input": [
            {"role": "user", "content": "x"},
            {"type": "function_call", "call_id": "c", "name": "read", "namespace": "files", "arguments": "{}"},
        ],
    },
    "no function among the tools": {"tools": [{"type": "web_search"}], "input": "x"},
    "no tools": {"tools": [], "input": "x"},
    "choice of none": {
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "tool_choice": "none",
        "input": "x",
    },
    "unfinished": {
        "input": [
            {"role": "user", "content": "x"},
            {
                "type": "message",
                "role": "assistant",
                "status": "incomplete",
                "content": [{"type": "output_text", "text": "The answer"}],
            },
        ]
    },
    "refusal": {
        "input": [
            {"role": "user", "content": "x"},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "user", "content": "y"},
        ]
    },
    "only the first text of an answer": {
        "input": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "type": "message",
                "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
            },
            {"role": "user", "content": "y"},
        ]
    },
    "options": {"input": "x", "chat_template_kwargs": {"enable_thinking": False}, "reasoning": {"effort": "high"}},
    "truncation on need": {"input": "x", "truncation": "auto"},
    "a call without a question": {
        "input": [
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
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
    "thinking with an effort": {
        "messages": [{"role": "user", "content": "x"}],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
    },
    "disabled with options": {
        "messages": [{"role": "user", "content": "x"}],
        "thinking": {"type": "disabled"},
        "chat_template_kwargs": {"enable_thinking": True},
    },
    "system in the middle": {
        "system": "Be kind.",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "system", "content": [{"type": "text", "text": "Now be brief."}]},
            {"role": "assistant", "content": "y"},
            {"role": "system", "content": "x-anthropic-billing-header: cch=2;"},
            {"role": "user", "content": "z"},
        ],
    },
    "results of several kinds": {
        "tools": [
            {"name": "f", "input_schema": {"type": "object"}, "strict": True},
            {"name": "g", "input_schema": {"type": "object"}, "defer_loading": True},
        ],
        "tool_choice": {"type": "any"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "redacted_thinking", "data": "AAAA"},
                    {"type": "thinking", "thinking": "a", "signature": "s"},
                    {"type": "thinking", "thinking": "b", "signature": "s"},
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
                    {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}],
                    },
                    {"type": "text", "text": "and"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t2",
                        "is_error": True,
                        "content": [{"type": "tool_reference", "tool_name": "g"}],
                    },
                ],
            },
        ],
    },
    "a result without content": {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
        ],
    },
    "a result told by the assistant": {
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "22"}]},
                ],
            },
            {"role": "user", "content": "y"},
        ],
    },
    "tools that change": {
        "tools": [{"name": "f", "input_schema": {}}, {"name": "g", "input_schema": {}, "defer_loading": True}],
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "system",
                "content": [
                    {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "g"}},
                    {
                        "type": "tool_addition",
                        "tool": {"type": "tool_definition", "definition": {"name": "h", "input_schema": {"a": 1}}},
                    },
                    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}},
                ],
            },
        ],
    },
    "an empty answer": {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "text", "text": ""}]},
            {"role": "user", "content": "y"},
        ],
    },
    "begun by the client": {
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "The answer is"}]
    },
}


# Endpoints without a template; recorded once.
PLAIN = {"completions": COMPLETIONS}
RENDERED = {"chat": CHATS | IMAGES, "responses": RESPONSES, "messages": MESSAGES, "embeddings": EMBEDDINGS}
_ALSO = {"messages": {"max_tokens": 8}}


def bodies(kinds: dict[str, dict[str, dict[str, Any]]] = RENDERED) -> list[tuple[str, str, dict[str, Any]]]:
    """(endpoint, name, body) of every request."""
    return [
        (endpoint, name, {"model": "tiny", **_ALSO.get(endpoint, {}), **body})
        for endpoint, cases in kinds.items()
        for name, body in cases.items()
    ]


def templates() -> dict[str, str]:
    """The templates by name; `tiny` is the packaged one."""
    found = {file.stem: file.read_text(encoding="utf-8") for file in sorted((HERE / "templates").glob("*.jinja"))}
    return found | {"tiny": (TINY / "chat_template.jinja").read_text(encoding="utf-8")}


def write_model(folder: Path, template: str) -> None:
    """The packaged model with another template, and with a first token that is put before every text."""
    for name in ("config.json", "generation_config.json"):
        shutil.copy(TINY / name, folder / name)
    tokenizer = json.loads((TINY / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["post_processor"] = FIRST_TOKEN
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    config = json.loads((TINY / "tokenizer_config.json").read_text(encoding="utf-8"))
    config |= {"bos_token": "<|endoftext|>", "add_bos_token": True, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
