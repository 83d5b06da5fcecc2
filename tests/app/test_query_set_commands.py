"""`rankbook queries` and `rankbook data label`: query sets listed, filled by hand or by files, and dropped."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import bridge
from core.store.engine import Store
from evals import library, query_sets
from tests.app.corpus import KETTLES
from tests.app.test_command_line import data, mistake, rankbook


@pytest.fixture
def kept(store: Store, name: str) -> Iterator[str]:
    bridge.run(library.add(store, name, KETTLES, library.Plan(models=(), check=False)))
    yield name
    bridge.run(library.drop(store, name))


def sets(name: str) -> dict[str, tuple[int, int]]:
    return {row["name"]: (row["queries"], row["labels"]) for row in data("queries", "list", name)}


def test_query_sets_are_listed_filled_and_dropped(kept):
    assert sets(kept) == {"default": (3, 5)}
    said = rankbook("queries", "add", kept, "-", "--queries", "pilot", typed="where is the lid\n\nE-42 again\n")
    assert "2 queries added; 2 in 'pilot'" in said.stderr
    rankbook("queries", "generate", kept, "--style", "title", "-n", "2", "--split", "dev")
    assert sets(kept) == {"default": (3, 5), "known-items": (2, 2), "pilot": (2, 0)}
    assert [row["split"] for row in data("data", "show", kept, "--queries", "known-items")["Queries by split"]] == [
        "dev"
    ]
    assert rankbook("queries", "drop", kept, "pilot", typed="n\n", code=None).exit_code
    rankbook("queries", "drop", kept, "pilot", "--yes")
    assert list(sets(kept)) == ["default", "known-items"]
    assert "'pilot'" in mistake("queries", "drop", kept, "pilot", "--yes")


def test_generated_queries_are_refused_before_they_are_made_where_written_ones_stand(kept):
    assert "not generated" in mistake("queries", "generate", kept, "--queries", "default")


def test_label_files_go_into_the_set_that_is_named(kept, store, tmp_path):
    (tmp_path / "judged.qrels").write_text("mine 0 e42 2\nmine 0 nowhere 1\n")
    (tmp_path / "queries.csv").write_text("id,text\nmine,where is the lid\n")
    words = ("--asked", str(tmp_path / "queries.csv"), "--queries", "pilot")
    said = rankbook("data", "label", kept, str(tmp_path / "judged.qrels"), *words).output
    assert "1 queries, 1 labels." in said
    assert "nowhere" in said
    assert sets(kept) == {"default": (3, 5), "pilot": (1, 1)}
    assert "no labels here" in mistake("data", "label", kept, str(tmp_path / "queries.csv"))
    assert len(bridge.run(query_sets.load(store, kept)).labels) == 5
