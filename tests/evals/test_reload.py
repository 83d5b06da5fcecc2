"""A folder that a collection was loaded from, read by a newer reader."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from core import bridge
from core.errors import InputError, SpecError, StoreError
from core.store.chunk_and_embed import forget as forget_embeddings
from core.store.collections import CollectionView
from core.store.schema import Collection
from core.store.schema import ItemRow as StoredItem
from core.types import Item, Query
from evals.collections import load, reload
from evals.collections.load import LoadPlan
from evals.labels import corrections, query_sets, revisions
from evals.labels.revisions import Cause
from evals.sources import FolderSource
from evals.types import DEFAULT_QUERY_SET, Label, LabelledQueries, Span
from tests.evals.test_library import SOURCE, ProcessKilled, summary_of
from tests.fakes import HashingEmbedder
from tests.store.making import FIXED, fresh, wrong

MENU = "<div class='sphinxsidebar'><ul><li><a href='i.html'>Installation guide</a></li></ul></div>"
FILES = {
    "guide/filter.html": f"<title>Filters - Siphon</title>{MENU}<div role='main'><h1>Filters</h1><p>A filter removes "
    "sediment.</p><p>Rinse it. Rinse it.</p><p>Pump\n water.</p></div>",
    "guide/pump.md": "# Pump\n\nThe pump lifts water.",
    "guide/valve.rst": "Valves\n======\n\nA valve shuts the line.\n",
    "search.html": "<title>Search</title><p>Please activate JavaScript.</p>",
}
EMBEDDERS = {"hashing-16": HashingEmbedder()}
PLAN = LoadPlan(chunks={"small": FIXED}, models=("hashing-16",), check=False)


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(content)
    return tmp_path / "docs"


def add(store, name, source):
    return bridge.run(load.load_collection(store, name, source, PLAN, embedders=EMBEDDERS))


def old(store, name, folder):
    """A collection as it was loaded before readers were kept: its origin names none."""
    add(store, name, FolderSource(path=folder, reader=1))

    async def forget() -> None:
        async with store.begin() as connection:
            origin = {"kind": "folder", "path": str(folder)}
            await connection.execute(update(Collection).where(Collection.name == name).values(origin=origin))

    bridge.run(forget())


def texts(store, name):
    async def read(view: CollectionView) -> dict[str, tuple[str, str]]:
        async with store.begin(view.namespace) as connection:
            rows = await connection.execute(select(StoredItem))
            return {row.id: (row.title, row.text) for row in rows}

    return bridge.run(read(fresh(store, name)))


def preview(store, name, *where):
    return bridge.run(reload.preview(store, name, *where, embedders=EMBEDDERS))


def apply(store, change):
    return bridge.run(reload.apply(store, change, embedders=EMBEDDERS))


@pytest.mark.slow
def test_a_collection_that_was_loaded_before_keeps_its_text(store, name, folder):
    old(store, name, folder)
    before = texts(store, name)
    again = add(store, name, FolderSource(path=folder))
    assert texts(store, name) == before
    assert (again.report.unchanged, again.report.added, again.report.embedded) == (3, 0, 0)
    assert any(f"`rankbook data reload '{name}' --reader`" in flaw.message for flaw in again.flaws)
    assert any("1 .rst" in flaw.message for flaw in again.flaws)
    assert "Installation guide" in before["guide/filter"][1]
    with pytest.raises(SpecError, match="reload"):
        add(store, name, FolderSource(path=folder, reader=2))


@pytest.mark.slow
def test_what_a_reader_changes_is_said_first_and_then_done(store, name, folder):
    bridge.run(forget_embeddings(store, "hashing-16"))  # other tests embed the same texts
    old(store, name, folder)
    version, before = fresh(store, name).row.version, texts(store, name)
    change = preview(store, name)
    assert change is not None
    assert (change.before, change.added, change.changed, change.unchanged) == (1, 1, 1, 1)
    assert (change.removed, change.models) == (("search",), ("hashing-16",))
    assert (fresh(store, name).row.version, texts(store, name)) == (version, before)
    report = apply(store, change)
    assert (report.added, report.changed, report.unchanged, report.removed) == (1, 1, 1, 1)
    assert report.embedded == change.texts > 0
    assert texts(store, name) == {
        "guide/filter": ("Filters", "# Filters\n\nA filter removes sediment.\n\nRinse it. Rinse it.\n\nPump water."),
        "guide/pump": ("Pump", "# Pump\n\nThe pump lifts water."),
        "guide/valve": ("Valves", "# Valves\n\nA valve shuts the line."),
    }
    assert fresh(store, name).row.origin["reader"] == 2
    assert wrong(store, name) == {}
    assert summary_of(store, name).state == "loaded"
    assert preview(store, name) is None
    assert add(store, name, FolderSource(path=folder)).report.unchanged == 3


def span(text, start, item="guide/filter"):
    return Span("q", item, start, start + len(text), text)


@pytest.mark.slow
def test_spans_move_with_their_texts_and_those_that_cannot_are_said(store, name, folder):
    old(store, name, folder)
    page = texts(store, name)["guide/filter"][1]
    spans = [
        span("A filter removes sediment.", page.index("A filter")),
        span("Rinse it.", page.rindex("Rinse it.")),
        span("Installation guide", page.index("Installation")),
        span("Please activate", 0, "search"),
        span("The pump", 8, "guide/pump"),
    ]
    labels = [Label("q", "guide/filter", 2), Label("q", "search", 1)]
    bridge.run(
        query_sets.keep(store, name, LabelledQueries.ordered([Query("q", "what?")], labels, spans, []), name="mine")
    )
    change = preview(store, name)
    assert [(move.span.text, move.to is None) for move in change.moves] == [
        ("Please activate", True),
        ("Installation guide", True),
        ("A filter removes sediment.", False),
        ("Rinse it.", False),
    ]
    assert change.labels_without_document == 1
    assert {each["text"] for each in change.plain()["spans"]["lost"]} == {"Please activate", "Installation guide"}
    apply(store, change)
    kept, stored = bridge.run(query_sets.load(store, name, name="mine")), texts(store, name)
    assert sorted(each.text for each in kept.spans) == ["A filter removes sediment.", "Rinse it.", "The pump"]
    for each in kept.spans:
        assert stored[each.item_id][1][each.start : each.end] == each.text
    moved = next(each for each in kept.spans if each.text == "Rinse it.")
    assert moved.start == stored["guide/filter"][1].rindex("Rinse it.")
    assert len(kept.labels) == 2
    flaws = bridge.run(query_sets.flaws(store, name, name="mine"))
    assert sorted(flaw["message"].split("'")[1] for flaw in flaws) == ["Installation guide", "Please activate"]


@pytest.mark.slow
def test_another_reader_leaves_no_remarks_of_the_old_one_and_is_nobody_s_correction(store, name, folder):
    old(store, name, folder)
    assert any("1 .rst" in flaw["message"] for flaw in bridge.run(query_sets.flaws(store, name)))
    page = texts(store, name)["guide/filter"][1]
    moving = [span("A filter removes sediment.", page.index("A filter"))]
    labelled = LabelledQueries.ordered([Query("q", "what?")], [Label("q", "guide/filter", 2)], moving, [])
    loaded = Cause(kind="load")
    for query_set in (DEFAULT_QUERY_SET, "mine"):
        bridge.run(
            query_sets.keep(store, name, LabelledQueries(queries=labelled.queries), name=query_set, cause=loaded)
        )
    bridge.run(query_sets.keep(store, name, labelled, cause=loaded))
    bridge.run(query_sets.keep(store, name, labelled, name="mine", cause=Cause(reason="corrected")))
    apply(store, preview(store, name))
    remarks = [flaw["message"] for flaw in bridge.run(query_sets.flaws(store, name))]
    assert any("search.html (1)" in each for each in remarks)
    assert not any("1 .rst" in each or "keeps the reader" in each for each in remarks)
    revision = bridge.run(revisions.list_revisions(store, name, name=DEFAULT_QUERY_SET))[0]
    assert "reader 2" in revision.reason
    assert bridge.run(revisions.last_edit(store, name, name=DEFAULT_QUERY_SET)) is None
    assert bridge.run(revisions.last_edit(store, name, name="mine")) is not None
    moved = bridge.run(corrections.undo(store, name))
    assert moved.misplaced == 1
    assert "another text in their place now: 1" in moved.sentence
    assert bridge.run(corrections.redo(store, name)).misplaced == 0


@pytest.mark.slow
def test_a_reload_that_was_interrupted_is_ended_by_another_with_its_spans(store, name, folder, monkeypatch):
    old(store, name, folder)
    page = texts(store, name)["guide/filter"][1]
    spans = [span("A filter removes sediment.", page.index("A filter")), span("Please activate", 0, "search")]
    bridge.run(query_sets.keep(store, name, LabelledQueries.ordered([Query("q", "what?")], [], spans, []), name="mine"))

    async def die(*_):
        raise ProcessKilled

    with monkeypatch.context() as patched:
        patched.setattr(reload, "_move_spans", die)
        with pytest.raises(ProcessKilled):
            apply(store, preview(store, name))
    assert summary_of(store, name).state == "loading was interrupted"
    again = preview(store, name)
    assert (again.added, again.changed, again.removed) == (0, 0, ())
    assert (len(again.moved), len(again.lost)) == (1, 1)
    apply(store, again)
    (kept,) = bridge.run(query_sets.load(store, name, name="mine")).spans
    assert texts(store, name)["guide/filter"][1][kept.start : kept.end] == kept.text
    assert summary_of(store, name).state == "loaded"


@pytest.mark.slow
def test_only_what_the_old_reader_took_for_documents_goes(store, name, folder):
    old(store, name, folder)
    more = SOURCE.model_copy(update={"rows": {"items": (Item("other", "From elsewhere."),)}})
    add(store, name, more)
    apply(store, preview(store, name))
    assert {"other", "guide/valve"} <= texts(store, name).keys()
    assert "search" not in texts(store, name)


@pytest.mark.slow
def test_a_folder_that_moved_is_named_and_another_source_has_no_readers(store, name, folder, tmp_path):
    old(store, name, folder)
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=f"rankbook data reload '{name}' FOLDER"):
        preview(store, name)
    change = preview(store, name, moved)
    assert (change.added, change.changed) == (1, 1)
    apply(store, change)
    assert fresh(store, name).row.origin["path"] == str(moved)
    add(store, name + " other", SOURCE)
    with pytest.raises(StoreError, match="no other way to read it"):
        preview(store, name + " other")


@pytest.mark.slow
def test_a_reload_without_another_reader_brings_in_what_is_new_and_leaves_labels_alone(store, name, folder):
    bridge.run(
        load.load_collection(store, name, FolderSource(path=folder), LoadPlan(chunks={"small": FIXED}, models=()))
    )
    kept = LabelledQueries.ordered([Query("q", "what?")], [Label("q", "guide/pump", 2)], [], [])
    bridge.run(query_sets.keep(store, name, kept))
    (folder / "new.md").write_text("# New\n\nText.")
    added = bridge.run(reload.refresh(store, name))
    assert (added.report.added, added.report.unchanged, added.labels) == (1, 3, 1)
    assert bridge.run(query_sets.load(store, name)) == kept


@pytest.mark.slow
def test_documents_whose_files_are_gone_stay_and_are_counted_until_they_are_pruned(store, name, folder):
    (folder / "new.md").write_text("# New\n\nText.")
    bridge.run(
        load.load_collection(store, name, FolderSource(path=folder), LoadPlan(chunks={"small": FIXED}, models=()))
    )
    (folder / "new.md").unlink()
    report = bridge.run(reload.refresh(store, name)).report
    assert (report.vanished, report.removed) == (1, 0)
    report = bridge.run(reload.refresh(store, name, prune=True)).report
    assert (report.vanished, report.removed) == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "start", "found"),
    [
        ("x the end", "the end", 2, (0, "the end")),
        ("a the end b the end", "the end, the end", 12, (9, "the end")),
        ("the end", "the end the end", 0, (0, "the end")),
        ("..the end", "the end the end", 2, None),
        ("the end", "the\n  end", 0, (0, "the\n  end")),
        ("the end", "the\nend the  end", 0, None),
        ("the end", "something else", 0, None),
        ("the end", "", 0, None),
    ],
)
def test_a_span_is_where_its_text_stands_once_or_as_often_as_before(old, new, start, found):
    moved = reload.relocate(Span("q", "d", start, start + 7, "the end"), old, new)
    assert (moved and (moved.start, moved.text)) == found
    assert moved is None or new[moved.start : moved.end] == moved.text
