"""What a diagnosis can be told."""

from dataclasses import dataclass

from warmroute.calibration import CalibrationStart
from warmroute.tokenizer import LocalTokenizer

BLOCK_TOKENS = 16
BYTES_PER_TOKEN = 4.0
MEMORY_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """How tokens are counted, how much is remembered, and what counts as a loss.

    tokenizer: the model's; without one a token is `bytes_per_token` bytes. prefill_tokens_per_s: what a lost token
    costs. memory_bytes: bound of what is kept, beside the program itself. shown_characters: of a text that differs,
    unless `show_text`. least_gain: part of a family's prompt tokens that a fix must save to be told. keep_examples:
    each finding has the body of one of its requests.
    """

    block_tokens: int = BLOCK_TOKENS
    bytes_per_token: float = BYTES_PER_TOKEN
    tokenizer: LocalTokenizer | None = None
    prefill_tokens_per_s: float = CalibrationStart().prefill_tokens_per_s
    memory_bytes: int = MEMORY_BYTES
    show_text: bool = False
    shown_characters: int = 12
    least_gain: float = 0.01
    keep_examples: bool = False
