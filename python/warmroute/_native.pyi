"""The Rust core. Private: use `warmroute.block`, `warmroute.prefix_index` and `warmroute.gateway`."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Literal, Self, final

__version__: str

# --- index ---

__all__ = [
    "BlockHashes",
    "Overlap",
    "PrefixIndex",
    "StoreResult",
    "__build__",
    "__version__",
    "hash_blocks",
    "root_hash",
]

__build__: str
"""`debug` or `release`."""

@final
class BlockHashes:
    """An immutable sequence of chained block hashes, unsigned 64-bit, block 0 first."""

    @staticmethod
    def from_list(hashes: Sequence[int]) -> BlockHashes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> BlockHashes:
        """What `to_bytes` gave. ValueError where the length is no multiple of 8."""

    def to_bytes(self) -> bytes:
        """8 bytes for each hash, little-endian: what `array('Q')` and numpy read."""

    def extend(self, count: int, seed: int) -> BlockHashes:
        """Continued by `count` blocks whose tokens are not known: stand-ins that only the same seed gives again."""

    def prefix(self, blocks: int) -> BlockHashes:
        """The first `blocks` hashes (all of them where there are fewer), sharing memory with this sequence."""

    def to_list(self) -> list[int]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Overlap:
    """The leading blocks of a prompt that one worker holds, each counted once under its best source."""

    __match_args__: Final = ("device", "host", "disk", "remote", "predicted")

    def __new__(cls, device: int = 0, host: int = 0, disk: int = 0, remote: int = 0, predicted: int = 0) -> Overlap: ...
    @property
    def device(self) -> int: ...
    @property
    def host(self) -> int: ...
    @property
    def disk(self) -> int: ...
    @property
    def remote(self) -> int: ...
    @property
    def predicted(self) -> int: ...
    @property
    def blocks(self) -> int:
        """All of them."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class StoreResult:
    """What became of the blocks of one store; all but `linked` add up to the number of blocks in it."""

    @property
    def stored(self) -> int:
        """Blocks now held in that tier that were not before."""

    @property
    def duplicate(self) -> int:
        """Further copies of blocks that the tier held already."""

    @property
    def orphaned(self) -> int:
        """Blocks whose parent is unknown, held back until it is stored."""

    @property
    def rejected(self) -> int:
        """Blocks of a store that contradicts itself: skipped as a whole."""

    @property
    def ignored(self) -> int:
        """Blocks of a worker that is not (or no longer) known."""

    @property
    def linked(self) -> int:
        """Earlier orphans that found their parent through this store."""

def root_hash(block_size: int, adapter: str | None, salt: str | None) -> int:
    """The hash from which the chains of one namespace start. ValueError when `block_size` is not positive."""

def hash_blocks(
    token_ids: Sequence[int], block_size: int, root: int, block_keys: Sequence[bytes | None] | None = None
) -> BlockHashes:
    """Chained hashes of the full blocks of `token_ids` (ints below 2**32; fastest as a list or a buffer of uint32).

    ValueError for a token id out of range, a block size of 0 or fewer keys than full blocks; TypeError for other types.
    """

@final
class PrefixIndex:
    """Which worker holds which block, in which tier. Safe to share between threads."""

    def __new__(cls, orphan_limit: int = 65536) -> PrefixIndex: ...
    def add_worker(self, worker: int, prediction_limit: int) -> None: ...
    def set_limits(
        self,
        worker: int,
        device: int | None = None,
        host: int | None = None,
        disk: int | None = None,
        remote: int | None = None,
    ) -> None: ...
    def forget(self, worker: int) -> int: ...
    def clear(self, worker: int) -> int: ...
    def store(
        self,
        worker: int,
        tier: int,
        parent: int | bytes | None,
        engine_hashes: Sequence[int | bytes],
        token_ids: Sequence[int],
        block_size: int,
        root: int,
        block_keys: Sequence[bytes | None] | None = None,
    ) -> StoreResult: ...
    def store_known(self, worker: int, tier: int, engine_hashes: Sequence[int | bytes]) -> int: ...
    def remove(self, worker: int, tier: int, engine_hashes: Sequence[int | bytes]) -> int: ...
    def predict(self, worker: int, hashes: BlockHashes, expires_at: float) -> None: ...
    def truncate(self, worker: int, hashes: BlockHashes, keep: int) -> int: ...
    def expire(self, now: float) -> int: ...
    def match(self, hashes: BlockHashes, now: float, among: set[int] | None = None) -> dict[int, Overlap]: ...
    def holders(self, hashes: BlockHashes, now: float, most: int) -> list[int]: ...
    def dump(self, worker: int) -> bytes: ...
    def restore(self, worker: int, dump: bytes) -> int: ...
    @staticmethod
    def check_dump(dump: bytes) -> int: ...
    def workers(self) -> list[int]: ...
    def blocks(self, worker: int) -> int: ...
    def block_sizes(self, worker: int) -> dict[int, int]: ...
    def worker_stats(self, worker: int) -> dict[str, int]: ...
    def size(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def check_integrity(self) -> None: ...

# --- kv events ---

__all__ += ["ApplyReport", "EventLane"]

@final
class ApplyReport:
    """What a batch did. Numbers of blocks, but for `cleared`, `reloaded` and `rejected`, which count events."""

    stored: int
    """Now held in a tier that did not hold them before."""
    duplicate: int
    """Further copies of what a tier held already."""
    orphaned: int
    """Held back: the parent is unknown."""
    linked: int
    """Earlier orphans that found their parent."""
    removed: int
    """Copies that left a tier."""
    unindexed: int
    """Left out on purpose: their tokens are not told, or their cache group serves no prefixes."""
    cleared: int
    """The engine dropped its whole prefix cache."""
    reloaded: int
    """An adapter came back under its name as another loading, and all blocks of the lane were dropped for it."""
    rejected: int
    """Could not be read, or contradict themselves."""
    rejections: list[str]
    """Why, for the first few; a copy."""

    def __new__(
        cls,
        *,
        stored: int = 0,
        duplicate: int = 0,
        orphaned: int = 0,
        linked: int = 0,
        removed: int = 0,
        unindexed: int = 0,
        cleared: int = 0,
        reloaded: int = 0,
        rejected: int = 0,
        rejections: Sequence[str] = ...,
    ) -> Self: ...
    def reject(self, reason: str) -> None:
        """Counts a rejected event."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class EventLane:
    """The way of one lane's payloads into an index. Use `warmroute.kv_event.EventApplier`."""

    def __new__(cls, index: PrefixIndex, lane: int) -> Self: ...
    def apply(self, payload: bytes) -> ApplyReport:
        """Applies one batch. ValueError if it is none. Releases the GIL."""

    def apply_many(self, payloads: Sequence[bytes]) -> list[tuple[int, ApplyReport | str]]:
        """Applies batches in their order. Releases the GIL once.

        Their reports in that order, each with the number of batches that it is of: several in a row where nothing is
        cleared. For what is no batch the reason.
        """

    def reset(self) -> None: ...

# --- tokens ---

__all__ += ["Encoder", "SegmentStats"]

@final
class Encoder:
    """A `tokenizer.json` with a cache of segments. Ids are bytes of uint32 in the machine's order. From any thread."""

    def __new__(
        cls,
        definition: bytes,
        declared: Sequence[tuple[str, tuple[bool, bool, bool, bool, bool]]],
        named: Sequence[tuple[str, tuple[bool, bool, bool, bool, bool]]],
        cache_bytes: int,
    ) -> Self:
        """From the bytes of a `tokenizer.json`; keeps about `cache_bytes` of segments. ValueError if it is none.

        `declared` are tokens that stand elsewhere: a text, and whether it is special, normalized, lstrip, rstrip and
        single_word; `named` are added only if they are not by then.
        """

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        """The ids of `text`, equal to `encode_whole`'s. ValueError for half a surrogate pair."""

    def encode_prefix(self, text: str, add_special_tokens: bool) -> bytes:
        """The leading ids of every text that begins with `text`. ValueError as above."""

    def encode_whole(self, text: str, add_special_tokens: bool) -> bytes:
        """The ids of `text`, encoded in one go without the cache. ValueError as above."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def added_tokens(self) -> list[tuple[int, str]]: ...
    @property
    def seams(self) -> list[str]:
        """The kinds of places at which long texts are proven to be cut without harm."""

    def stats(self) -> SegmentStats: ...

@final
class SegmentStats:
    """What the segment cache holds, and how much of the texts it was asked for it had; in bytes."""

    @property
    def segments(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def asked_bytes(self) -> int: ...
    @property
    def found_bytes(self) -> int: ...

# --- plain chats ---

__all__ += ["Conversations", "PlainChat", "PlainUnknown"]

@final
class PlainChat:
    """A body of the chat endpoint that holds texts and nothing that changes how they are rendered."""

    model: Final[str | None]
    stream: Final[bool]
    max_tokens: Final[int | None]
    signature: Final[str]
    """One letter for each message: system, user, assistant."""
    body_bytes: Final[int]
    @staticmethod
    def read(body: bytes) -> PlainChat | None:
        """None for a body that is more than plain, or none at all: it has to be read with more care."""

@final
class PlainUnknown:
    """Why the ids of a plain chat were not told."""

    SIGNATURE: ClassVar[PlainUnknown]
    """What the template writes for its roles has not been learned."""
    CONTENT: ClassVar[PlainUnknown]
    """The template does something else with one of its contents."""
    LONG: ClassVar[PlainUnknown]
    """More of it is new than was allowed."""
    def __int__(self) -> int: ...

@final
class Conversations:
    """Plain chats with one template and one tokenizer; keeps the ids of those that go on. From any thread."""

    def __new__(cls, encoder: Encoder, cache_bytes: int) -> Self: ...
    def knows(self, signature: str) -> bool:
        """Whether it has been learned, and not been dropped since."""
    def learn(
        self,
        signature: str,
        pieces: Sequence[str | tuple[int, bool, bool]],
        guards: Sequence[tuple[Sequence[str], bool]],
    ) -> None:
        """What the template writes for messages of these roles: texts, and between them contents by their position,
        with the sides on which they are stripped; for each content the texts that it must not hold, and whether it must
        not be blank. Raises ValueError where a content is not among the pieces.
        """
    def encode(self, chat: PlainChat, most_new_bytes: int) -> bytes | PlainUnknown:
        """Ids as bytes of uint32, unless about more than so many bytes of `chat` were not seen before.

        Raises ValueError where the text cannot be encoded.
        """

# --- publishers' streams ---

__all__ += ["ZmtpSubscriber"]

@final
class ZmtpSubscriber:
    """ZeroMQ's protocol as a subscriber speaks it, on one connection: bytes in, messages and answers out."""

    def __new__(cls, topic: bytes) -> Self: ...
    @property
    def subscribed(self) -> bool:
        """Whether the publisher has agreed."""

    @property
    def waiting(self) -> int:
        """Bytes of messages that have not been read."""

    def feed(self, bytes: bytes) -> None: ...
    def answers(self) -> bytes:
        """What is to be sent now; at first the greeting."""

    def messages(self, count: int, size: int) -> list[tuple[bytes, ...]]:
        """The next messages, up to `count` or the one with which they have `size` bytes; none: more has to come.

        ValueError, once there are none left, where the peer does not speak the protocol.
        """

# --- relay ---

__all__ += ["Arrival", "AttemptFailed", "FirstByte", "Outcome", "Relay"]

@final
class Arrival:
    """A request whose head and body have been read and which waits for `Relay.forward` or `Relay.respond`."""

    request_id: Final[int]
    method: Final[str]
    path: Final[str]
    query: Final[str]
    """Without the question mark; empty if there is none."""
    headers: Final[list[tuple[str, str]]]
    """Names in lower case, values as latin-1, in the order received; with `x-forwarded-*` and `traceparent`."""
    body: Final[bytes]
    body_bytes: Final[int]
    """Of the body, which is copied when it is asked for."""
    client: Final[str]
    """Address and port of the peer."""
    received_at: Final[float]
    """When the head had been read; seconds of CLOCK_MONOTONIC, the clock of `time.monotonic`, as every time here."""
    listener: Final[str]
    """Name of the listener on which it came."""

    def __new__(
        cls,
        request_id: int,
        method: str,
        path: str,
        query: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        client: str,
        received_at: float,
        listener: str = "traffic",
    ) -> Self: ...
    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name."""
    def plain_chat(self) -> PlainChat | None:
        """The body as a plain chat, if it is one; it is not copied."""

@final
class FirstByte:
    """The first byte of the answer's body came from the worker."""

    request_id: Final[int]
    status: Final[int]
    at: Final[float]
    def __new__(cls, request_id: int, status: int, at: float) -> Self: ...

@final
class AttemptFailed:
    """The worker failed before the head of its answer, or its answer is held back; the client still waits."""

    request_id: Final[int]
    kind: Final[
        Literal["refused", "connect-timeout", "reset", "first-byte-timeout", "bad-response", "no-socket", "held"]
    ]
    """`no-socket` is not the worker's fault: this process has no descriptor or port left. `held`: it answered."""
    message: Final[str]
    at: Final[float]
    status: Final[int | None]
    """Of the answer that is held back; None for every other kind."""
    retry_after_s: Final[float | None]
    """Seconds for which that answer asks to be left alone, from its Retry-After; None if it does not say."""

    def __new__(
        cls,
        request_id: int,
        kind: str,
        message: str,
        at: float,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> Self: ...

@final
class Outcome:
    """How a request ended; there is exactly one for each arrival."""

    request_id: Final[int]
    status: Final[int | None]
    """None if no head was sent to the client."""
    end: Final[Literal["completed", "client-gone", "worker-failed", "refused-by-relay", "shutdown"]]
    forwarded: Final[bool]
    """A worker was answering, or had been asked and had not failed, when the request ended."""
    started_at: Final[float | None]
    """When the request was sent to that worker."""
    first_byte_at: Final[float | None]
    ended_at: Final[float]
    request_bytes: Final[int]
    response_bytes: Final[int]
    """Bytes of the answer's body handed to the client's connection."""
    prompt_tokens: Final[int | None]
    completion_tokens: Final[int | None]
    cached_tokens: Final[int | None]
    """As the worker reported them in `usage`; None if it did not, never 0 for that."""
    events: Final[int]
    """Server-sent events with data, `[DONE]` among them."""
    reason: Final[str | None]
    """The word of a refusal by the relay itself, the `code` of its answer; None for every other end."""

    def __new__(
        cls,
        request_id: int,
        end: str = "completed",
        status: int | None = 200,
        forwarded: bool = True,
        started_at: float | None = None,
        first_byte_at: float | None = None,
        ended_at: float = 0.0,
        request_bytes: int = 0,
        response_bytes: int = 0,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        cached_tokens: int | None = None,
        events: int = 0,
        reason: str | None = None,
    ) -> Self: ...

@final
class Relay:
    """The sockets. Use `warmroute.gateway.relay.RelayServer`."""

    def __new__(
        cls,
        *,
        threads: int,
        max_body_bytes: int,
        connect_timeout_s: float,
        first_byte_timeout_s: float,
        idle_timeout_s: float,
        pool_idle_s: float,
        head_timeout_s: float,
        client_idle_s: float,
        max_held_bytes: int,
        min_body_rate: int,
        client_write_timeout_s: float,
        half_close: bool,
        h2_streams: int,
        h2_ping_s: float,
    ) -> Self: ...
    def listen(self, host: str, port: int, name: str) -> tuple[str, int]:
        """Give the address bound. Raises OSError, with EADDRINUSE if the address is taken."""

    def set_tls(self, name: str, certificate: str, key: str, client_ca: str | None) -> None:
        """From now on connections of the listener `name` speak TLS, by these PEM files; open ones go on as they are.
        With `client_ca`, authorities, clients must show a certificate. ValueError names the file that cannot be used.
        """
    def set_client_tls(self, ca: str | None, identity: tuple[str, str] | None) -> None:
        """How workers at https:// are reached from now on: their authorities, None being the system's, and the
        certificate and key that they are shown. ValueError names the file that cannot be used.
        """
    def listen_on(self, descriptor: int, name: str) -> tuple[str, int]:
        """As `listen`, on a duplicate of a socket that listens already. Raises OSError if it is none."""

    def listener_fds(self) -> list[tuple[str, int]]:
        """Names and duplicates, which the caller closes, of the sockets that listen."""

    def fileno(self) -> int:
        """A descriptor that is readable while events wait."""

    def take_events(self) -> list[Arrival | FirstByte | AttemptFailed | Outcome]:
        """All events that wait, in the order they happened."""

    def forward(
        self,
        request_id: int,
        base_url: str,
        request_headers: Sequence[tuple[str, str]],
        response_headers: Sequence[tuple[str, str]],
        hold: Sequence[int],
        tell_first_byte: bool,
    ) -> None:
        """Send the request to a worker; no effect once it has ended. Raises ValueError for an impossible header."""

    def pass_on(self, request_id: int) -> None:
        """Send the answer that is held back to the client; no effect where none is."""

    def respond(self, request_id: int, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Answer the request; no effect once it has ended. Raises ValueError for an impossible status or header."""

    def stop_accepting(self) -> None: ...
    def close(self, grace_s: float) -> None:
        """Stop accepting, wait `grace_s` seconds for the requests in flight, end the rest. Releases the GIL."""

    def in_flight(self) -> int: ...
