"""A tokenizer is compared with its engine's before it is relied on."""

import json
from pathlib import Path

import pytest

from warmroute.errors import ModelAssetError
from warmroute.gateway.tokenizer_check import Standing, TokenizerCheck
from warmroute.openai_api import Prompt
from warmroute.tokenizer import Dialect, LocalTokenizer, NoTokens, TokenIds, Tokenizers, packaged_model
from warmroute.worker import Worker, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

TINY = LocalTokenizer.load("warmroute-tiny")


@pytest.fixture
def other_template(tmp_path: Path) -> LocalTokenizer:
    """The same vocabulary, another chat template."""
    (tmp_path / "tokenizer.json").write_bytes((packaged_model("warmroute-tiny") / "tokenizer.json").read_bytes())
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return LocalTokenizer.load(tmp_path)


class Fleet:
    """One worker that serves `m` and the adapter `sql`, and answers as TINY would, or as it is told."""

    def __init__(self, tokenizers: Tokenizers, auto: bool = False, root: str | None = "tiny") -> None:
        self.table = WorkerTable()
        self.worker = self.table.add(WorkerSpec("http://a:1"))
        self.table.learn(self.worker, WorkerFacts({"m": False, "sql": True}, roots={"m": root} if root else {}))
        self.table.set_status(self.worker, WorkerStatus.READY)
        self.answer: NoTokens | None = None
        self.asked = 0
        self.at_hand: LocalTokenizer | None = TINY
        self.tokenizers = tokenizers
        self.check = TokenizerCheck(self.table, tokenizers, lambda _: Dialect.VLLM, self.ask, self.load, auto)

    async def ask(self, worker: Worker, prompt: Prompt) -> TokenIds | NoTokens:
        self.asked += 1
        return self.answer or TINY.encode(prompt)

    def load(self, root: str) -> LocalTokenizer:
        if self.at_hand is None:
            raise ModelAssetError("not here")
        return self.at_hand


async def test_a_named_one_that_is_the_engines_is_found_to_be_so_once() -> None:
    fleet = Fleet(Tokenizers(TINY))
    for _ in range(3):
        await fleet.check.look()
    assert fleet.check.standings == {"m": Standing.SAME}
    assert fleet.asked == 3


async def test_a_named_one_that_differs_is_kept_and_told(
    other_template: LocalTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet(Tokenizers(other_template))
    await fleet.check.look()
    await fleet.check.look()
    assert fleet.check.standings == {"m": Standing.DIFFERENT}
    assert caplog.text.count("makes other tokens than worker w-") == 1
    assert fleet.tokenizers.of(("m",)) is other_template


async def test_one_at_hand_is_taken_only_if_it_is_the_engines(other_template: LocalTokenizer) -> None:
    fleet = Fleet(Tokenizers(), auto=True)
    await fleet.check.look()
    assert fleet.check.standings == {"m": Standing.SAME}
    assert fleet.tokenizers.of(("m",)) is TINY

    fleet = Fleet(Tokenizers(), auto=True)
    fleet.at_hand = other_template
    await fleet.check.look()
    assert fleet.check.standings == {"m": Standing.ASKED}
    assert fleet.tokenizers.of(("m",)) is None


async def test_where_the_engine_does_not_tell_nothing_at_hand_is_trusted_and_it_is_asked_again() -> None:
    fleet = Fleet(Tokenizers(), auto=True)
    fleet.answer = NoTokens.ENGINE_FAILED
    await fleet.check.look()
    assert fleet.tokenizers.of(("m",)) is None
    fleet.answer = None
    await fleet.check.look()
    assert fleet.tokenizers.of(("m",)) is TINY


async def test_an_engine_that_never_tells_is_not_asked_for_ever() -> None:
    fleet = Fleet(Tokenizers(TINY))
    fleet.answer = NoTokens.NO_TOKENIZER
    for _ in range(20):
        await fleet.check.look()
    assert fleet.check.standings == {"m": Standing.UNCHECKED}
    assert fleet.asked == 5


@pytest.mark.parametrize(("auto", "root"), [(False, "tiny"), (True, None), (True, "elsewhere")])
async def test_without_any_the_engines_are_asked(auto: bool, root: str | None) -> None:
    fleet = Fleet(Tokenizers(), auto, root)
    fleet.at_hand = None if root == "elsewhere" else TINY
    await fleet.check.look()
    assert fleet.check.standings == {"m": Standing.ASKED}
    assert (fleet.asked, fleet.tokenizers.of(("m",))) == (0, None)
