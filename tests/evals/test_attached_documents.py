"""Rows of an attached table that are parts of documents: labels, roll-up, caps and all that speaks of documents."""

# mypy: disable-error-code="no-untyped-call, no-untyped-def"
# ruff: noqa: F401, F811 - fixtures are imported, and asked for by name

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from core import bridge
from core.context import RequestContext, Resources
from core.errors import InputError, SpecError, UnknownName
from core.explain import explain
from core.pipeline.retriever import search
from core.store import attached, collections, passages
from core.store.attached import AttachedTable, mapped
from core.store.browse import list_documents
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from core.types import Query
from core.variant import Variant
from evals.collections import export_beir, load, load_labels
from evals.evaluation import evaluate
from evals.evaluation.context import open_eval
from evals.labels import label_files, query_generation, query_sets
from evals.runs.plan import EvalOptions
from evals.types import Label
from tests.conftest import OURS
from tests.evals.test_library import RowsSource
from tests.fakes import HashingEmbedder
from tests.store.exporting import address, by_pipeline, by_sql
from tests.store.making import fresh
from tests.store.test_attached import Server, server

EMBEDDER = HashingEmbedder(16)
RESOURCES = Resources(embedder=lambda _: EMBEDDER, environment={})
# id, document, text: the best rows for "red fox" are two of one document
ROWS = [
    ("r1", "fables", "red fox red fox"),
    ("r2", "fables", "red fox and the grapes"),
    ("r3", "fables", "the hare"),
    ("r4", "atlas", "a fox on a map, red on green"),
    ("r5", "atlas", "rivers"),
    ("r6", "", "a fox lives by itself in wide dark woods, far from every house and road"),
    ("r7", None, "nothing of the kind"),
]
DOCUMENTS = ["atlas", "fables", "r6", "r7"]
MAPPINGS: dict[str, dict[str, Any]] = {
    "a column": {"parent": "doc"},
    "a number": {"parent": "number"},
    "a jsonb": {"parent": ("meta", "doc"), "metadata": "meta"},
    "a json": {"parent": ("plain", "doc"), "metadata": "plain"},
    "a path": {"parent": ("meta", "of 'it' %s", "id"), "metadata": "meta"},
}
NUMBERS = {"fables": 10, "atlas": 2, "": None, None: None}


@pytest.fixture(scope="module")
def table(store: Store) -> Iterator[str]:
    name, quoted = f"{OURS}rows ; DROP", psycopg.sql.Identifier("public", f"{OURS}rows ; DROP")
    make = "CREATE TABLE {} (id text PRIMARY KEY, doc text, number int, meta jsonb, plain json, t text, emb vector(16))"
    with psycopg.connect(address(store), autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL(make).format(quoted))
        for at, (key, document, words) in enumerate(ROWS):
            meta = json.dumps({"doc": document, "of 'it' %s": {"id": document}, "n": at})
            vector = bridge.run(EMBEDDER.embed([words]))[0].tolist()
            values = [key, document, NUMBERS[document], meta, meta, words, json.dumps(vector)]
            insert = psycopg.sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, %s, %s, %s)").format(quoted)
            connection.execute(insert, values)
        yield name
        connection.execute(psycopg.sql.SQL("DROP TABLE {}").format(quoted))


@pytest.fixture
def attach(store: Store, table: str, name: str) -> Iterator[Callable[..., CollectionView]]:
    def work(**columns: Any) -> CollectionView:
        given = {"table": table, "id": "id", "text": "t", "embedding": "emb", "model": EMBEDDER.model, **columns}
        return bridge.run(attached.attach_table(store, name, mapped(**given)))

    yield work
    if bridge.run(collections.find(store, name)):
        bridge.run(load.drop(store, name))


@pytest.fixture(params=list(MAPPINGS))
def mapping(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def named(mapping: str, documents: list[str]) -> list[str]:
    """The documents' ids under this mapping."""
    return sorted(str(NUMBERS.get(each) or each) if mapping == "a number" else each for each in documents)


def variant(*kinds: str, **options: Any) -> Variant:
    return Variant.from_data({"leg": [{"kind": kind} for kind in kinds], "top_k": 5, **options})


def found(
    store: Store, view: CollectionView, chosen: Variant, words: str = "red fox", **options: Any
) -> list[tuple[str, str]]:
    context = RequestContext(store, fresh(store, view.name), RESOURCES)
    return [(hit.id, hit.item_id) for hit in bridge.run(search(context, words, chosen, **options)).hits]


# -- search ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hit_names_its_document_and_one_that_has_none_is_a_document_itself(store, attach, mapping):
    view = attach(**MAPPINGS[mapping])
    hits = found(store, view, variant("vector", top_k=7))
    told = {key: document or key for key, document, _ in ROWS}
    expected = {(key, *named(mapping, [document])) for key, document in told.items()}
    assert set(hits) == expected


def test_roll_up_and_the_most_of_one_document_go_by_documents(store, attach, mapping):
    view = attach(**MAPPINGS[mapping])
    rolled = found(store, view, variant("fulltext", rollup={}))
    assert [key for key, _ in rolled] == ["r1", "r4", "r6"]
    assert [key for key, _ in found(store, view, variant("fulltext", per_item_cap=1))] == ["r1", "r4", "r6"]
    assert [key for key, _ in found(store, view, variant("fulltext"))] == ["r1", "r2", "r4", "r6"]


def test_documents_are_filtered_and_left_out_by_their_ids(store, attach, mapping):
    view = attach(**MAPPINGS[mapping])
    (fables,) = named(mapping, ["fables"])
    only = variant("fulltext", filter={"field": "_id", "in": [fables, "r6", "r1", "None", ""]})
    assert {key for key, _ in found(store, view, only)} == {"r1", "r2", "r6"}
    left = found(store, view, variant("fulltext"), excluded=frozenset({fables}))
    assert [key for key, _ in left] == ["r4", "r6"]


@pytest.mark.parametrize("options", [{}, {"rollup": {}}, {"rollup": {"method": "sum"}}, {"per_item_cap": 1}])
@pytest.mark.parametrize("aside", [False, True])
def test_the_exported_statement_gives_the_pipelines_ranking(store, attach, mapping, options, aside):
    view = attach(**MAPPINGS[mapping])
    if aside:
        view = bridge.run(attached.build_side_tables(store, view))
    chosen = variant("fulltext", "vector", *(["bm25"] if aside else []), **options)
    context = RequestContext(store, view, RESOURCES)
    expected = [(hit.id, hit.score, hit.raw_score) for hit in bridge.run(search(context, "red fox", chosen)).hits]
    assert expected
    assert _by_sql(store, view, chosen) == expected


def _by_sql(store, view, chosen):
    from core.sql_export import export_sql

    made = bridge.run(export_sql(store, view, chosen))
    vector = bridge.run(EMBEDDER.embed(["red fox"], "query"))[0]
    with psycopg.connect(address(store)) as connection:
        for setting in made.setting_statements:
            connection.execute(setting.encode())
        cursor = psycopg.RawCursor(connection, row_factory=psycopg.rows.dict_row)
        cursor.execute(made.statement.encode(), made.values("red fox", vector if made.needs_vector else None))
        return [(row["id"], row["score"], row["raw_score"]) for row in cursor.fetchall()]


def test_a_json_with_a_nul_in_it_names_no_document_and_ends_no_search(store, server, attach):
    own = server.unique()
    server.run("CREATE TABLE {} (id int PRIMARY KEY, t text, plain json)", own)
    server.drop_later("TABLE", own)
    nul = '{"a": "\\u0000", "doc": "d"}'
    server.run("INSERT INTO {} VALUES (1, 'red fox', %s), (2, 'red fox', %s)", own, values=(nul, '{"doc": "d"}'))
    view = attach(table=own, embedding=None, model=None, parent=("plain", "doc"))
    assert sorted(found(store, view, variant("fulltext"))) == [("1", "1"), ("2", "d")]


# -- why ---------------------------------------------------------------------------------------------------------------


def test_why_takes_a_document_and_a_row_of_it(store, attach, mapping):
    view = attach(**MAPPINGS[mapping])
    context = RequestContext(store, view, RESOURCES)
    (atlas,) = named(mapping, ["atlas"])
    document = bridge.run(explain(context, "red fox", variant("fulltext"), atlas))
    assert (document.kind, document.there, document.rank, document.standings[0].unit) == ("item", True, 3, "r4")
    row = bridge.run(explain(context, "red fox", variant("fulltext"), "r4"))
    assert (row.kind, row.rank) == ("chunk", 3)
    capped = bridge.run(explain(context, "red fox", variant("fulltext", per_item_cap=1), "r2"))
    assert (capped.there, "per-item cap" in str(capped.loss)) == (False, True)
    none = variant("fulltext", filter={"field": "_id", "eq": "r6"})
    assert bridge.run(explain(context, "red fox", none, atlas)).filtered
    with pytest.raises(InputError, match="no document 'novel'"):
        bridge.run(explain(context, "red fox", variant("fulltext"), "novel"))


# -- evaluation --------------------------------------------------------------------------------------------------------

LABELLED = RowsSource(
    rows={
        "items": (),
        "queries": (Query("q1", "red fox"), Query("q2", "rivers")),
        "labels": (
            Label("q1", "atlas", 1, "test"),
            Label("q2", "atlas", 1, "test"),
            Label("q2", "r5", 1, "test"),  # a row that has a document is none itself
        ),
        "spans": (),
        "exclusions": (),
    }
)


@pytest.mark.slow
def test_labels_of_documents_score_under_roll_up_and_a_cap_and_without_either(store, attach):
    view = attach(**MAPPINGS["a jsonb"])
    added = bridge.run(load_labels.load_labels(store, view, LABELLED))
    assert (added.labels, [flaw.message for flaw in added.flaws if "r5" in flaw.message]) == (
        2,
        ["The document 'r5' is not in the collection, or was left out itself."],
    )
    chosen = [
        variant("fulltext", name="plain"),
        variant("fulltext", name="rolled", rollup={}),
        variant("fulltext", name="capped", per_item_cap=1),
        variant("fulltext", "vector", name="both", rollup={}, rerank={"method": "overlap"}),
    ]
    ground = bridge.run(open_eval(store, view.name, resources=RESOURCES))
    split = ground.split("test")
    board = bridge.run(evaluate.evaluate(ground, chosen, split, EvalOptions(("mrr@5", "recall@1")))).board
    assert board.of("plain", "mrr@5") == {"q1": 0.5, "q2": 1.0}, "fables has two rows before, and counts once"
    assert board.of("rolled", "mrr@5") == {"q1": 0.5, "q2": 1.0}
    assert board.of("capped", "mrr@5") == {"q1": 0.5, "q2": 1.0}
    kept = {run.name: run.rankings["q1"] for run in board.runs}
    assert (kept["plain"].ids, kept["plain"].item_ids) == (("r1", "r2", "r4", "r6"), ("fables", "atlas", "r6"))
    assert kept["rolled"].ids == kept["capped"].ids == ("r1", "r4", "r6")
    assert kept["both"].item_ids[:2] == ("fables", "atlas")
    for each in chosen:  # computed from legs, or searched: as a search of its own has it
        assert [key for key, _ in found(store, view, each)] == list(kept[each.name].ids)


@pytest.mark.slow
def test_a_run_says_that_what_its_legs_read_aside_is_behind_the_table(store, server, attach):
    own = server.unique()
    server.run("CREATE TABLE {} (id text PRIMARY KEY, t text)", own)
    server.drop_later("TABLE", own)
    view = bridge.run(attached.build_side_tables(store, attach(table=own, embedding=None, model=None)))
    server.run("INSERT INTO {} VALUES ('atlas', 'red fox')", own)
    bridge.run(load_labels.load_labels(store, view, LABELLED))
    server.run("TRUNCATE {}", own)  # which shows at once, whenever the counters do
    chosen = [variant(kind, name=kind) for kind in ("trigram", "bm25")] + [
        variant("fulltext", name="searched", rerank={"method": "overlap"})
    ]
    ground = bridge.run(open_eval(store, view.name, resources=RESOURCES))
    board = bridge.run(evaluate.evaluate(ground, chosen, ground.split("test"), EvalOptions(("mrr@5",)))).board
    told = {run.name: [note for note in run.notes if "since its words were taken aside" in note] for run in board.runs}
    assert {name: len(notes) for name, notes in told.items()} == {"trigram": 0, "bm25": 1, "searched": 1}
    assert any("since its words were taken aside" in each.message for each in board.warnings)


@pytest.mark.slow
def test_a_run_from_elsewhere_is_scored_by_documents_and_says_which_are_not_there(store, attach, tmp_path):
    view = attach(**MAPPINGS["a column"])
    bridge.run(load_labels.load_labels(store, view, LABELLED))
    file = tmp_path / "theirs.run"
    file.write_text("q1 Q0 novel 1 9 t\nq1 Q0 atlas 2 8 t\nq1 Q0 r1 3 7 t\nq2 Q0 atlas 1 1 t\n")
    ground = bridge.run(open_eval(store, view.name, resources=RESOURCES))
    result = bridge.run(evaluate.evaluate(ground, [], ground.split("test"), EvalOptions(("mrr@5",)), files=[file]))
    board, (read,) = result.board, result.foreign
    assert board.of("theirs", "mrr@5") == {"q1": 0.5, "q2": 1.0}
    assert read.unknown == ("novel", "r1")
    (said,) = [each.message for each in board.warnings if "documents are not in" in each.message]
    assert f"2 of its 3 documents are not in '{view.name}': 'novel', 'r1'." in said


def test_whatever_speaks_of_documents_reads_them_whole(store, attach, mapping, tmp_path):
    view = attach(**MAPPINGS[mapping])
    (fables,) = named(mapping, ["fables"])
    whole = "red fox red fox\n\nred fox and the grapes\n\nthe hare"
    shown = bridge.run(read_items(store, view, [fables, "r1", "r6"]))
    assert {key: item.text for key, item in shown.items()} == {fables: whole, "r6": ROWS[5][2]}
    item = bridge.run(passages.whole_items(store, view, None, [fables]))[fables]
    assert item.text == whole
    assert [(each.id, item.text[each.start : each.end]) for each in item.chunks] == [
        (key, words) for key, document, words in ROWS if document == "fables"
    ]
    assert bridge.run(label_files.missing_items(store, view, [fables, "r1", "r7", "x\0"])) == ["r1", "x\0"]
    bridge.run(
        load_labels.load_labels(
            store, view, RowsSource(rows={**LABELLED.rows, "labels": (Label("q1", fables, 1, "test"),)})
        )
    )
    made = bridge.run(export_beir.export_beir(store, view, tmp_path / "out"))
    lines = (tmp_path / "out" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    assert made.documents == 4
    assert sorted(json.loads(line)["_id"] for line in lines) == named(mapping, DOCUMENTS)


def test_only_the_collections_own_rows_are_listed(store, attach):
    view = attach(parent="doc", where={"number": 10})
    listed = bridge.run(list_documents(store, view, "", 1))
    assert ([each.id for each in listed.rows], listed.total) == (["fables"], 1)


def test_of_rows_that_are_documents_only_the_collections_own_are_listed_too(store, attach):
    view = attach(where={"number": 10})
    assert [each.id for each in bridge.run(list_documents(store, view, "", 1)).rows] == ["r1", "r2", "r3"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "error", "says"),
    [
        ("dok", UnknownName, "Did you mean 'doc'"),
        (("mta", "doc"), UnknownName, "Did you mean 'meta'"),
        (("doc", "x"), SpecError, "which is text; they lead into json or jsonb. Such columns are: meta, plain."),
    ],
)
def test_a_parent_that_is_not_there_is_refused_by_name(attach, parent, error, says):
    with pytest.raises(error) as refused:
        attach(parent=parent)
    assert says in str(refused.value)
