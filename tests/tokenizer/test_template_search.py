"""Searching backwards in linear time, beside Python's own methods."""

from hypothesis import given
from hypothesis import strategies as st

from warmroute.tokenizer.template_bounds.search import rfind, rpartition, rsplit

TEXTS = st.text("ab", max_size=30)
NEEDLES = st.text("ab", min_size=1, max_size=4)


@given(TEXTS, NEEDLES)
def test_rfind(text: str, needle: str) -> None:
    assert rfind(text, needle) == text.rfind(needle)


@given(TEXTS, NEEDLES)
def test_rpartition(text: str, needle: str) -> None:
    assert rpartition(text, needle) == text.rpartition(needle)


@given(TEXTS, NEEDLES, st.integers(-1, 4))
def test_rsplit(text: str, needle: str, most: int) -> None:
    assert rsplit(text, needle, most) == text.rsplit(needle, most)
