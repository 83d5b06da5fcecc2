"""The statement over somebody's own table, and the command that prints it."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from core import bridge
from core.errors import SpecError
from core.store import attached, collections
from tests.store.exporting import EMBEDDER, address, by_pipeline, by_sql, exported, variant, vector_of
from tests.store.making import documents, ingest, make, some_name
from workbench.cli import app

TABLE = 'th"eir : table\n(x'
LEGS = ({"kind": "vector"}, {"kind": "fulltext"}, {"kind": "trigram"})


@pytest.fixture(scope="module")
def theirs(store):
    """A table with a hostile name, of which only the rows of one kind are attached."""
    name, table = some_name(), psycopg.sql.Identifier("public", TABLE)
    with psycopg.connect(address(store), autocommit=True) as connection:
        make_it = "CREATE TABLE {} (id text, body text, emb vector(16), meta jsonb, kind text)"
        connection.execute(psycopg.sql.SQL(make_it).format(table))
        for item in documents(40):
            row = [item.id, item.text, json.dumps(vector_of(item.text).tolist()), json.dumps(item.metadata), "it's"]
            connection.execute(psycopg.sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, %s)").format(table), row)
        mapped = attached.mapped(
            table=TABLE,
            id="id",
            text="body",
            embedding="emb",
            model=EMBEDDER.model,
            metadata="meta",
            where={"kind": "it's"},
        )
        yield bridge.run(attached.attach_table(store, name, mapped))
        bridge.run(collections.drop(store, name))
        connection.execute(psycopg.sql.SQL("DROP TABLE {}").format(table))


@pytest.mark.parametrize("options", [{}, {"rollup": {}}, {"parents": "replace"}])
def test_what_chunks_have_and_their_rows_have_not_changes_nothing(store, theirs, options):
    chosen = variant(*LEGS, **options)
    assert by_sql(store, theirs, chosen, "word5 common") == by_pipeline(store, theirs, chosen, "word5 common") != []


@pytest.mark.parametrize("wanted", [None, {"field": "number", "gte": 9}, {"field": "kind", "eq": "odd"}])
def test_an_attached_table_gives_the_pipelines_ranking(store, theirs, wanted):
    chosen = variant(*LEGS, chunks="items", filter=wanted, top_k=7)
    query = "word5 unique12 common"
    assert by_sql(store, theirs, chosen, query) == by_pipeline(store, theirs, chosen, query) != []
    assert "it's" not in exported(store, theirs, chosen).statement


def test_an_attached_table_stays_its_owners(store, theirs):
    made = exported(store, theirs, variant(*LEGS, chunks="items"))
    assert made.indexes == ()
    assert "those of the attached table" in made.header


@pytest.fixture(scope="module")
def named(store):
    name = some_name()
    make(store, name, chunks={})
    ingest(store, name, documents(12))
    return name


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('chunks = "items"\nrerank = { method = "overlap" }\n[[leg]]\nkind = "bm25"\n', encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_the_command_prints_the_statement_with_parameters_or_filled_in(named, mine):
    plain = CliRunner().invoke(app, ["sql", mine, "--collection", named])
    filled = CliRunner().invoke(app, ["sql", mine, "-c", named, "--query", "it's common"])
    assert plain.exit_code == filled.exit_code == 0
    assert "$1::text" in plain.stdout
    assert "EXECUTE" not in plain.stdout
    assert "EXECUTE rankbook_search('it''s common'" in filled.stdout


def test_strict_refuses_what_sql_cannot_say(named, mine):
    refused = CliRunner().invoke(app, ["sql", mine, "-c", named, "--strict"])
    assert isinstance(refused.exception, SpecError)
    assert "Reranking" in str(refused.exception)
