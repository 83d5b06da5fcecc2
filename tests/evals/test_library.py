"""A source in."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from core import bridge
from core.embedding import embedder as embedder_of
from core.errors import EmbeddingError, InputError, RankbookError, StoreError, UnknownName
from core.store import attached, collections
from core.store.ingest import Ingest
from core.types import Flaw, Item, Place, Query, Row
from evals.collections import load, load_labels
from evals.collections.load import LoadPlan
from evals.collections.overview import describe, needs_demo, overview
from evals.labels import corrections, query_sets
from evals.labels.revisions import Cause
from evals.sources import Source, TabularSource
from evals.types import Exclusion, Label, LabelledQueries, Span
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, fresh, query, wrong


class RowsSource(Source):
    """A source whose rows stand in memory."""

    kind: ClassVar[str] = "given"
    rows: dict[str, tuple[object, ...]]

    def _of(self, what: str) -> Iterator[Row | Flaw]:
        for line, value in enumerate(self.rows.get(what, ()), 1):
            yield value if isinstance(value, Flaw) else Row(value, Place(what, line))

    def items(self):
        return self._of("items")

    def queries(self):
        return self._of("queries")

    def labels(self):
        return self._of("labels")

    def spans(self):
        return self._of("spans")

    def exclusions(self):
        return self._of("exclusions")

    def card(self) -> str:
        return "# Given"

    def spec(self) -> dict[str, object]:
        return {"kind": self.kind}


ITEMS = (
    Item("cat", "The cat sat on the mat and looked out of the window for an hour.", "Cats", {"kind": "pet"}),
    Item("dog", "Dogs bark at the postman every single morning of the year.", "Dogs", {"kind": "pet"}),
    Item("owl", "Owls hunt at night, and sleep through the whole of the day.", "", {"kind": "wild"}),
)
SOURCE = RowsSource(
    rows={
        "items": ITEMS,
        "queries": (Query("q1", "what does a cat look at"), Query("q2", "night birds")),
        "labels": (Label("q1", "cat", 2, "test"), Label("q2", "owl", 1, "train"), Label("q2", "gone", 1, "test")),
        "spans": (Span("q1", "cat", 4, 7, "cat"),),
        "exclusions": (Exclusion("q2", "dog"),),
    }
)
PLAN = LoadPlan(chunks={"small": FIXED}, models=("hashing-16",), fields=("kind",))


def add(store, name, source=SOURCE, plan=PLAN, **changes):
    embedders = {"hashing-16": HashingEmbedder(), "hashing-8": HashingEmbedder(8)}
    return bridge.run(load.load_collection(store, name, source, plan.model_copy(update=changes), embedders=embedders))


@pytest.mark.slow
def test_items_queries_labels_spans_and_exclusions_come_in_together_and_are_checked(store, name):
    added = add(store, name)
    assert (added.report.added, added.queries, added.labels, added.splits) == (3, 2, 2, {"test": 1, "train": 1})
    assert [flaw.message for flaw in added.flaws if flaw.outcome == "quarantined"] == [
        "The document 'gone' is not in the collection, or was left out itself."
    ]
    kept = bridge.run(query_sets.load(store, name))
    assert {each.id for each in kept.queries} == {"q1", "q2"}
    assert kept.spans[0].text == "cat"
    assert kept.exclusions == (Exclusion("q2", "dog"),)
    view = fresh(store, name)
    assert (view.row.card, view.row.origin, view.row.fields) == ("# Given", {"kind": "given"}, ["kind"])
    assert [each.name for each in view.chunk_sets] == ["items", "small"]
    assert [(each.chunk_set, each.model) for each in view.embedding_sets] == [(0, "hashing-16"), (1, "hashing-16")]
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_adding_the_same_again_changes_nothing(store, name):
    add(store, name)
    version = fresh(store, name).row.version
    again = add(store, name)
    assert (again.report.unchanged, again.report.embedded, again.report.touched) == (3, 0, False)
    assert (again.queries, again.labels) == (2, 2)
    assert fresh(store, name).row.version == version


@pytest.mark.slow
def test_a_plan_with_more_sets_completes_what_is_there(store, name):
    add(store, name)
    more = add(store, name, chunks={"small": FIXED, "family": FAMILY}, models=("hashing-16", "hashing-8"))
    assert (more.report.unchanged, more.report.added) == (3, 0)
    view = fresh(store, name)
    assert [each.name for each in view.chunk_sets] == ["items", "small", "family"]
    assert len(view.embedding_sets) == 6
    assert wrong(store, name) == {}
    less = add(store, name, models=())
    assert less.report.unchanged == 3
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_without_models_there_are_texts_and_no_vectors(store, name):
    add(store, name, models=())
    assert fresh(store, name).embedding_sets == ()
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_items_are_embedded_only_where_that_is_wanted(store, name):
    add(store, name, embed_items=False)
    assert [each.chunk_set for each in fresh(store, name).embedding_sets] == [1]


@pytest.mark.slow
def test_vanished_items_are_pruned_when_asked_and_their_labels_reported(store, name):
    add(store, name)
    smaller = RowsSource(rows={**SOURCE.rows, "items": ITEMS[1:]})
    assert add(store, name, smaller).report.removed == 0
    pruned = add(store, name, smaller, prune=True)
    assert pruned.report.removed == 1
    assert pruned.labels == 1
    assert any("'cat' is not in the collection" in flaw.message for flaw in pruned.flaws)
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_labels_that_somebody_brought_stay_where_the_source_has_none(store, name):
    add(store, name, RowsSource(rows={"items": ITEMS}), models=())
    labelled = LabelledQueries((Query("mine", "night birds"),), (Label("mine", "owl", 1), Label("mine", "cat", 0)))
    bridge.run(query_sets.keep(store, name, labelled))
    again = add(store, name, RowsSource(rows={"items": ITEMS}), models=())
    assert (again.queries, again.labels) == (1, 2)
    assert bridge.run(query_sets.load(store, name)) == LabelledQueries.ordered(
        labelled.queries, labelled.labels, (), ()
    )
    pruned = add(store, name, RowsSource(rows={"items": ITEMS[1:]}), models=(), prune=True)
    assert pruned.stay_reason.startswith("1 labels of the query set 'default' are about documents that are not in the")
    assert len(bridge.run(query_sets.load(store, name)).labels) == 2


@pytest.mark.slow
def test_a_source_with_fewer_labels_takes_none_away_and_says_what_would(store, name):
    add(store, name, models=())
    fewer = RowsSource(rows={**SOURCE.rows, "labels": SOURCE.rows["labels"][:1]})
    added = add(store, name, fewer, models=())
    assert "so what is there stays: 2 labels -> 1 (test 1 -> 1, train 1 -> 0)." in added.stay_reason
    assert f"rankbook data label {name} FROM --even-so" in added.stay_reason
    assert len(bridge.run(query_sets.load(store, name)).labels) == 2


@pytest.mark.slow
def test_a_corrected_label_outlives_the_next_load(store, name):
    add(store, name, models=())
    view = fresh(store, name)
    bridge.run(corrections.relabel(store, view, "q1", "cat", 1, cause=Cause("ada")))
    told = add(store, name, models=()).stay_reason
    assert "changed since it was loaded, last by ada" in told
    assert told.endswith(f"rankbook data label {name} FROM")
    assert Label("q1", "cat", 1, "test") in bridge.run(query_sets.load(store, name)).labels
    bridge.run(corrections.undo(store, name))
    assert not add(store, name, models=()).stay_reason


@pytest.mark.slow
def test_a_source_with_more_labels_brings_them_in_and_that_can_be_undone(store, name):
    add(store, name, models=())
    before = bridge.run(query_sets.load(store, name))
    more = RowsSource(rows={**SOURCE.rows, "labels": (*SOURCE.rows["labels"], Label("q1", "dog", 1))})
    added = add(store, name, more, models=())
    assert added.change.sentence == "2 labels -> 3 (test 1 -> 2, train 1 -> 1)"
    assert bridge.run(corrections.undo(store, name)).revision.reason == "loaded from given"
    assert bridge.run(query_sets.load(store, name)) == before


@pytest.mark.slow
def test_a_query_whose_own_text_stands_in_a_document_is_reported(store, name):
    leaking = RowsSource(
        rows={
            "items": (*ITEMS, Item("per", "It is 100% sure_thing that this leaks.")),
            "queries": (
                Query("leak", "  dogs bark AT the postman "),
                Query("short", "cat"),
                Query("percent", "is 100% sure_thing that"),
                Query("wild", "is 100_ sure%thing that"),
            ),
        }
    )
    flaws = [flaw for flaw in add(store, name, leaking).flaws if "own text stands" in flaw.message]
    assert [(flaw.subject, flaw.place.line) for flaw in flaws] == [("leak", 1), ("percent", 3)]
    assert "'dog'" in flaws[0].message
    assert not [flaw for flaw in add(store, name + "b", leaking, check=False).flaws if "own text" in flaw.message]


@pytest.mark.slow
def test_documents_that_nearly_repeat_others_are_reported(store, name):
    text = " ".join(f"word{number}" for number in range(200))
    twins = RowsSource(rows={"items": (*ITEMS, Item("one", text), Item("two", text + " more"))})
    flaws = [flaw for flaw in add(store, name, twins).flaws if "repeats" in flaw.message]
    assert [(flaw.subject, flaw.outcome) for flaw in flaws] == [("two", "noted")]
    assert "'one'" in flaws[0].message


@pytest.mark.slow
def test_queries_and_labels_that_cannot_be_stored_cost_themselves_alone(store, name):
    broken = RowsSource(
        rows={
            "items": ITEMS,
            "queries": (
                Query("nul", "what does a \x00cat look at", metadata={"n": float("inf")}),
                Query("half\ud800", "text"),
                Query("fine", "half \ud800 of a pair"),
            ),
            "labels": (Label("nul", "cat", 1), Label("nul", "d\x00", 1), Label("half\ud800", "cat", 1)),
            "spans": (Span("nul", "cat", 0, 3, "\x00"),),
            "exclusions": (Exclusion("nul", "\ud800"),),
        }
    )
    added = add(store, name, broken)
    assert (added.report.added, added.queries, added.labels) == (3, 2, 1)
    kept = bridge.run(query_sets.load(store, name))
    assert [each.text for each in kept.queries] == ["half \ufffd of a pair", "what does a cat look at"]
    assert len([flaw for flaw in added.flaws if "cannot be stored" in flaw.message]) == 4


@pytest.mark.slow
def test_flaws_of_items_and_of_labels_are_listed_together(store, name):
    flawed = RowsSource(rows={**SOURCE.rows, "items": (*ITEMS, Item("", "no id"), Flaw(Place("items", 5), "no JSON"))})
    messages = [flaw.message for flaw in add(store, name, flawed).flaws]
    assert any("id is missing" in message for message in messages)
    assert "no JSON" in messages


@pytest.mark.slow
def test_dropping_takes_the_labels_along(store, name):
    add(store, name)
    bridge.run(load.drop(store, name))
    assert bridge.run(collections.find(store, name)) is None
    assert bridge.run(query_sets.load(store, name)) == LabelledQueries()
    with pytest.raises(UnknownName, match="rankbook data add"):
        bridge.run(load.drop(store, name))


@pytest.mark.slow
def test_a_plan_that_makes_no_sense_is_refused_before_anything_is_made(store, name):
    with pytest.raises(ValidationError):
        LoadPlan(index="ivfflat")
    with pytest.raises(ValidationError):
        LoadPlan(no_such_option=1)  # type: ignore[call-arg]
    with pytest.raises(StoreError, match="another name"):  # noqa: PT012
        add(store, name)
        add(store, name, chunks={"small": FAMILY})
    with pytest.raises(UnknownName, match="language"):
        add(store, name + "b", language="klingon")
    assert bridge.run(collections.find(store, name + "b")) is None


# -- loads that failed, or never ended ---------------------------------------------------------------------------------


class ProcessKilled(BaseException):
    """Ends a load as a kill would: nothing tidies up after it."""


def summary_of(store, name):
    return next(each for each in bridge.run(overview(store)) if each.name == name)


def kill_load_at(store, name, monkeypatch, where, plan=PLAN):
    """A load that dies when it comes to that function."""

    async def die(*_, **__):
        raise ProcessKilled

    with monkeypatch.context() as patched:
        patched.setattr(*where, die)
        with pytest.raises(ProcessKilled):
            bridge.run(load.load_collection(store, name, SOURCE, plan, embedders={"hashing-16": HashingEmbedder()}))


@pytest.mark.slow
@pytest.mark.parametrize("where", [(collections, "add_fields"), (Ingest, "_finish"), (load, "load_source_labels")])
def test_a_collection_whose_load_never_ended_says_so_until_one_does(store, name, monkeypatch, where):
    kill_load_at(store, name, monkeypatch, where)
    assert summary_of(store, name).state == "loading was interrupted"
    assert bridge.run(describe(store, name))[name]["state"] == "loading was interrupted"
    add(store, name)
    assert summary_of(store, name).state == "loaded"
    assert fresh(store, name).row.loaded_at is not None
    kill_load_at(store, name, monkeypatch, (load, "load_source_labels"))
    assert summary_of(store, name).state == "loading was interrupted"


@pytest.mark.slow
def test_the_demo_is_needed_until_it_is_loaded_to_its_end(store, name, monkeypatch):
    async def listed(_):
        return [row for row in await every(store) if row.name.startswith(name)]

    every = collections.listed
    monkeypatch.setattr(collections, "listed", listed)
    assert bridge.run(needs_demo(store, name))
    bridge.run(collections.create(store, name, origin={"kind": "bundled", "name": name}))
    assert bridge.run(needs_demo(store, name))
    add(store, name)
    assert not bridge.run(needs_demo(store, name))
    assert not bridge.run(needs_demo(store, name + " other"))
    kill_load_at(store, name + " own", monkeypatch, (collections, "add_fields"))
    assert not bridge.run(needs_demo(store, name + " own"))
    kill_load_at(store, name, monkeypatch, (load, "load_source_labels"))
    assert bridge.run(needs_demo(store, name))


class Unreachable(HashingEmbedder):
    async def embed(self, texts, purpose="document"):
        raise EmbeddingError("nobody answers")


def broken_after(rows):
    def items(self):
        yield from (Row(item, Place("items", 1)) for item in rows)
        raise InputError("the network went away")

    return type("Broken", (RowsSource,), {"items": items})(rows={})


@pytest.mark.parametrize(
    ("source", "changes", "error"),
    [
        (RowsSource(rows={}), {}, "holds no documents"),
        (
            RowsSource(rows={"items": (Item("", "no id"), Item(" ", "none either"))}),
            {},
            r"could be read, so nothing was loaded into 'test \w+'\. The first, items, line 1: ",
        ),
        (SOURCE, {"chunks": {"small": {"kind": "no such"}}}, "No chunker"),
        (SOURCE, {"chunks": {"items": FIXED}}, "another name"),
        (SOURCE, {"models": ("unreachable",)}, "nobody answers"),
        (SOURCE, {"models": ("no:such",)}, "no:such|such"),
        (broken_after(()), {}, "went away"),
        (broken_after(ITEMS), {}, "went away"),
        (TabularSource(path=Path(__file__), queries_path=Path(__file__)), {}, "ending is not known"),
    ],
)
def test_a_first_load_that_fails_leaves_nothing_behind(store, name, source, changes, error):
    embedders = {"hashing-16": HashingEmbedder(), "unreachable": Unreachable(name=name)}
    with pytest.raises(RankbookError, match=error):
        bridge.run(load.load_collection(store, name, source, PLAN.model_copy(update=changes), embedders=embedders))
    assert bridge.run(collections.find(store, name)) is None


def test_labels_with_a_wrong_column_are_told_before_anything_is_made(store, name, tmp_path):
    (tmp_path / "d.csv").write_text("id,text\n1,some words\n")
    (tmp_path / "q.csv").write_text("wrong\n1\n")
    with pytest.raises(InputError, match="no column"):
        add(store, name, TabularSource(path=tmp_path / "d.csv", queries_path=tmp_path / "q.csv"))
    assert bridge.run(collections.find(store, name)) is None


@pytest.mark.slow
def test_a_later_load_that_fails_leaves_what_was_there(store, name):
    add(store, name)
    with pytest.raises(InputError, match="went away"):
        add(store, name, broken_after(ITEMS))
    assert fresh(store, name).chunk_set("items").units == 3


# -- checks and flaws, run after run -----------------------------------------------------------------------------------

TEXT = " ".join(f"word{number}" for number in range(200))
FLAWED = RowsSource(
    rows={
        "items": (*ITEMS, Item("one", TEXT), Item("two", TEXT + " more"), Item("", "no id")),
        "queries": (Query("leak", "dogs bark at the postman"),),
        "labels": (Label("leak", "gone", 1),),
    }
)
ALL = {"documents", "labels", "leaks", "repeats"}


def kinds(store, name) -> set[str]:
    return {flaw["of"] for flaw in bridge.run(query_sets.flaws(store, name))}


@pytest.mark.slow
def test_checks_that_a_killed_run_never_made_are_made_by_the_next(store, name, monkeypatch):
    kill_load_at(store, name, monkeypatch, (load, "load_source_labels"))
    add(store, name, FLAWED)
    monkeypatch.undo()
    other = f"{name} b"
    with monkeypatch.context() as patched:
        patched.setattr(query_sets, "keep", dies)
        with pytest.raises(ProcessKilled):
            add(store, other, FLAWED)
    assert not add(store, other, FLAWED).report.touched
    assert kinds(store, other) == kinds(store, name) == ALL


async def dies(*_, **__):
    raise ProcessKilled


@pytest.mark.slow
def test_neither_an_unchanged_run_nor_one_without_checks_erases_a_flaw_that_holds(store, name):
    add(store, name, FLAWED)
    assert kinds(store, name) == ALL
    again = add(store, name, FLAWED)
    assert not [flaw for flaw in again.flaws if "repeats" in flaw.message]
    assert kinds(store, name) == ALL
    add(store, name, FLAWED, check=False)
    assert kinds(store, name) == ALL
    bridge.run(load_labels.load_labels(store, fresh(store, name), FLAWED, even_so=True))
    assert kinds(store, name) == ALL
    mended = RowsSource(rows={**FLAWED.rows, "items": FLAWED.rows["items"][:5]})
    add(store, name, mended)
    assert kinds(store, name) == ALL - {"documents"}


@pytest.mark.slow
def test_new_queries_are_held_against_texts_that_have_not_changed(store, name):
    add(store, name, RowsSource(rows={**FLAWED.rows, "queries": (Query("leak", "nothing of the kind is there"),)}))
    assert kinds(store, name) == ALL - {"leaks"}
    add(store, name, FLAWED, check=False)
    assert kinds(store, name) == ALL - {"leaks"}
    add(store, name, FLAWED)
    assert kinds(store, name) == ALL


# -- options given for a collection that is there ----------------------------------------------------------------------


@pytest.mark.slow
def test_fields_that_come_later_are_indexed(store, name):
    add(store, name)
    add(store, name, fields=("kind", "size"))
    assert fresh(store, name).row.fields == ["kind", "size"]
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_another_language_or_index_than_there_is_is_refused_and_what_was_not_asked_for_is_not(store, name):
    add(store, name, language="german")
    with pytest.raises(StoreError, match=r"configuration 'german', and 'english' was asked for.*rankbook data drop"):
        add(store, name, language="english")
    with pytest.raises(StoreError, match=r"indexed as 'vector', and 'halfvec' was asked for.*rankbook data drop"):
        add(store, name, index="halfvec")
    assert add(store, name).report.unchanged == 3
    assert add(store, name, index="vector").report.unchanged == 3
    added = add(store, name, chunks={"other": FIXED}, index="halfvec", embed_items=False)
    assert added.report.chunks
    assert {each.index for each in fresh(store, name).embedding_sets} == {"vector", "halfvec"}


def test_what_a_source_wishes_is_no_request():
    class Wishing(RowsSource):
        def wishes(self):
            return {"language": "german", "fields": ["kind"]}

    plan = load.plan_for(Wishing(rows={}), prune=True)
    assert (plan.language, plan.fields, plan.prune) == ("german", ("kind",), True)
    assert plan.model_fields_set == {"prune"}


@pytest.mark.slow
def test_a_name_typed_with_its_accent_apart_is_described_and_dropped_with_its_labels(store, name):
    apart, composed = f"{name} cafe\u0301", f"{name} caf\u00e9"
    add(store, composed)
    assert bridge.run(describe(store, apart))[composed]["queries"] == 2
    assert bridge.run(describe(store, apart))["Queries by split"]
    bridge.run(load.drop(store, apart))
    assert bridge.run(query_sets.load(store, composed)) == LabelledQueries()


@pytest.mark.slow
def test_an_overview_counts_queries_and_tells_when_something_changed(store, name):
    add(store, name)
    assert summary_of(store, name).queries == 2
    assert summary_of(store, name).changed == fresh(store, name).row.changed_at


# -- a model that is served elsewhere ----------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Vectors of three dimensions from the length of each text."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = [{"index": at, "embedding": [len(text), 1.0, 2.0]} for at, text in enumerate(asked["input"])]
        content = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keeps quiet."""


@pytest.fixture
def endpoint(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", f"http://127.0.0.1:{server.server_port}/v1")
    embedder_of.cache_clear()
    yield "openai:elsewhere"
    embedder_of.cache_clear()
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_model_served_elsewhere_is_added_to_what_is_there_and_a_chunk_set_after_it(store, name, endpoint):
    add(store, name, models=())
    report = bridge.run(load.add_model(store, fresh(store, name), endpoint, ("items", "small")))
    assert report.embedded > 3
    assert {each.dimension for each in fresh(store, name).embedding_sets} == {3}
    report = bridge.run(load.add_chunk_set(store, fresh(store, name), "whole", {"kind": "none"}))
    assert report.chunks == 3
    assert wrong(store, name) == {}
    vectors = query(store, fresh(store, name), "SELECT id, embedding::text FROM {vectors} ORDER BY id", 2)
    assert len(vectors) == 3


@pytest.mark.slow
def test_what_openai_embedded_is_not_completed_by_a_model_of_that_name_elsewhere(store, name, endpoint):
    openai = HashingEmbedder(name=endpoint)
    plan = PLAN.model_copy(update={"models": (openai.model,)})
    bridge.run(load.load_collection(store, name, SOURCE, plan, embedders={openai.model: openai}))
    with pytest.raises(EmbeddingError, match=r"served by api\.openai\.com, and RANKBOOK_EMBEDDING_URL points at 127"):
        bridge.run(load.add_chunk_set(store, fresh(store, name), "whole", {"kind": "none"}))
    assert [each.name for each in fresh(store, name).chunk_sets] == ["items", "small"]
    bridge.run(load.add_model(store, fresh(store, name), openai.model, ("small",)))  # the way out
    assert fresh(store, name).embedding_sets[-1].model.startswith(f"{openai.model}[127.0.0.1:")
    assert wrong(store, name) == {}


class Broken(HashingEmbedder):
    """A model that cannot be loaded, which takes its time to find out."""

    tries = 0

    @property
    def dimension(self):
        self.tries += 1
        raise EmbeddingError("The weights are cut short.")

    @dimension.setter
    def dimension(self, _):
        """Known to nobody."""

    async def embed(self, texts, purpose="document"):
        return self.dimension


def test_a_model_that_cannot_be_loaded_is_tried_once(store, name):
    broken = Broken()
    with pytest.raises(EmbeddingError, match="cut short"):
        bridge.run(load.load_collection(store, name, SOURCE, PLAN, embedders={"hashing-16": broken}))
    assert broken.tries == 1


def test_a_table_that_is_gone_hides_no_other_collection(store, name):
    table = f"gone_{uuid.uuid4().hex[:12]}"

    async def attach_and_lose() -> None:
        async with store.begin() as connection:
            await connection.execute(text(f"CREATE TABLE public.{table} (id text, body text)"))
        await attached.attach_table(store, name, attached.mapped(table=table, id="id", text="body"))
        async with store.begin() as connection:
            await connection.execute(text(f"DROP TABLE public.{table}"))

    bridge.run(attach_and_lose())
    state = {row.name: row.state for row in bridge.run(overview(store))}[name]
    assert "cannot be read any more" in state
    bridge.run(load.drop(store, name))
