"""Every statement of a walk through the store is one that Citus can run: recorded, and held to written rules.

No Citus is asked here; `test_citus.py` asks one where there is one. The database looks like a coordinator to Rankbook,
so what is recorded is what a cluster would be sent. COPY goes past the recorder, and is plain in any case.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg
import pytest
from sqlalchemy import event

from tests.conftest import lacks
from tests.store import journey

citus_rules = pytest.importorskip("tests.store.citus_rules", reason="needs PostgreSQL's parser: pip install pglast")

PLACES = {"c.items": "key", "c.chunks": "item_key", "c.lexemes": "item_key", "c.terms": None}
WRONG = {
    "a window and a LIMIT": "SELECT id, row_number() OVER (PARTITION BY key ORDER BY id) FROM c.items LIMIT 3",
    "a window that is not partitioned": "SELECT id, row_number() OVER (ORDER BY id) FROM c.items",
    "the lateral subquery": """
        SELECT a.word, b.id FROM unnest(ARRAY['x']) AS a (word)
        CROSS JOIN LATERAL (SELECT id FROM c.items WHERE text = a.word LIMIT 3) AS b""",
    "not joined by the document": "SELECT chunk.id FROM c.chunks AS chunk JOIN c.items AS item ON item.id = chunk.id",
    "a correlated subquery": """
        SELECT id FROM c.items AS item WHERE NOT EXISTS (SELECT FROM c.chunks AS chunk WHERE chunk.id = item.id)""",
    "among the columns": "SELECT id, (SELECT count(*) FROM rankbook.collections) FROM c.items",
    "local tables": "SELECT item.id FROM c.items AS item JOIN rankbook.labels AS label ON label.item = item.id",
    "an outer join": "SELECT item.id FROM c.terms AS term LEFT JOIN c.items AS item ON item.id = term.lexeme",
    "changes rows": "WITH gone AS (DELETE FROM c.chunks RETURNING id) SELECT count(*) FROM gone",
    "a change that joins": "UPDATE c.terms SET documents = 0 FROM c.chunks AS chunk WHERE chunk.id = terms.lexeme",
    "an UPDATE looks up": "UPDATE c.terms SET documents = (SELECT count(*) FROM c.chunks)",
    "is changed": "UPDATE c.chunks SET item_key = 3",
    "must be immutable": """
        INSERT INTO c.chunks (item_key) VALUES (1) ON CONFLICT (item_key) DO UPDATE SET made_at = now()""",
    "are locked": "SELECT id FROM c.items FOR UPDATE",
    "are not numbered": """
        SELECT sum(a.weight) FROM c.lexemes
        JOIN unnest(ARRAY[1], ARRAY[0.5]) AS a (key, weight) ON a.key = lexemes.key""",
    "the function": "SELECT word FROM c.items AS item, ts_parse('default', item.text) AS word",
    "has no columns": "SELECT count(*) FROM (SELECT FROM c.items GROUP BY id) AS twice",
    "a LIMIT that is asked for": "SELECT id FROM c.items LIMIT (SELECT count(*) FROM c.terms)",
    "WITH TIES": "SELECT item_key, count(*) AS n FROM c.chunks GROUP BY 1 ORDER BY n FETCH FIRST 3 ROWS WITH TIES",
    "a change of a reference table": """
        WITH counted AS MATERIALIZED (SELECT lexeme, count(*) AS n FROM c.lexemes WHERE item_key = 3 GROUP BY lexeme)
        UPDATE c.terms SET documents = documents - counted.n FROM counted WHERE counted.lexeme = terms.lexeme""",
    "a tsquery that may be empty": """
        WITH query AS MATERIALIZED (SELECT websearch_to_tsquery('english', %(q)s) AS wanted)
        SELECT id FROM c.lexemes JOIN query ON true WHERE tsv @@ query.wanted""",
    "an EXPLAIN with parameters": "EXPLAIN (FORMAT JSON) SELECT id FROM c.chunks ORDER BY e <-> %(v)s LIMIT 3",
    "a recursive CTE": "WITH RECURSIVE up AS (SELECT 1 UNION SELECT 2) SELECT id FROM c.items",
    "a unique index": "CREATE UNIQUE INDEX u ON c.items (id)",
    "CONSTR_EXCLUSION": "CREATE TABLE c.chunks (item_key int, EXCLUDE USING gist (item_key WITH =))",
    "CONSTR_IDENTITY": "CREATE TABLE c.chunks (item_key int GENERATED ALWAYS AS IDENTITY)",
    "CREATE TABLE AS": "CREATE TABLE c.copy AS SELECT * FROM c.items",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON c.items EXECUTE FUNCTION f()",
}
RIGHT = (
    """
    SELECT id, 1 - (e <=> %(v)s) FROM c.chunks WHERE item_key IN (SELECT key FROM c.items)
    ORDER BY e <=> %(v)s, id LIMIT 9""",
    "SELECT id FROM c.items WHERE %(q)s <%% text ORDER BY word_similarity(%(q)s, text) DESC, id LIMIT 9",
    """
    WITH lowest AS MATERIALIZED (
        SELECT total FROM (SELECT item_key, count(*) AS total FROM c.lexemes GROUP BY 1 ORDER BY 2 LIMIT 5) AS first),
    best AS MATERIALIZED (
        SELECT found.item_key, found.key, sum(wanted.weight) AS total FROM c.lexemes AS found
        JOIN unnest(%(t)s, %(w)s) WITH ORDINALITY AS wanted (term, weight, place) ON found.term = wanted.term
        GROUP BY found.item_key, found.key HAVING sum(wanted.weight) >= (SELECT min(total) FROM lowest))
    SELECT chunk.id FROM best JOIN c.chunks AS chunk ON chunk.key = best.key ORDER BY best.total DESC LIMIT 5""",
    """
    INSERT INTO c.lexemes SELECT chunk.item_key, measured.length FROM c.chunks AS chunk
    JOIN c.items AS item ON item.key = chunk.item_key,
    LATERAL (SELECT sum(cardinality(positions)) AS length FROM unnest(to_tsvector('simple', item.text))) AS measured""",
    "SELECT count(*) FROM c.chunks AS chunk WHERE NOT EXISTS (SELECT FROM c.items AS i WHERE i.key = chunk.item_key)",
    "SELECT item.key FROM c.items AS item LEFT JOIN seen ON seen.id = item.id WHERE seen.id IS NULL LIMIT 9",
    """
    SELECT units.n - lexed.n
    FROM (SELECT count(*) AS n FROM c.chunks) AS units, (SELECT count(*) AS n FROM c.lexemes) AS lexed""",
    "SELECT last_key FROM c.terms ORDER BY key FOR UPDATE",
)


@dataclass(frozen=True)
class Walked:
    """What came of the walk on the plain server and on the other; the other's statements, and where its tables were."""

    plain: dict
    found: dict
    statements: list
    places: dict


@pytest.fixture(scope="module")
def walked(store, cluster, coordinator, tmp_path_factory):
    lacks(store, "pg_trgm")
    statements: dict[str, None] = {}

    def record(connection, cursor, statement, values, *_):
        by_client = isinstance(cursor._cursor, psycopg.AsyncClientCursor)
        statements.setdefault(cursor._cursor.mogrify(statement, values) if by_client else statement)

    engines = (cluster.engine.sync_engine, cluster.cluster.unpooled.sync_engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", record)
    try:
        found = journey.walk(cluster, tmp_path_factory.mktemp("walk"))
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", record)
    plain = journey.walk(store, tmp_path_factory.mktemp("plain"))
    return Walked(plain, found, list(statements), coordinator.places())


def test_what_comes_of_it_is_the_same(walked):
    assert walked.found == walked.plain
    assert walked.plain["wrong"] == walked.plain["restored wrong"] == {}
    assert walked.plain["restored"]
    assert walked.plain["brought back"]
    assert walked.plain["brought back wrong"] == {}


@pytest.mark.slow
def test_every_statement_follows_the_rules(walked):
    found = {each: wrong for each in walked.statements if (wrong := citus_rules.broken(each, walked.places))}
    assert found == {}


def test_settings_reach_the_workers(walked):
    """Citus passes on what SET LOCAL says, and not what set_config does."""
    said = "\n".join(walked.statements)
    legs = ("hnsw.ef_search", "hnsw.iterative_scan", "pg_trgm.similarity_threshold", "work_mem")
    for name in (*legs, "statement_timeout", "datestyle"):
        assert f"SET LOCAL {name} " in said
    assert not re.search(r"set_config\(%.*(hnsw|trgm)", said)


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_finds_what_breaks_it(rule):
    assert rule in " ".join(citus_rules.broken(WRONG[rule], PLACES))


@pytest.mark.parametrize("statement", RIGHT)
def test_what_runs_on_both_is_let_through(statement):
    assert citus_rules.broken(statement, PLACES) == []
