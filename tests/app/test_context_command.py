"""`rankbook context`, typed as somebody would."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from core import bridge
from core.embedding import Purpose, Vectors, backends
from core.errors import EmbeddingError, RankbookError
from core.store.engine import Store
from core.types import Item, Place, Query, Row
from evals.collections import load
from evals.types import Label, Span
from tests.app.corpus import MODEL, Hashing, Listed
from workbench.cli import app

TEXT = "# Zebras\n\nAsked about its stripes, the zebra left. Seventeen and a half was what it said."
START = TEXT.index("Seventeen")


@backends.register("forgetful")
class Forgetful(Hashing):
    """Embeds every document, and not every query."""

    def __init__(self, name: str, _number_format: str = "") -> None:
        super().__init__(name)
        self.model = f"forgetful:{name}"

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        if purpose == "query" and "walrus" in texts:
            raise EmbeddingError("No walrus is known here.")
        return await super().embed(texts, purpose)


class Answered(Listed):
    kind: ClassVar[str] = "answered"

    def spans(self) -> Iterator[Row[Span]]:
        yield Row(Span("q1", "zebra", START, len(TEXT), TEXT[START:]), Place("a test", 1))


SOURCE = Answered(
    documents=(Item("zebra", TEXT), Item("walrus", "# Walruses\n\nA walrus has no stripes at all.")),
    asked=(Query("q1", "zebra stripes"), Query("q2", "walrus"), Query("q3", "zebra or walrus")),
    judged=(Label("q1", "zebra", 1), Label("q2", "walrus", 2)),
)
VARIANT = 'name = "packed"\npack = { neighbor_cross_page = 0 }\n[[leg]]\nkind = "bm25"\n'


@pytest.fixture(scope="module")
def name(store: Store) -> Iterator[str]:
    made = f"packed {uuid.uuid4().hex[:8]}"
    chunks = {"default": {"kind": "fixed", "max_tokens": 12, "overlap": 0}}
    bridge.run(
        load.load_collection(
            store, made, SOURCE, load.LoadPlan(models=(MODEL, "forgetful:16"), chunks=chunks, check=False)
        )
    )
    yield made
    bridge.run(load.drop(store, made))


@pytest.fixture
def packed(tmp_path: Path) -> str:
    path = tmp_path / "packed.toml"
    path.write_text(VARIANT)
    return str(path)


def rankbook(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_context_shows_a_row_a_budget_and_says_what_does_not_fit(name: str, packed: str) -> None:
    shown = rankbook("context", name, packed, "--budgets", "400,10")
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    assert "contexts of 2 queries of test" in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines() if "packed" in line and "│" in line]
    assert [row[3] for row in rows] == ["10", "400"]
    assert "min_primary_hits_to_keep" in shown.stderr


def test_context_as_json_is_json_alone(name: str, packed: str) -> None:
    found = rankbook("context", name, packed, "vector", "--pack", "--budgets", "400", "--json")
    assert found.exit_code == 0, found.output + str(found.exception)
    first, second = json.loads(found.stdout)
    assert (first["variant"], second["variant"], first["queries"], first["failed"]) == ("packed", "vector", 2, 0)
    (row,) = first["budgets"]
    assert (row["budget"], row["gain_share"]["mean"]) == (400, 1.0)
    assert row["span_recall"]["mean"] == pytest.approx(1, abs=0.05)  # but for the blanks between chunks
    assert row["gain"]["low"] <= row["gain"]["mean"] == 1.5 <= row["gain"]["high"]
    assert found.stderr == ""


def test_queries_that_fail_are_counted_and_the_first_reason_is_told(name: str) -> None:
    shown = rankbook("context", name, "vector", "--pack", "--model", "forgetful:16", "--budgets", "400")
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    assert "1 of 2 queries failed and count as empty contexts; the first: No walrus is known here." in shown.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bm25",), "--pack"),
        (("bm25", "--pack", "--budgets", "many"), "are no budgets"),
        (("bm25", "--pack", "--budgets", "0"), "must be 1 or more"),
        (("bm25", "--pack", "--split", "tets"), "Did you mean 'test'?"),
    ],
)
def test_a_slip_in_context_is_a_sentence(name: str, words: tuple[str, ...], said: str) -> None:
    result = rankbook("context", name, *words)
    assert result.exit_code == 1
    assert isinstance(result.exception, RankbookError)
    assert said in str(result.exception)
