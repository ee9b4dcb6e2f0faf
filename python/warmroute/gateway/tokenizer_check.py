"""Whether a tokenizer is the engine's: the same few prompts, tokenised here and asked from the engine.

A wrong one blinds the router without a sign: every hash differs, so nothing is ever found. So each model's tokenizer is
compared once with an engine that serves the model. One that a person named is kept, and the difference is told; one
that was only found at hand (`--tokenizer auto`: the folder or hub id that the engine itself names, if it is on this
machine) is used only if it is the same.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from warmroute.errors import ModelAssetError, TemplateError
from warmroute.openai_api import ChatContent, Endpoint, Prompt, TextContent
from warmroute.tokenizer import Dialect, LocalTokenizer, NoTokens, TokenIds, Tokenizers
from warmroute.worker import Worker, WorkerStatus, WorkerTable

_log = logging.getLogger(__name__)

_INTERVAL_S = 1.0
# An engine that did not answer is asked again this often, and not for ever: it may have no such page.
_TRIES = 5
_TEXT = "The 3 quick foxes' “naïve” café costs 1234567.89€;\n\n\tdef f(x):  return x ** 2  # 你好世界 🦊"
_ASK = {"role": "user", "content": _TEXT}
_TALK = [
    {"role": "system", "content": "You are terse."},
    _ASK,
    {"role": "assistant", "content": "Yes.\n"},
    {"role": "user", "content": "Why?"},
]

AskEngine = Callable[[Worker, Prompt], Awaitable[TokenIds | NoTokens]]
Load = Callable[[str], LocalTokenizer]
"""The tokenizer of a folder or hub id that is on this machine; raises ModelAssetError."""


class Standing(StrEnum):
    """What is known of a model's tokenizer; shown on the state page."""

    ASKED = "engine-asked"
    """There is none here: the engines are asked for each prompt."""
    UNCHECKED = "unchecked"
    """There is one, and the engine has not told yet what it makes of a prompt."""
    SAME = "same-as-engine"
    """It makes the same tokens as the engine."""
    DIFFERENT = "differs-from-engine"
    """It makes other tokens than the engine, so nothing that the engine holds will be found with it."""


@dataclass(slots=True)
class TokenizerCheck:
    """Checks the tokenizer of each model that is served, as models come.

    auto: whether a tokenizer that lies at hand is taken for a model that has none. `standings` has each model's.
    """

    table: WorkerTable
    tokenizers: Tokenizers
    dialect_of: Callable[[Worker], Dialect]
    ask: AskEngine
    load: Load
    auto: bool
    standings: dict[str, Standing] = field(default_factory=dict)
    _tries: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Look for models that have not been checked until cancelled; a fault in one never ends it."""
        while True:
            try:
                await self.look()
            except Exception:
                _log.exception("checking tokenizers failed")
            await asyncio.sleep(_INTERVAL_S)

    async def look(self) -> None:
        """Check every served model that is still to be checked, once."""
        for worker in list(self.table):
            if worker.status is WorkerStatus.READY:
                for model, is_adapter in list(worker.models.items()):
                    if not is_adapter and self._is_open(model):
                        await self._check(model, worker)

    def _is_open(self, model: str) -> bool:
        return self._tries.get(model, 0) < _TRIES

    async def _check(self, model: str, worker: Worker) -> None:
        self._tries[model] = self._tries.get(model, 0) + 1
        named = self.tokenizers.of((model,))
        tokenizer = named or await self._at_hand(worker.facts.roots.get(model))
        if tokenizer is None:
            self._conclude(model, Standing.ASKED)
            return
        same = await self._is_same(model, tokenizer, worker)
        if same is None:
            self.standings[model] = Standing.UNCHECKED if named else Standing.ASKED
        elif named:
            self._conclude(model, Standing.SAME if same else Standing.DIFFERENT)
            self._tell_named(model, worker, same)
        else:
            self._conclude(model, Standing.SAME if same else Standing.ASKED)
            self._take(model, tokenizer, worker, same)

    def _conclude(self, model: str, standing: Standing) -> None:
        self.standings[model] = standing
        self._tries[model] = _TRIES

    def _tell_named(self, model: str, worker: Worker, same: bool) -> None:
        if same:
            _log.info("the tokenizer of model %s makes the same tokens as worker %s", model, worker.shown)
        else:
            _log.warning(
                "the tokenizer of model %s makes other tokens than worker %s: no prefix that it holds will be found; "
                "give the folder that the engine was started with, and its --chat-template where it has one",
                model,
                worker.shown,
            )

    def _take(self, model: str, tokenizer: LocalTokenizer, worker: Worker, same: bool) -> None:
        root = worker.facts.roots.get(model)
        if same:
            self.tokenizers.set(model, tokenizer)
            _log.info("model %s: the tokenizer of %s, found on this machine, is the engine's and is used", model, root)
        else:
            _log.info(
                "model %s: the tokenizer of %s on this machine is not the engine's; engines are asked", model, root
            )

    async def _at_hand(self, root: str | None) -> LocalTokenizer | None:
        if root is None or not self.auto:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self.load, root)
        except ModelAssetError as error:
            _log.info("engines are asked for tokens: %s", error)
            return None

    async def _is_same(self, model: str, tokenizer: LocalTokenizer, worker: Worker) -> bool | None:
        """Whether every prompt that both can tell is the same; None where not even the plain text was answered."""
        dialect = self.dialect_of(worker)
        for number, prompt in enumerate(_prompts(model)):
            theirs = await self.ask(worker, prompt)
            if isinstance(theirs, NoTokens):
                if number == 0:
                    return None
                continue
            try:
                ours = tokenizer.encode(prompt, dialect)
            except TemplateError:
                return False
            if list(ours.ids) != list(theirs.ids):
                return False
        return True


def _prompts(model: str) -> list[Prompt]:
    contents = (TextContent(_TEXT), ChatContent([_ASK]), ChatContent(_TALK))
    return [Prompt(Endpoint.OTHER, model, contents=(content,)) for content in contents]
