"""From a prompt to its token ids, as the engine would make them."""

from warmroute.tokenizer.assets import packaged_model
from warmroute.tokenizer.local import LocalTokenizer
from warmroute.tokenizer.source import EngineTokenSource, LocalTokenSource, TokenSource
from warmroute.tokenizer.token_ids import TokenIds

__all__ = [
    "EngineTokenSource",
    "LocalTokenSource",
    "LocalTokenizer",
    "TokenIds",
    "TokenSource",
    "packaged_model",
]
