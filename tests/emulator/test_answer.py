"""Answers depend on the prompt alone, and come back as the tokens they were."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.serving import tiny
from warmroute.emulator.answer import AnswerBook

BOOK = AnswerBook(tiny(), "m", answer_tokens=50)
_PROMPTS = st.lists(st.integers(0, 1000), min_size=1, max_size=20)


@settings(deadline=None)
@given(_PROMPTS, st.integers(1, 80), st.integers(1, 80))
def test_a_shorter_answer_is_the_beginning_of_a_longer_one(prompt: list[int], one: int, other: int) -> None:
    short, long = sorted((one, other))
    first, second = BOOK.write(prompt, short), BOOK.write(prompt, long)
    assert second.token_ids[: len(first.token_ids)] == first.token_ids
    assert BOOK.write(prompt, long, ignore_eos=True).token_ids[: len(second.token_ids)] == second.token_ids


@settings(deadline=None, max_examples=50)
@given(_PROMPTS, st.integers(1, 80))
def test_the_text_gives_the_same_tokens_again(prompt: list[int], length: int) -> None:
    answer = BOOK.write(prompt, length, ignore_eos=True)
    assert len(answer.token_ids) == len(answer.pieces) == length
    assert list(tiny().encode_text(answer.text, add_special_tokens=False)) == list(answer.token_ids)
    assert tiny().decode(answer.token_ids) == answer.text


def test_other_prompts_and_models_get_other_answers() -> None:
    answers = {BOOK.write([number], 30, ignore_eos=True).text for number in range(50)}
    other = AnswerBook(tiny(), "n", answer_tokens=50)
    assert len(answers | {other.write([1], 30, ignore_eos=True).text}) == 51


def test_an_answer_is_made_of_words() -> None:
    text = BOOK.write([1, 2, 3], 40, ignore_eos=True).text
    words = text.replace(".", " ").split()
    assert len(words) >= 30
    assert all(word.isalpha() for word in words)


def test_the_reason_of_the_end() -> None:
    natural = BOOK.write([1], 1000)
    assert natural.finish_reason == "stop"
    assert 25 <= len(natural.token_ids) <= 75
    assert BOOK.write([1], len(natural.token_ids)).finish_reason == "length"
