"""What people call a variant by, and what it stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import presets
from core.errors import InputError, SpecError, UnknownName
from core.legs import legs
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.variant import Variant
from evals.variants import known_names, resolve_variant


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntop_k = 7\n[[leg]]\nkind = "bm25"\n', encoding="utf-8")
    return path


def test_a_variant_is_itself() -> None:
    given = Variant.of_leg(Bm25Leg())
    assert resolve_variant(given) is given


@pytest.mark.parametrize("name", presets.names())
def test_a_presets_name_is_the_preset(name: str) -> None:
    assert resolve_variant(name) is presets.preset(name)


@pytest.mark.parametrize("kind", sorted(legs))
def test_a_legs_kind_is_that_leg_by_itself_with_its_own_scores(kind: str) -> None:
    assert resolve_variant(kind) == Variant.of_leg(legs[kind]())


def test_a_bare_leg_searches_the_chunks_and_model_that_are_asked_for_and_others_their_own() -> None:
    for bare in ("vector", VectorLeg(), {"kind": "vector"}):
        found = resolve_variant(bare, chunks="items", model="m")
        assert (found.chunks, found.model) == ("items", "m")
    preset = presets.preset("local-rag")
    assert resolve_variant("local-rag", chunks="items", model="m") is preset


def test_a_leg_with_a_label_is_called_by_it() -> None:
    assert resolve_variant(VectorLeg(label="exact", exact=True)).name == "exact"
    assert resolve_variant({"kind": "vector", "label": "l2", "distance": "l2"}).name == "l2"


def test_a_path_is_the_file_there_as_text_or_as_a_path_and_from_the_folder_given(file: Path) -> None:
    for reference in (file, str(file)):
        assert resolve_variant(reference).top_k == 7
    assert resolve_variant("mine.toml", folder=file.parent) == resolve_variant(Path("mine.toml"), folder=file.parent)


def test_names_mean_the_same_in_a_folder_that_holds_a_file_of_that_name(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.rename(tmp_path / "bm25")
    monkeypatch.chdir(tmp_path)
    assert resolve_variant("bm25").name == "bm25"
    assert resolve_variant("./bm25").name == "mine"


def test_data_is_a_variant_as_it_stands() -> None:
    data = {"name": "plain", "leg": [{"kind": "bm25"}, {"kind": "vector"}], "top_k": 3}
    assert resolve_variant(data) == Variant.from_data(data)


def test_data_may_name_a_preset_or_a_file_and_change_it(file: Path) -> None:
    assert resolve_variant({"preset": "local-rag"}) is presets.preset("local-rag")
    changed = resolve_variant({"preset": "local-rag", "name": "short", "top_k": 2})
    assert changed == presets.preset("local-rag").but(name="short", top_k=2)
    assert resolve_variant({"file": "mine.toml", "top_k": 2}, folder=file.parent).top_k == 2
    with pytest.raises(SpecError, match="Keep one"):
        resolve_variant({"preset": "local-rag", "file": "mine.toml"})


def test_an_unknown_name_is_told_the_nearest_and_that_files_are_understood() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'local-rag'\?.*TOML file"):
        resolve_variant("lokal-rag")
    assert {"local-rag", "bm25"} <= set(known_names())


def test_a_file_that_is_not_there_is_refused_by_its_path() -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        resolve_variant("nowhere.toml")


@pytest.mark.parametrize("nonsense", [None, 3, ["bm25"]])
def test_what_is_no_reference_is_refused_with_what_would_be(nonsense: object) -> None:
    with pytest.raises(SpecError, match="Give a Variant"):
        resolve_variant(nonsense)  # type: ignore[arg-type]
