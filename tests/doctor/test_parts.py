"""The doctor's parts against their plain twins."""

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from warmroute.doctor.arrangement import Arrangement, renumbered, unnumbered
from warmroute.doctor.ending import with_text_at_end
from warmroute.doctor.kinds.forms import json_in_one_form, one_white_space
from warmroute.doctor.leaves import leaves_of, messages_of, replaced, value_at, with_messages
from warmroute.doctor.page.sides import side
from warmroute.doctor.prompt_blocks import BoundedCache, EndlessCache, first_missing
from warmroute.doctor.transcript import transcript, written
from warmroute.doctor.units import common_prefix, units
from warmroute.openai_api import Endpoint

_PROSE = st.text(alphabet="ab .!?\n。3", max_size=60)
_TURNS = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), _PROSE), min_size=1, max_size=6)


@given(_PROSE)
def test_units_are_the_text(text: str) -> None:
    assert "".join(units(text)) == text


def test_a_number_with_a_full_stop_ends_no_unit() -> None:
    assert units("Heute ist der 3. März. Es gilt: ja! Gut\n\nNein。はい。") == [
        "Heute ist der 3. März. ", "Es gilt: ja! ", "Gut\n\n", "Nein。", "はい。"
    ]  # fmt: skip


@given(_PROSE, _PROSE)
def test_the_common_beginning_is_that_found_by_looking_at_each(a: str, b: str) -> None:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    assert common_prefix(a, b) == len(list(same))


@given(st.lists(st.integers(0, 3), max_size=8), st.sets(st.integers(0, 3)))
def test_leading_blocks_are_those_found_by_looking_at_each(path: list[int], held: set[int]) -> None:
    chained = [hash(tuple(path[: at + 1])) for at in range(len(path))]
    known = {hash(tuple(path[: at + 1])) for at in range(len(path)) if at < len(held)}
    assert first_missing(chained, known) == len(list(takewhile(known.__contains__, chained)))


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=20))
def test_a_cache_with_room_for_all_is_an_endless_one(paths: list[list[int]]) -> None:
    bounded, endless = BoundedCache(2**20), EndlessCache()
    for path in paths:
        chained = [hash(tuple(path[: at + 1])) for at in range(len(path))]
        assert bounded.put(chained) == endless.put(chained)


def test_a_bounded_cache_keeps_what_is_used() -> None:
    cache = BoundedCache(100)
    for number in range(100):
        cache.put([number * 10 + at for at in range(10)])
        assert cache.put([5_001, 5_002, 5_003]) == (3 if number else 0)
    assert cache.put([0, 1]) == 0
    assert cache.dropped > 0


@given(_TURNS)
def test_a_transcript_is_the_prompt(turns: list[tuple[str, str]]) -> None:
    prompt = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)
    found = transcript(prompt)
    if found is not None:
        assert written(found) == prompt
        body = {"prompt": prompt}
        messages = messages_of(body, Endpoint.COMPLETIONS)
        assert with_messages(body, Endpoint.COMPLETIONS, messages) == body
        for leaf in leaves_of(body, Endpoint.COMPLETIONS):
            assert value_at(body, leaf.path) == leaf.text
            assert replaced(body, leaf.path, leaf.text) == body


def test_the_end_of_each_dialect() -> None:
    text = "Now: 3"
    chat = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}
    called = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "f()"}]}
    item = {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}
    assert with_text_at_end(chat, Endpoint.CHAT, text)["messages"][0]["content"][0]["text"] == "Hi\n\nNow: 3"
    assert with_text_at_end(called, Endpoint.CHAT, text)["messages"][2] == {"role": "user", "content": text}
    assert with_text_at_end({"input": "Hi"}, Endpoint.RESPONSES, text) == {"input": "Hi\n\nNow: 3"}
    assert with_text_at_end(item, Endpoint.RESPONSES, text)["input"][0]["content"][1] == {
        "type": "input_text",
        "text": text,
    }
    assert with_text_at_end({"prompt": "A\n\nQ?"}, Endpoint.COMPLETIONS, text) == {"prompt": "A\n\nNow: 3\n\nQ?"}


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_an_arrangement_makes_orders_equal(a: list[int], b: list[int]) -> None:
    arrangement = Arrangement.of([a, b])
    assert arrangement.arranged(a, a) == arrangement.arranged(b, b)
    assert sorted(arrangement.arranged(a, a)) == sorted(a)


def test_numbers_that_count_stay_in_order() -> None:
    before = ["Example 1: a 7", "Example 2: b"]
    assert [unnumbered(each) for each in before] == ["Example #: a 7", "Example #: b"]
    assert renumbered(before[::-1], before) == ["Example 1: b", "Example 2: a 7"]
    assert renumbered(["x 7", "y 3"], ["y 3", "x 7"]) == ["x 7", "y 3"]


@given(_PROSE)
def test_one_form_is_a_form(text: str) -> None:
    assert one_white_space(one_white_space(text)) == one_white_space(text)
    assert json_in_one_form(json_in_one_form(text)) == json_in_one_form(text)


def test_json_in_one_form() -> None:
    assert json_in_one_form('a {"b": 1,\n "a": {"d": [], "c": 2}} {x}') == 'a {"a": {"c": 2, "d": []}, "b": 1} {x}'


@given(_PROSE, _PROSE)
def test_sides_are_the_texts(a: str, b: str) -> None:
    left, right = side(a, b), side(b, a)
    assert (left.begin, left.end) == (right.begin, right.end)
    own = left.own.replace("␊\n", "\n").replace("␣", " ")
    assert left.begin + own + left.end == a
