"""The tree of what was sent, on small hand-made chains."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulator.rivals.prefix_tree import PrefixTree
from warmroute.worker import LaneKey

A, B, C = LaneKey(0), LaneKey(1), LaneKey(2)


def chain(path: str) -> "array[int]":
    """A chained hash for each letter: equal ones mean equal beginnings."""
    made, before = array("Q"), 7
    for letter in path:
        before = (before * 1_000_003 + ord(letter)) % 2**64
        made.append(before)
    return made


def test_an_empty_tree_knows_nothing() -> None:
    tree = PrefixTree()
    assert tree.remembered(chain("abc")) == (0, None)
    assert tree.holders(chain("abc"), (A, B)) == (0, [])
    assert tree.held(chain("abc")) == {}


def test_who_was_sent_which_part() -> None:
    tree = PrefixTree()
    tree.insert(chain("abcdef"), A)
    tree.insert(chain("abcxyz"), B)
    tree.insert(chain("ab"), C)
    assert tree.held(chain("abcdzz")) == {A: 4, B: 3, C: 2}
    assert tree.holders(chain("abcdzz"), (A, B, C)) == (4, [A])
    assert tree.holders(chain("abcdzz"), (B, C)) == (3, [B])
    assert tree.holders(chain("abcdzz"), (C,)) == (2, [C])
    assert tree.holders(chain("zz"), (A, B, C)) == (0, [])
    assert tree.sizes == {A: 6, B: 6, C: 2}


def test_the_remembered_holder_is_who_made_the_last_matched_block_known() -> None:
    tree = PrefixTree()
    tree.insert(chain("abcd"), A)
    tree.insert(chain("abcdxy"), B)
    assert tree.remembered(chain("abc")) == (3, A)
    assert tree.remembered(chain("abcdx")) == (5, B)
    tree.insert(chain("abcd"), C)
    assert tree.remembered(chain("abcd")) == (4, A)


def test_an_eviction_takes_the_ends_sent_longest_ago_until_the_size_is_met() -> None:
    tree = PrefixTree()
    tree.insert(chain("abcd"), A)
    tree.insert(chain("abxy"), A)
    tree.insert(chain("abcd"), B)
    tree.evict(5)
    assert tree.sizes == {A: 4, B: 4}
    assert tree.held(chain("abcd")) == {A: 2, B: 4}
    assert tree.held(chain("abxy")) == {A: 4, B: 2}
    tree.evict(0)
    assert tree.sizes == {A: 0, B: 0}
    assert tree.held(chain("abcd")) == {}


def test_where_the_creator_was_evicted_another_holder_is_remembered() -> None:
    tree = PrefixTree()
    tree.insert(chain("ab"), A)
    tree.insert(chain("ab"), B)
    tree.insert(chain("wxyz"), A)
    tree.evict(4)
    assert tree.remembered(chain("ab")) == (2, B)


@given(
    st.lists(st.tuples(st.text("abc", max_size=7), st.sampled_from((A, B, C))), max_size=25), st.text("abc", max_size=8)
)
def test_it_says_what_a_list_of_everything_sent_says(sent: list[tuple[str, LaneKey]], prompt: str) -> None:
    tree = PrefixTree()
    longest: dict[LaneKey, int] = {}
    for text, lane in sent:
        tree.insert(chain(text), lane)
        shared = next(
            (i for i in range(min(len(text), len(prompt))) if text[i] != prompt[i]), min(len(text), len(prompt))
        )
        longest[lane] = max(longest.get(lane, 0), shared)
    assert tree.held(chain(prompt)) == {lane: blocks for lane, blocks in longest.items() if blocks}
    most = max(longest.values(), default=0)
    blocks, holders = tree.holders(chain(prompt), (A, B, C))
    assert blocks == most
    assert sorted(holders) == sorted(lane for lane, blocks in longest.items() if blocks == most and most)
    known = {
        lane: {text[:end] for text, by in sent if by == lane for end in range(1, len(text) + 1)} for lane in longest
    }
    assert tree.sizes == {lane: len(texts) for lane, texts in known.items()}
