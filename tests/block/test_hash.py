"""Block hashes are the same in every process and every release: fixed values, and an independent XXH3 for the rest."""

import array
import pickle
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from block.xxh3 import xxh3_64
from warmroute.block import BlockHashes, Namespace, hash_blocks, root_hash

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=300)
NAMES = st.none() | st.text(st.characters(), max_size=300)
"""Half surrogate pairs included: JSON can carry them."""


def encoded(name: str | None) -> bytes:
    if name is None:
        return b"\0"
    data = name.encode("utf-8", "surrogatepass")
    return b"\1" + struct.pack("<Q", len(data)) + data


def twin_root(block_size: int, namespace: Namespace) -> int:
    names = encoded(namespace.adapter) + encoded(namespace.salt)
    return xxh3_64(b"warmroute/block/1" + struct.pack("<I", block_size) + names)


def mix(first: int, second: int) -> int:
    return xxh3_64(struct.pack("<QQ", first, second))


def twin_hashes(
    token_ids: Sequence[int], block_size: int, namespace: Namespace, keys: Sequence[bytes | None]
) -> list[int]:
    """The definition in the docstring of `warmroute.block`, line by line."""
    hashes = [twin_root(block_size, namespace)]
    for block in range(len(token_ids) // block_size):
        ids = token_ids[block * block_size : (block + 1) * block_size]
        content = xxh3_64(struct.pack(f"<{block_size}I", *ids))
        key = keys[block] if keys else None
        if key is not None:
            content = mix(content, xxh3_64(key))
        hashes.append(mix(hashes[-1], content))
    return hashes[1:]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x2D06800538D394C2), (b"a", 0xE6C632B61E964E1F), (b"abc", 0x78AF5F94892F3950)],
)
def test_the_twin_agrees_with_published_values(data: bytes, expected: int) -> None:
    assert xxh3_64(data) == expected


@pytest.mark.parametrize(
    ("tokens", "block_size", "namespace", "keys", "root", "blocks"),
    [
        (
            range(48),
            16,
            Namespace(),
            None,
            0x559F4402592CCDB7,
            [0xB7FC05EC9B966B3A, 0x51EACE336F89D9A8, 0xA580C405E3B32EC7],
        ),
        (
            range(8),
            4,
            Namespace("ad-1"),
            [None, b"image"],
            0xB23AC5D3F9BEE95F,
            [0x15BD59324CB5E173, 0x3FA6A2CB964DD594],
        ),
        ([2**32 - 1] * 64, 64, Namespace(None, "tenant"), None, 0x15513DC5E5416C0E, [0xC640781E3D5B7B37]),
    ],
)
def test_hashes_never_change(
    tokens: Sequence[int],
    block_size: int,
    namespace: Namespace,
    keys: list[bytes | None] | None,
    root: int,
    blocks: list[int],
) -> None:
    assert root_hash(block_size, namespace) == root
    assert hash_blocks(tokens, block_size, namespace, keys).to_list() == blocks


@given(TOKENS, st.integers(1, 70), NAMES, NAMES)
def test_hashes_are_those_of_the_twin(
    tokens: list[int], block_size: int, adapter: str | None, salt: str | None
) -> None:
    namespace = Namespace(adapter, salt)
    keys: list[bytes | None] = [None, b"", b"image" * 60] * 100
    assert root_hash(block_size, namespace) == twin_root(block_size, namespace)
    assert list(hash_blocks(tokens, block_size, namespace)) == twin_hashes(tokens, block_size, namespace, [])
    assert list(hash_blocks(tokens, block_size, namespace, keys)) == twin_hashes(tokens, block_size, namespace, keys)


@pytest.mark.parametrize("block_size", [128, 256, 257, 528, 1_056])
def test_large_blocks_are_those_of_the_twin(block_size: int) -> None:
    tokens = list(range(2 * block_size))
    assert list(hash_blocks(tokens, block_size, Namespace())) == twin_hashes(tokens, block_size, Namespace(), [])


def test_every_kind_of_sequence_gives_the_same_hashes() -> None:
    expected = hash_blocks(list(range(40)), 8, Namespace())
    for tokens in (tuple(range(40)), range(40), array.array("I", range(40)), array.array("q", range(40))):
        assert hash_blocks(tokens, 8, Namespace()) == expected
    assert hash_blocks(memoryview(array.array("I", range(80)))[::2], 8, Namespace()) == hash_blocks(
        list(range(0, 80, 2)), 8, Namespace()
    )


def test_a_prompt_without_a_full_block_has_no_hash() -> None:
    assert len(hash_blocks([], 16, Namespace())) == 0
    assert len(hash_blocks([1] * 15, 16, Namespace())) == 0


@pytest.mark.parametrize("token", [-1, 2**32, -(2**63), 2**64])
def test_a_token_id_out_of_range_is_named(token: int) -> None:
    with pytest.raises(ValueError, match=rf"token id {token} "):
        hash_blocks([0, token], 1, Namespace())


@pytest.mark.parametrize("tokens", ["text", [1, "2"], [None], [1.0], 7])
def test_what_is_no_token_id_is_refused(tokens: list[int]) -> None:
    with pytest.raises(TypeError):
        hash_blocks(tokens, 1, Namespace())


def test_impossible_block_sizes_and_keys_are_refused() -> None:
    for block_size in (0, -1, -(2**63)):
        with pytest.raises(ValueError, match="block_size must be positive"):
            hash_blocks([1], block_size, Namespace())
        with pytest.raises(ValueError, match="block_size must be positive"):
            root_hash(block_size, Namespace())
    with pytest.raises(ValueError, match="block_size must be below"):
        root_hash(2**32, Namespace())
    with pytest.raises(ValueError, match="fewer block keys than full blocks"):
        hash_blocks([1, 2], 1, Namespace(), [None])


def test_hashes_are_an_immutable_sequence() -> None:
    hashes = BlockHashes.from_list([1, 2**64 - 1, 3])
    assert (len(hashes), list(hashes), hashes[0], hashes[-2]) == (3, [1, 2**64 - 1, 3], 1, 2**64 - 1)
    for index in (3, -4, 2**40):
        with pytest.raises(IndexError):
            hashes[index]
    with pytest.raises(TypeError):
        hashes[0] = 1  # type: ignore[index]


def test_prefixes_equal_what_they_are_prefixes_of() -> None:
    hashes = BlockHashes.from_list([1, 2, 3])
    assert hashes.prefix(2) == BlockHashes.from_list([1, 2])
    assert hash(hashes.prefix(2)) == hash(BlockHashes.from_list([1, 2]))
    assert hashes.prefix(2) != hashes
    assert hashes.prefix(9) == hashes
    assert hashes.prefix(0) == BlockHashes.from_list([])
    assert hashes.prefix(2).prefix(3) == hashes.prefix(2)
    assert hashes != [1, 2, 3]


def test_hashes_survive_pickling() -> None:
    hashes = BlockHashes.from_list([1, 2, 3])
    assert pickle.loads(pickle.dumps(hashes.prefix(2))) == hashes.prefix(2)
