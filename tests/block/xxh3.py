"""XXH3-64 with seed 0, in plain Python: the independent word on what the block hashes must be.

Written after the specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, XXH3).
"""

from itertools import pairwise

MASK = 2**64 - 1
PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
PRIME64_4, PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRIME_MX1, PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def byteswap(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def rotate(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & MASK


def fold(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & MASK


def avalanche(h: int) -> int:
    h ^= h >> 37
    h = h * PRIME_MX1 & MASK
    return h ^ h >> 32


def avalanche_xxh64(h: int) -> int:
    h ^= h >> 33
    h = h * PRIME64_2 & MASK
    h ^= h >> 29
    h = h * PRIME64_3 & MASK
    return h ^ h >> 32


def xxh3_64(data: bytes) -> int:
    """The hash as an unsigned integer."""
    if len(data) <= 16:
        return short(data)
    if len(data) <= 128:
        return middle(data)
    if len(data) <= 240:
        return upper_middle(data)
    return long(data)


def short(data: bytes) -> int:
    n = len(data)
    if n == 0:
        return avalanche_xxh64(u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        return avalanche_xxh64(combined ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    if n <= 8:
        keyed = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h = keyed ^ rotate(keyed, 49) ^ rotate(keyed, 24)
        h = h * PRIME_MX2 & MASK
        h = (h ^ (h >> 35) + n) * PRIME_MX2 & MASK
        return h ^ h >> 28
    low = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
    high = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
    return avalanche((n + byteswap(low) + high + fold(low, high)) & MASK)


def mix16(data: bytes, at: int, secret: int) -> int:
    return fold(u64(data, at) ^ u64(SECRET, secret), u64(data, at + 8) ^ u64(SECRET, secret + 8))


def middle(data: bytes) -> int:
    n = len(data)
    acc = n * PRIME64_1
    for i in range((n - 1) // 32 + 1):
        acc += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
    return avalanche(acc & MASK)


def upper_middle(data: bytes) -> int:
    n = len(data)
    acc = avalanche((n * PRIME64_1 + sum(mix16(data, 16 * i, 16 * i) for i in range(8))) & MASK)
    acc += sum(mix16(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16))
    return avalanche((acc + mix16(data, n - 16, 136 - 17)) & MASK)


def accumulate(acc: list[int], data: bytes, at: int, secret: int) -> None:
    for i in range(8):
        value = u64(data, at + 8 * i)
        key = value ^ u64(SECRET, secret + 8 * i)
        acc[i ^ 1] = (acc[i ^ 1] + value) & MASK
        acc[i] = (acc[i] + (key & 0xFFFFFFFF) * (key >> 32)) & MASK


def long(data: bytes) -> int:
    n = len(data)
    acc = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    starts = [*range(0, n - 1, 1024), n - 1]
    for block, (start, end) in enumerate(pairwise(starts)):
        for stripe in range((end - start) // 64):
            accumulate(acc, data, start + 64 * stripe, 8 * stripe)
        if block < (n - 1) // 1024:
            acc = [(a ^ a >> 47 ^ u64(SECRET, 128 + 8 * i)) * PRIME32_1 & MASK for i, a in enumerate(acc)]
    accumulate(acc, data, n - 64, 192 - 64 - 7)
    folded = (fold(acc[i] ^ u64(SECRET, 11 + 8 * i), acc[i + 1] ^ u64(SECRET, 19 + 8 * i)) for i in range(0, 8, 2))
    return avalanche((n * PRIME64_1 + sum(folded)) & MASK)
