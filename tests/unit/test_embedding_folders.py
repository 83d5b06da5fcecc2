"""Models that are folders of this machine, whose id tells their state; and models that are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import bridge
from core.embedding import embedder, model_files
from core.embedding.sentence_transformers_backend import SentenceTransformersEmbedder
from core.errors import EmbeddingError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What looks like a model until it is loaded."""
    made = tmp_path / "some@model"
    (made / "1_Pooling").mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "1_Pooling" / "config.json").write_text('{"mean": true}')
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def id_of(name: Path | str) -> str:
    return SentenceTransformersEmbedder(str(name), "fp32").model


def test_a_folders_id_is_its_whole_path_and_its_state_wherever_it_is_named_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = id_of(folder)
    assert made == f"{folder.resolve()}#{model_files.state(folder)}@fp32"
    monkeypatch.chdir(folder.parent)
    assert id_of("some@model") == id_of("./some@model") == id_of("../" + folder.parent.name + "/some@model") == made
    monkeypatch.setenv("HOME", str(folder.parent))
    assert id_of("~/some@model") == made


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "1_Pooling/config.json", "tokenizer.json"])
def test_the_id_changes_with_weights_options_and_vocabulary(folder: Path, file: str) -> None:
    before = id_of(folder)
    (folder / file).write_bytes(b"WEIGHTS")
    assert id_of(folder) != before


@pytest.mark.parametrize("file", ["README.md", ".cache/huggingface/note.json", ".gitattributes"])
def test_the_id_stays_where_nothing_changed_that_makes_vectors(folder: Path, file: str) -> None:
    before = id_of(folder)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("changed")
    assert id_of(folder) == before


def test_an_id_loads_the_folder_again_and_keeps_its_words(folder: Path) -> None:
    made = embedder(f"{folder}").model
    again = embedder(made)
    assert isinstance(again, SentenceTransformersEmbedder)
    assert again.model == made
    assert again._folder == folder.resolve()
    assert embedder(f"sentence-transformers:{folder}@fp32").model == id_of(folder)


def test_a_folder_that_changed_since_is_refused_when_vectors_are_wanted_and_not_before(folder: Path) -> None:
    stored = id_of(folder)
    (folder / "model.safetensors").write_bytes(b"other weights")
    made = embedder(stored)
    assert made.model == stored
    with pytest.raises(EmbeddingError, match=r"has changed: it was #\w{8}.*rankbook data embed"):
        bridge.run(made.embed(["a"]))
    with pytest.raises(EmbeddingError, match="has changed"):
        made.tokenize("a")


def test_a_folder_that_is_gone_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"There is no folder .* any more"):
        bridge.run(embedder(f"{tmp_path}/gone#0123abcd@fp32").embed(["a"]))
    with pytest.raises(EmbeddingError, match=r"There is no folder .*needs no download"):
        bridge.run(embedder(f"{tmp_path}/never@fp32").embed(["a"]))


@pytest.mark.slow
def test_a_model_in_a_folder_embeds_as_it_does_by_name(tmp_path: Path) -> None:
    from core.embedding import DEFAULT_MODEL, model_files

    copy = tmp_path / "copy"
    copy.symlink_to(model_files.folder())
    by_folder, by_name = embedder(f"{copy}@fp32"), embedder(f"{DEFAULT_MODEL}@fp32")
    assert by_folder.model.startswith(f"{model_files.folder().resolve()}#")
    texts = ["a cat", "a dog"]
    assert (bridge.run(by_folder.embed(texts)) == bridge.run(by_name.embed(texts))).all()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hub that refuses every caller at once."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("name", ["someone/no-such-model", "no-such-model"])
def test_a_model_that_is_nowhere_is_told_in_one_sentence_at_once(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EmbeddingError, match="is not on this machine, and the hub cannot be reached") as caught:
        bridge.run(embedder(f"{name}@fp32").embed(["a"]))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("nowhere")
def test_a_name_that_no_model_can_have_is_told_so() -> None:
    with pytest.raises(EmbeddingError, match="neither a folder here nor a name that a model can have"):
        bridge.run(embedder("what is this?@fp32").embed(["a"]))
