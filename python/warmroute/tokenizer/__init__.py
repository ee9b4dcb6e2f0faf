"""From a prompt to its token ids, as the engine would make them."""

from warmroute.tokenizer.assets import find_assets, packaged_model
from warmroute.tokenizer.dialect import Dialect
from warmroute.tokenizer.encode_pool import EncodePool
from warmroute.tokenizer.engine_source import Engine, EngineTokenSource
from warmroute.tokenizer.local import LocalTokenizer
from warmroute.tokenizer.local_source import LocalTokenSource
from warmroute.tokenizer.per_model import PerModelSource, Served, Tokenizers
from warmroute.tokenizer.plain_source import PlainChatSource
from warmroute.tokenizer.source import Original, TokenSource
from warmroute.tokenizer.text_size import media_parts
from warmroute.tokenizer.token_ids import NoTokens, TokenIds

__all__ = [
    "Dialect",
    "EncodePool",
    "Engine",
    "EngineTokenSource",
    "LocalTokenSource",
    "LocalTokenizer",
    "NoTokens",
    "Original",
    "PerModelSource",
    "PlainChatSource",
    "Served",
    "TokenIds",
    "TokenSource",
    "Tokenizers",
    "find_assets",
    "media_parts",
    "packaged_model",
]
