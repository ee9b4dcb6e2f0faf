"""A conversation with images is told up to the first one, and never further, whatever the template does with it."""

import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.openai_api import ChatContent
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.conversation import engine_messages
from warmroute.tokenizer.dialect import Dialect, Rendered, render
from warmroute.tokenizer.told_prefix import MARK, told_prefix

IMAGE = {"type": "image_url", "image_url": {"url": "u"}}
PAD = "<|vision_start|><|image_pad|><|vision_end|>"
IN_ORDER = (
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}" + PAD + "{% elif 'text' in part %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %};{% endfor %}"
)
NUMBERED = IN_ORDER.replace(PAD, "{% set n.images = n.images + 1 %}Picture {{ n.images }}: " + PAD, 1).replace(
    "{% for m", "{% set n = namespace(images=0) %}{% for m", 1
)
TRIMMED = IN_ORDER.replace("{{ part.text }}", "{{ part.text | trim }} ")
GATHERED = (
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content if part.type == 'image' %}[IMG]{% endfor %}"
    "{% for part in m.content if part.type == 'text' %}{{ part.text }}{% endfor %}"
    "{% endif %};{% endfor %}"
)
ALL_FIRST = (
    "{% for m in messages %}{% for part in m.content if part.type == 'image' %}<image>{% endfor %}{% endfor %}\n"
    "{% for m in messages %}{% for part in m.content if part.type == 'text' %}{{ part.text }}{% endfor %};{% endfor %}"
)
COUNTED = (
    "{{ messages | length }} messages, {% for m in messages %}{{ m.content | length }} {% endfor %}parts\n" + IN_ORDER
)
# As Qwen3: the thoughts of turns before the last question are left out.
FORGETFUL = (
    "{% set last = messages | selectattr('role', 'equalto', 'user') | list | last %}"
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.reasoning_content and loop.index0 > messages.index(last) %}({{ m.reasoning_content }}){% endif %}"
    "{% for part in m.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    ";{% endfor %}"
)
STRINGS = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }};{% endfor %}"
PLACEHOLDER = re.compile(r"<\|vision_start\|>|<\|image_pad\|>|\[IMG\]|<image>")


def user(*parts: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": "user", "content": content}


def rendered(source: str, messages: list[Any], dialect: Dialect = Dialect.VLLM) -> Rendered:
    template = ChatTemplate(source, lambda: datetime(2026, 3, 9))
    return render(ChatContent(messages), template, {}, dialect)


CONVERSATION = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi!", "reasoning_content": "They greet."},
    user("What is ", IMAGE, "this, and", IMAGE, "that?"),
]
BEFORE = "<system>Be kind.;<user>Hello;<assistant>Hi!;"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (IN_ORDER, BEFORE + "<user>What is "),
        (NUMBERED, BEFORE + "<user>What is Picture 1: "),
        (TRIMMED, "<system>Be kind. ;<user>Hello ;<assistant>Hi! ;<user>What is "),
        (GATHERED, BEFORE + "<user>"),
        (ALL_FIRST, ""),
        (COUNTED, "4 messages, 1 1 1 5 parts\n" + BEFORE + "<user>What is "),
        (STRINGS, BEFORE + "<user>"),
    ],
)
def test_vllm_is_followed_up_to_the_first_image(source: str, text: str) -> None:
    found = rendered(source, CONVERSATION)
    if source == NUMBERED:
        # The number belongs to what stands for the image; that it is told or not is all the same.
        assert text.startswith(found.text)
        assert found.text.startswith(BEFORE + "<user>What is ")
    else:
        assert found.text == text
    assert not found.complete


def test_what_comes_later_decides_how_earlier_turns_are_written() -> None:
    """Rendering only the messages before the image would show thoughts that the engine leaves out."""
    source = FORGETFUL.replace("messages.index(last)", "(messages | length) - 2")
    assert rendered(source, CONVERSATION).text == BEFORE + "<user>What is "


def test_the_image_of_a_text_that_is_alone_in_its_message() -> None:
    assert rendered(IN_ORDER, [user(IMAGE)]).text == "<user>"
    assert rendered(STRINGS, [user(IMAGE)]).text == "<user>"


def test_what_stands_for_an_image_may_be_in_a_text_of_the_client() -> None:
    """The engine takes the first one that it finds for the place of the image."""
    assert rendered(IN_ORDER, [user("Is <|image_pad|> a token?"), user("See", IMAGE)]).text == "<user>Is "
    assert rendered(GATHERED, [user("Is [IMG] a token?"), user("See", IMAGE)]).text == "<user>Is "
    assert rendered(GATHERED, [user("[IMG] is", IMAGE)]).text == "<user>"
    assert rendered(IN_ORDER, [user("Is [IMG] a token?", IMAGE)]).text == "<user>Is [IMG] a token?", "not of this one"


def test_a_conversation_without_images_is_told_whole() -> None:
    for source in (IN_ORDER, GATHERED, STRINGS):
        assert rendered(source, CONVERSATION[:3]).complete


def test_a_template_that_drops_the_parts_tells_nothing() -> None:
    assert rendered("{% for m in messages %}{% for p in m.content %}x{% endfor %}{% endfor %}", CONVERSATION).text == ""


def test_sglang_is_followed_up_to_the_first_image() -> None:
    assert rendered(IN_ORDER, CONVERSATION, Dialect.SGLANG).text == BEFORE + "<user>What is "
    assert rendered(GATHERED.replace("[IMG]", "<image>"), CONVERSATION, Dialect.SGLANG).text == BEFORE + "<user>"
    told = rendered(STRINGS, CONVERSATION, Dialect.SGLANG)
    assert (told.text, told.complete) == ("", False), "nothing in the text stands for an image"


TEXTS = st.text(alphabet="ab <|>[]\n", max_size=6)
PARTS = st.lists(TEXTS | st.just(IMAGE), min_size=1, max_size=4)
TURNS = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXTS | PARTS), min_size=1, max_size=4)


@given(st.sampled_from([IN_ORDER, NUMBERED, TRIMMED, GATHERED, COUNTED]), TURNS)
def test_it_is_a_prefix_of_what_the_engine_renders_and_before_any_image(source: str, turns: list[Any]) -> None:
    messages = [
        {**user(*content), "role": role} if isinstance(content, list) else {"role": role, "content": content}
        for role, content in turns
    ]
    template = ChatTemplate(source, lambda: datetime(2026, 3, 9))
    actual = template.render(engine_messages(messages, template.takes_parts, False), {"add_generation_prompt": True})
    found = rendered(source, messages)
    assert actual.startswith(found.text)
    if any(IMAGE in content for _, content in turns if isinstance(content, list)):
        first = PLACEHOLDER.search(actual)
        assert first is not None
        assert len(found.text) <= first.start()
    else:
        assert (found.text, found.complete) == (actual, True)


@given(st.text(alphabet="ab<>", max_size=12), st.text(alphabet="ab<>", max_size=12))
def test_any_two_texts(actual: str, marked: str) -> None:
    for text in (marked, marked + MARK, marked[:3] + MARK + marked[3:] + MARK):
        told = told_prefix(actual, text)
        assert actual.startswith(told)
        assert text.startswith(told)
