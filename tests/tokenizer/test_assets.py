"""Which files make a tokenizer, and what older formats are made into."""

import json
import os
import sys
from pathlib import Path

import pytest

from warmroute.errors import ModelAssetError
from warmroute.tokenizer import LocalTokenizer, find_assets, packaged_model
from warmroute.tokenizer.convert import cache_folder, converted

TINY = packaged_model("warmroute-tiny")
TEMPLATE = "{{ messages[0].content }}!"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a tokenizer.json."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_tokenizer_json_may_be_named_itself(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    renamed = folder / "my-tokenizer.json"
    (folder / "tokenizer.json").rename(renamed)
    assets = find_assets(renamed)
    assert (assets.file, assets.templates) == (renamed, {"default": TEMPLATE})
    assert LocalTokenizer.load(str(renamed)).render_chat([{"role": "user", "content": "hi"}]) == "hi!"


def test_found_assets_are_taken_as_they_are(folder: Path) -> None:
    assets = find_assets(folder)
    assert find_assets(assets) is assets


def test_a_template_of_its_own_replaces_all_of_the_models(folder: Path, tmp_path: Path) -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert find_assets(folder).templates == {"default": "d", "tool_use": "t"}
    (tmp_path / "own.jinja").write_text(TEMPLATE)
    assert find_assets(folder, chat_template=tmp_path / "own.jinja").templates == {"default": TEMPLATE}
    with pytest.raises(ModelAssetError, match=r"the chat template .*missing.jinja cannot be read"):
        find_assets(folder, chat_template=tmp_path / "missing.jinja")


def test_named_templates_have_files_of_their_own(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "configured"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "rag.jinja").write_text("r")
    assert find_assets(folder).templates == {"default": TEMPLATE, "rag": "r"}
    (folder / "additional_chat_templates" / "rag.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(ModelAssetError, match=r"rag.jinja cannot be read"):
        find_assets(folder)


def test_offline_a_hub_id_is_looked_for_in_the_cache_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelAssetError, match="is not in the hub's cache on this machine"):
        find_assets("some-org/some-model", offline=True)
    snapshot = tmp_path / "hub" / "models--some-org--some-model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    refs = tmp_path / "hub" / "models--some-org--some-model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    assert find_assets("some-org/some-model", offline=True).folder == snapshot


def test_without_any_tokenizer_the_next_step_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelAssetError, match="nothing that one can be made of; give the model's folder"):
        find_assets(tmp_path)
    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(ModelAssetError, match=r"only as Mistral's tekken.json.*its engines are asked then"):
        find_assets(tmp_path)


def byte_pairs(folder: Path) -> Path:
    """The packaged vocabulary as the two files of GPT-2's time."""
    model = json.loads((TINY / "tokenizer.json").read_text())["model"]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    return folder


@pytest.mark.filterwarnings("ignore")
def test_byte_pair_files_become_what_transformers_makes_of_them(tmp_path: Path, cache: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = byte_pairs(tmp_path / "pairs")
    ours = LocalTokenizer.load(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(str(folder))
    for text in ("Hello world", "  def f(x):\n\treturn x ** 2", "naïve café 你好 🦊", "a" * 300):
        assert list(ours.encode_text(text, True)) == theirs.encode(text)
    kept = list(cache.rglob("*.json"))
    assert len(kept) == 1
    stamp = kept[0].stat().st_mtime_ns
    assert converted(folder) == kept[0]
    assert kept[0].stat().st_mtime_ns == stamp, "converted once"
    (folder / "merges.txt").write_text("#version: 0.2\n")
    assert converted(folder) != kept[0], "other files are another tokenizer"


def test_without_transformers_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelAssetError, match=r"pip install 'warmroute\[convert\]'"):
        find_assets(byte_pairs(tmp_path / "pairs"))


@pytest.mark.filterwarnings("ignore")
def test_a_repositorys_own_code_is_never_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = byte_pairs(tmp_path / "pairs")
    mark = tmp_path / "was-run"
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w')\nclass Own: pass\n")
    own = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    try:
        find_assets(folder)
    except ModelAssetError as error:
        assert "could not be converted" in str(error)  # noqa: PT017 - either way the code must not run
    assert not mark.exists()


@pytest.mark.filterwarnings("ignore")
def test_files_that_no_converter_reads_are_told_as_such(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "tokenizer.model").write_bytes(b"\x00nonsense")
    with pytest.raises(ModelAssetError, match=r"could not be converted .*pip install 'warmroute\[convert\]'"):
        find_assets(tmp_path)


def test_where_conversions_are_kept() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/warmroute/tokenizers")
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/warmroute/tokenizers")
    assert cache_folder({}).parts[-2:] == ("warmroute", "tokenizers")


def test_importing_warmroute_does_not_import_transformers() -> None:
    import subprocess

    code = "import warmroute.gateway.serve, sys; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False, timeout=50).returncode == 0
