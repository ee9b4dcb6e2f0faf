"""How many tokens a prompt may have that cannot be told: load must be booked for it all the same."""

from collections.abc import Sequence

from warmroute.openai_api.prompt import MEDIA_TOKENS

# English prose and code have four; JSON's quotes and escapes add some bytes.
_BYTES_PER_TOKEN = 4.0
# A prompt of a few tokens is mostly the JSON around it, and says nothing of others.
_FEWEST_TOKENS = 64
# Half of the weight lies on the last 34 prompts.
_GAIN = 0.02
_LEAST, _MOST = 1.0, 16.0
# A guess never books more than the contexts that most engines are started with; a true prompt of that size is rare,
# and a body of embeddings or of unmarked binary data is not one.
MOST_TOKENS = 131_072
# Where the data of an image or the like begins in a body: a data URL, and the fields of OpenAI's and Anthropic's parts.
_DATA_MARKS = (b";base64,", b'"data":"', b'"data": "')
# Shorter texts behind these marks are text.
_SHORTEST_DATA = 256
# Beyond so many the rest counts as text; a hostile body must not hold the event loop up.
_MOST_MEDIA = 256


class LengthEstimate:
    """Tokens of a body from its bytes; the bytes per token are learned from bodies that were told."""

    def __init__(self) -> None:
        self.bytes_per_token = _BYTES_PER_TOKEN

    def learn(self, body_bytes: int, tokens: int) -> None:
        """A body of this size had so many prompt tokens, all of them given as text."""
        if tokens >= _FEWEST_TOKENS:
            seen = min(max(body_bytes / tokens, _LEAST), _MOST)
            self.bytes_per_token += _GAIN * (seen - self.bytes_per_token)

    def tokens(self, body: bytes, media_parts: int = 0) -> int:
        """The guess for a body, of which images and the like count flat, at least `media_parts` of them; at least 1."""
        text, media = without_media(body)
        guess = round(text / self.bytes_per_token) + max(media, media_parts) * MEDIA_TOKENS
        return max(1, min(MOST_TOKENS, guess))


def without_media(body: bytes) -> tuple[int, int]:
    """The bytes of a body without the encoded data in it, and how many such data there are."""
    spans = [span for mark in _DATA_MARKS for span in _spans(body, mark)]
    return len(body) - sum(end - start for start, end in spans), len(spans)


def _spans(body: bytes, mark: bytes) -> Sequence[tuple[int, int]]:
    """From each mark to the quote that ends its string. Only searches for bytes: a gigabyte a second."""
    spans: list[tuple[int, int]] = []
    start = body.find(mark)
    for _ in range(_MOST_MEDIA):
        if start < 0:
            break
        begin = start + len(mark)
        end = body.find(b'"', begin)
        end = len(body) if end < 0 else end
        if end - begin >= _SHORTEST_DATA:
            spans.append((begin, end))
        start = body.find(mark, end)
    return spans
