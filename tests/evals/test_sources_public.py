"""Public collections: the catalogue, ir_datasets without a network, and the guess from a path or a name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from core.errors import InputError, SpecError, UnknownName
from evals.sources import (
    BeirSource,
    BundledSource,
    FolderSource,
    IrDatasetsSource,
    TabularSource,
    TrecSource,
    catalog,
    guess,
    source_from,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No cache, and a proxy at which nothing listens: this must fail alike with and without a network."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IR_DATASETS_TMP", str(tmp_path / "tmp"))
    monkeypatch.setenv("IR_DATASETS_DL_TRIES", "1")
    monkeypatch.setenv("IR_DATASETS_DL_TIMEOUT", "2")


def test_a_download_that_fails_is_one_clear_sentence_and_quick(nowhere):
    source, started = IrDatasetsSource(id="beir/nfcorpus/test"), time.monotonic()
    for read in (source.items, source.queries, source.labels):
        with pytest.raises(
            InputError, match=r"of 'beir/nfcorpus/test' could not be fetched: \S+ cannot be reached\."
        ) as caught:
            next(read())
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
    assert time.monotonic() - started < 20


def test_an_unknown_id_names_the_nearest(nowhere):
    with pytest.raises(UnknownName, match="beir/scifact"):
        next(IrDatasetsSource(id="beir/scifat").items())


def test_the_catalogue_agrees_with_what_ir_datasets_states():
    stated = json.loads((files("ir_datasets") / "etc" / "metadata.json").read_text())

    def count(dataset: str, what: str) -> int:
        entry = stated[dataset].get(what, {})
        return int(entry["count"]) if "count" in entry else count(entry["_ref"], what)

    names = [entry.name for entry in catalog()]
    assert len(names) == len(set(names)) >= 30
    for entry in catalog():
        assert (entry.documents, entry.queries) == (
            count(entry.ir_datasets, "docs"),
            count(entry.ir_datasets, "queries"),
        )


def test_a_path_or_a_name_is_enough(tmp_path):
    (tmp_path / "beir").mkdir()
    (tmp_path / "beir" / "corpus.jsonl").write_text("{}")
    (tmp_path / "docs" / "a").mkdir(parents=True)
    (tmp_path / "docs" / "a" / "b.md").write_text("x")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("corpus.jsonl", "{}")
    for name in ("t.csv", "t.parquet", "d.sgml"):
        (tmp_path / name).write_text("x")
    assert guess(tmp_path / "beir") == BeirSource(path=tmp_path / "beir")
    assert isinstance(guess(str(tmp_path / "set.zip")), BeirSource)
    assert isinstance(guess(tmp_path / "docs"), FolderSource)
    assert isinstance(guess(tmp_path / "t.csv"), TabularSource)
    assert isinstance(guess(tmp_path / "t.parquet"), TabularSource)
    assert isinstance(guess(tmp_path / "d.sgml"), TrecSource)
    assert guess("handbook") == BundledSource(name="handbook")
    assert guess("scifact") == IrDatasetsSource(id="beir/scifact")
    assert guess("ir_datasets:vaswani") == IrDatasetsSource(id="vaswani")


@pytest.mark.parametrize("name", ["no-such-thing", "x" * 5000, "a\0b", ""])
def test_a_guess_that_fails_lists_what_is_understood(tmp_path, name, monkeypatch):
    (tmp_path / "photo.png").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"What is understood.*corpus\.jsonl.*handbook"):
        guess(name)
    with pytest.raises(InputError, match="What is understood"):
        guess("photo.png")


def test_a_source_goes_to_plain_data_and_back():
    source = TrecSource(documents=Path("d"), topics=Path("t"), qrels={"dev": Path("q")})
    assert source_from(json.loads(json.dumps(source.spec()))) == source
    with pytest.raises(UnknownName, match="tabular"):
        source_from({"kind": "tabulra"})
    with pytest.raises(SpecError, match="kind"):
        source_from({"path": "x"})
    with pytest.raises(SpecError, match="pth"):
        source_from({"kind": "beir", "pth": "x"})


def test_importing_sources_loads_nothing_heavy():
    code = "import sys, evals.sources; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"\b(?:pandas|pyarrow|ir_datasets|torch|numpy|streamlit|ranx)\b", loaded)


@pytest.mark.parametrize(("meant", "written"), [("handbook", "handbok"), ("scifact", "sci-fact")])
def test_a_name_that_is_nearly_one_of_ours_is_answered_with_that_one(meant, written):
    with pytest.raises(InputError, match=f"Did you mean '{meant}'"):
        guess(written)
