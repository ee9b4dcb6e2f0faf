"""Where tokenizers come from, and how they treat what is not a plain chat."""

import json
import os
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from warmroute.errors import ModelAssetError, TemplateError
from warmroute.openai_api import ChatContent, Endpoint, Prompt, TextContent, TokenContent
from warmroute.tokenizer import Dialect, LocalTokenizer, TokenIds, packaged_model

TINY = LocalTokenizer.load("warmroute-tiny")
HELLO = {"role": "user", "content": "Hello"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_bytes((packaged_model("warmroute-tiny") / "tokenizer.json").read_bytes())
    return tmp_path


def configure(folder: Path, **config: Any) -> LocalTokenizer:
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return LocalTokenizer.load(folder)


def test_a_folder_and_the_packaged_name_are_the_same_tokenizer() -> None:
    folder = packaged_model("warmroute-tiny")
    for source in (folder, str(folder)):
        assert LocalTokenizer.load(source).render_chat([HELLO]) == TINY.render_chat([HELLO])


def test_a_batch_gives_the_ids_of_the_first_and_the_sum_of_all() -> None:
    contents = (TextContent("one two"), TokenContent((1, 2, 3)), ChatContent([HELLO]))
    lengths = [TINY.encode(Prompt(Endpoint.COMPLETIONS, contents=(content,))).total for content in contents]
    tokens = TINY.encode(Prompt(Endpoint.COMPLETIONS, contents=contents))
    assert tokens == TokenIds(TINY.encode_text("one two", add_special_tokens=True), sum(lengths))
    assert TINY.encode(Prompt(Endpoint.OTHER)) == TokenIds(array("I"), 0)


def test_a_template_of_the_client_is_refused_unless_the_model_has_it() -> None:
    own = (packaged_model("warmroute-tiny") / "chat_template.jinja").read_text(encoding="utf-8")
    assert TINY.render_chat([HELLO], chat_template=own) == TINY.render_chat([HELLO])
    with pytest.raises(TemplateError):
        TINY.render_chat([HELLO], chat_template="{{ messages }}")


def test_named_templates(folder: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    tokenizer = configure(folder, chat_template=named)
    assert tokenizer.render_chat([HELLO]) == "plain"
    assert tokenizer.render_chat([HELLO], tools=[{"function": {"name": "f"}}]) == "tools"
    assert tokenizer.render_chat([HELLO], chat_template="tool_use") == "tools"


def test_a_template_file_comes_before_the_configuration(folder: Path) -> None:
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "processor"}))
    assert configure(folder).render_chat([HELLO]) == "processor"
    assert configure(folder, chat_template="configured").render_chat([HELLO]) == "configured"
    (folder / "chat_template.jinja").write_text("file")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("tools")
    tokenizer = configure(folder, chat_template="configured")
    assert tokenizer.render_chat([HELLO]) == "file"
    assert tokenizer.render_chat([HELLO], tools=[]) == "tools"


def test_special_tokens_by_name(folder: Path) -> None:
    (folder / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<a>", "eos_token": "<b>"}))
    tokenizer = configure(
        folder,
        eos_token={"__type": "AddedToken", "content": "<c>"},
        unk_token=None,
        additional_special_tokens=["<d>", {"content": "<e>"}],
        chat_template="{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ additional_special_tokens | join }}",
    )
    assert tokenizer.render_chat([HELLO]) == "<a><c><d><e>"
    assert tokenizer.render_chat([HELLO], template_options={"bos_token": "<x>"}) == "<x><c><d><e>"


def test_a_client_cannot_replace_the_conversation_through_its_options() -> None:
    options = {"messages": [], "add_generation_prompt": False}
    assert TINY.render_chat([HELLO], template_options=options) == TINY.render_chat([HELLO])


def test_a_model_without_template_encodes_text_but_no_chat(folder: Path) -> None:
    tokenizer = LocalTokenizer.load(folder)
    assert tokenizer.encode_text("Hello", add_special_tokens=True)
    with pytest.raises(TemplateError, match="no chat template"):
        tokenizer.render_chat([HELLO])


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_surrogate_pair_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(TemplateError):
        TINY.encode_text(text, add_special_tokens=False)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": text})}}
    chat = ChatContent([{"role": "assistant", "content": "", "tool_calls": [call]}])
    with pytest.raises(TemplateError):
        TINY.encode(Prompt(Endpoint.CHAT, contents=(chat,)))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": 5},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"type": "file"}]},
        {"role": "user", "content": [{"type": []}]},
        {"role": "user", "content": [{"type": "text", "text": 5}]},
        {"role": "assistant", "content": "", "tool_calls": 5},
        {"role": "assistant", "content": "", "tool_calls": [5]},
        {"role": "assistant", "content": "", "tool_calls": [{"function": "f"}]},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": []}}, {}]},
    ],
)
def test_a_conversation_that_no_engine_takes_is_a_template_error(message: dict[str, Any]) -> None:
    with pytest.raises(TemplateError):
        TINY.render_chat([message])


@pytest.mark.parametrize("tools", [[{}], [{"function": 5}], [{"function": {"name": 5}}]])
def test_tools_that_no_engine_takes_are_a_template_error(tools: list[dict[str, Any]]) -> None:
    with pytest.raises(TemplateError):
        TINY.render_chat([HELLO], tools=tools)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("/no/such/folder", "no folder"),
        ("./nothing", "no folder"),
        (Path("nothing/here"), "no folder"),
        ("a/b/c", "no folder"),
        ("not a hub id!", "neither a folder, a packaged model nor a hub id"),
        ("..", "tokenizer.json"),
    ],
)
def test_a_source_that_is_nothing_says_what_was_looked_for(source: str | Path, says: str) -> None:
    with pytest.raises(ModelAssetError, match=says):
        LocalTokenizer.load(source)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", "{"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"chat_template": "{% if %}"}'),
        ("special_tokens_map.json", "5"),
        ("chat_template.jinja", "{{"),
    ],
)
def test_a_broken_file_is_named(folder: Path, file: str, content: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(ModelAssetError, match=str(folder)):
        LocalTokenizer.load(folder)


LOAD = "import sys; from warmroute.tokenizer import LocalTokenizer; print(LocalTokenizer.load(sys.argv[1]).vocab_size)"


def load_offline(home: Path, source: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the hub's client reads its environment once."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", LOAD, source]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)


def test_a_hub_id_is_found_in_the_hubs_cache_without_a_network(tmp_path: Path) -> None:
    repo = tmp_path / "hub" / "models--some--model"
    snapshot = repo / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("a" * 40)
    for file in packaged_model("warmroute-tiny").iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())
    found = load_offline(tmp_path, "some/model")
    assert (found.stdout, found.returncode) == ("4096\n", 0), found.stderr


def test_a_hub_id_that_is_nowhere_names_the_next_step(tmp_path: Path) -> None:
    missing = load_offline(tmp_path, "some/model")
    assert missing.returncode == 1
    assert "ModelAssetError" in missing.stderr
    assert "hf download some/model" in missing.stderr


def test_a_model_whose_conversations_are_written_by_code_is_told_by_its_texts_only(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "gpt_oss"}')
    tokenizer = configure(folder, chat_template="{{ messages[0].content }}")
    with pytest.raises(TemplateError, match="by code"):
        tokenizer.render_chat([HELLO])
    assert tokenizer.render(ChatContent([HELLO]), Dialect.SGLANG) == "Hello"
    assert tokenizer.encode_text("Hello", add_special_tokens=False)


def test_a_template_of_the_client_is_rendered_where_clients_are_trusted(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("model")
    trusting = LocalTokenizer.load(folder, trust_request_chat_template=True)
    chat = ChatContent([HELLO], chat_template="client {{ messages | length }}")
    assert trusting.render(chat) == "client 1"
    assert trusting.render(chat, Dialect.SGLANG) == "model"
    with pytest.raises(TemplateError, match="cannot be read"):
        trusting.render_chat([HELLO], chat_template="{% for")
