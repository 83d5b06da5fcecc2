"""A collection out as a BEIR folder, and in again."""

# mypy: disable-error-code="no-untyped-call, no-untyped-def"

from __future__ import annotations

import json
import shutil
import uuid

import pytest
from sqlalchemy import text

from core import bridge
from core.errors import InputError, SpecError
from core.store import attached, collections
from core.types import Item, Query
from evals.collections import export_beir, load
from evals.collections.load import LoadPlan, plan_for
from evals.labels import query_sets
from evals.sources import BeirSource, guess
from evals.types import Exclusion, Label, Span
from tests.evals.test_library import RowsSource

WHOLE = {
    "items": (
        Item(
            "a",
            "Alpha beta gamma.\fPage two.\r\nU+2028:\u2028here",
            "Title one",
            {"year": 2020, "by": {"x": [1, None]}},
        ),
        Item('"quoted" id', "Delta", "", {"title": "not the title", "_id": "nor the id"}),
        Item("../../etc/passwd", "Epsilon \U0001f600"),
        Item("an id, with blanks", "Zeta", "Ünïcode"),
        Item("tab\tand\nline", "Eta: only documents without labels may be called so"),
        Item("012.0", "Theta"),
    ),
    "queries": (
        Query("query-id", "which alpha?", "lookup", ("x y", "z"), 2.5, {"user": "u1", "kind of": "a"}),
        Query('q"2"', "delta\nand more", metadata={"n": 1}),
        Query("never labelled", "eta"),
    ),
    "labels": (
        Label("query-id", "a", 2, "test"),
        Label("query-id", '"quoted" id', 0, "test"),
        Label('q"2"', "../../etc/passwd", 1, "train"),
        Label('q"2"', "an id, with blanks", 3, "my split"),
    ),
    "spans": (Span("query-id", "a", 0, 5, "Alpha", "test", 2),),
    "exclusions": (Exclusion("query-id", "012.0"),),
}
BARE = LoadPlan(models=(), chunks={}, check=False)


@pytest.fixture
def added(store):
    """Collections of these sources, gone after the test."""
    made: list[str] = []

    def add(source, plan=BARE):
        made.append(f"beir {uuid.uuid4().hex[:8]}")
        bridge.run(load.load_collection(store, made[-1], source, plan))
        return bridge.run(collections.get(store, made[-1]))

    yield add
    for name in made:
        bridge.run(load.drop(store, name))


def items(store, view):
    async def found():
        return [row async for rows in export_beir._documents(store, view) for row in rows]

    return bridge.run(found())


@pytest.mark.slow
def test_what_goes_out_comes_in_the_same(store, added, tmp_path):
    here = added(RowsSource(rows=WHOLE))
    told = bridge.run(export_beir.export_beir(store, here, tmp_path / "out"))
    assert (told.documents, told.queries, told.labels, told.splits) == (6, 3, 4, ("my split", "test", "train"))
    source = guess(str(tmp_path / "out"))
    assert isinstance(source, BeirSource)
    back = added(source)
    assert items(store, back) == items(store, here)
    labelled = bridge.run(query_sets.load(store, back.name))
    assert labelled == bridge.run(query_sets.load(store, here.name))
    assert len(labelled.spans) == len(labelled.exclusions) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_the_files_are_those_of_beir(store, added, tmp_path):
    here = added(
        RowsSource(rows={"items": WHOLE["items"][:2], "queries": WHOLE["queries"][:1], "labels": WHOLE["labels"][:1]})
    )
    bridge.run(export_beir.export_beir(store, here, tmp_path / "out"))
    assert (tmp_path / "out/qrels/test.tsv").read_text() == "query-id\tcorpus-id\tscore\nquery-id\ta\t2\n"
    rows = [json.loads(line) for line in (tmp_path / "out/corpus.jsonl").read_bytes().split(b"\n") if line]
    assert {row["_id"]: row["title"] for row in rows} == {"a": "Title one", '"quoted" id': ""}
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["README.md", "corpus.jsonl", "qrels", "queries.jsonl", "rankbook.json"]


@pytest.mark.slow
def test_a_collection_that_is_not_english_comes_back_in_its_language_unasked(store, added, tmp_path):
    here = added(
        RowsSource(rows={"items": (Item("a", "Die Häuser"),)}), LoadPlan(language="german", models=(), chunks={})
    )
    bridge.run(export_beir.export_beir(store, here, tmp_path / "out"))
    source = guess(str(tmp_path / "out"))
    assert plan_for(source).language == "german"
    assert plan_for(source, language="simple").language == "simple"
    assert added(source, plan_for(source, models=(), chunks={})).row.language == "german"
    shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path, "out")
    assert plan_for(guess(str(tmp_path / "zipped.zip"))).language == "german"
    (tmp_path / "out" / "rankbook.json").unlink()
    assert plan_for(source).language == "english"


@pytest.mark.parametrize(
    ("written", "said"), [("{", "is not JSON"), ('{"language": ["german"]}', "The language in"), ("[1]", "")]
)
def test_what_stands_beside_and_is_no_wish_is_told_or_passed_over(tmp_path, written, said):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "b"}\n')
    (tmp_path / "rankbook.json").write_text(written)
    if not said:
        assert BeirSource(path=tmp_path).wishes() == {}
    else:
        with pytest.raises(SpecError, match=said):
            BeirSource(path=tmp_path).wishes()


@pytest.mark.slow
def test_a_folder_that_is_there_is_left_alone(store, added, tmp_path):
    here = added(RowsSource(rows={"items": WHOLE["items"]}))
    with pytest.raises(InputError, match="is there already"):
        bridge.run(export_beir.export_beir(store, here, tmp_path))
    with pytest.raises(InputError, match="Make it first"):
        bridge.run(export_beir.export_beir(store, here, tmp_path / "nowhere" / "out"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "split", "said"),
    [
        ("tab\tinside", "test", "holds a tab or a line end"),
        (" blank", "test", "begins or ends with a blank"),
        ("fine", "../up", "cannot be the name of a file"),
        ("fine", "exclude", "cannot be the name of a file"),
    ],
)
def test_what_the_files_cannot_hold_is_refused_and_nothing_is_left_behind(store, added, tmp_path, item, split, said):
    rows = {"items": (Item(item, "text"),), "queries": (Query("q", "text"),), "labels": (Label("q", item, 1, split),)}
    here = added(RowsSource(rows=rows))
    with pytest.raises(InputError, match=said):
        bridge.run(export_beir.export_beir(store, here, tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_a_reader_would_change_is_refused_in_the_corpus_too(store, added, tmp_path):
    here = added(RowsSource(rows={"items": (Item("fine", "text"), Item("trailing ", "text"))}))
    with pytest.raises(InputError, match="begins or ends with a blank"):
        bridge.run(export_beir.export_beir(store, here, tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_query_set_that_is_not_there_is_refused(store, added, tmp_path):
    here = added(RowsSource(rows={"items": (Item("a", "text"),)}))
    with pytest.raises(InputError, match="no query set 'judged'"):
        bridge.run(export_beir.export_beir(store, here, tmp_path / "out", query_set="judged"))


def test_somebodys_own_table_goes_out_too(store, tmp_path):
    table, name = f"theirs_{uuid.uuid4().hex[:8]}", f"attached {uuid.uuid4().hex[:8]}"

    async def attach():
        async with store.begin() as connection:
            await connection.execute(text(f"CREATE TABLE public.{table} (id text PRIMARY KEY, body text)"))
            await connection.execute(text(f"INSERT INTO public.{table} VALUES ('b', 'two'), ('a', 'one')"))
        await attached.attach_table(store, name, attached.mapped(table=table, id="id", text="body"))

    bridge.run(attach())
    here = bridge.run(collections.get(store, name))
    assert bridge.run(export_beir.export_beir(store, here, tmp_path / "out")).documents == 2
    rows = [json.loads(line) for line in (tmp_path / "out/corpus.jsonl").read_text().splitlines()]
    assert [(row["_id"], row["text"]) for row in rows] == [("a", "one"), ("b", "two")]
    bridge.run(load.drop(store, name))
