"""Verification says nothing of a whole collection, and names each kind of damage that is done to one on purpose."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import pytest

from core import bridge
from core.store import verify as checks
from core.store.verify import verify
from core.types import Item
from tests.store.making import documents, fresh, ingest, make, query, wrong

DAMAGE = {
    "small: chunks without their item": "DELETE FROM {items} WHERE key = 2",
    "small: chunks that stand twice": "INSERT INTO {chunks} SELECT * FROM {chunks} WHERE key = 2",
    "small: chunks whose text is not the item's": "UPDATE {chunks} SET text = 'other' WHERE key = 2",
    "small: items without chunks": "DELETE FROM {chunks} WHERE item_key = 2",
    "small: texts without lexemes, or the other way round": "DELETE FROM {lexemes} WHERE key = 2",
    "small: lexemes that stand twice": "INSERT INTO {lexemes} SELECT * FROM {lexemes} WHERE key = 2",
    "small: postings that differ from the lexemes": "DELETE FROM {postings} WHERE key = 2",
    "small: terms with a wrong number of documents": "UPDATE {terms} SET documents = documents + 1 WHERE key = 1",
    "small: terms that no text holds": "INSERT INTO {terms} VALUES (999999, 'gone', 0)",
    "small: statistics of BM25 that are off": "UPDATE {chunk_sets} SET units = units + 1 WHERE name = 'small'",
    "small (hashing-16): texts without a vector, or the other way round": "DELETE FROM {vectors} WHERE key = 2",
    "small (hashing-16): vectors that stand twice": "INSERT INTO {vectors} SELECT * FROM {vectors} WHERE key = 2",
    "indexes that are missing": 'DROP INDEX "{namespace}".lexemes_1_tsv_gin',
}
OF_ITEMS = {
    "items: ids that two items have": """
        DO $$ BEGIN
            ALTER TABLE {items} DROP CONSTRAINT IF EXISTS items_id_key;
            UPDATE {items} SET id = 'd00000' WHERE key = 2;
        END $$""",
    "items: texts without lexemes, or the other way round": "DELETE FROM {lexemes} WHERE key = 2",
    "items: lexemes that stand twice": "INSERT INTO {lexemes} SELECT * FROM {lexemes} WHERE key = 2",
    "items: postings that differ from the lexemes": "UPDATE {postings} SET frequency = 9 WHERE key = 2",
    "items: terms with a wrong number of documents": "DELETE FROM {terms} WHERE documents = 1",
    "items: terms that no text holds": "INSERT INTO {terms} VALUES (999999, 'gone', 0)",
    "items: statistics of BM25 that are off": "UPDATE {chunk_sets} SET length = 0 WHERE key = 0",
    "items (hashing-16): texts without a vector, or the other way round": "UPDATE {vectors} SET id = 'x' WHERE key = 2",
    "items (hashing-16): vectors that stand twice": "INSERT INTO {vectors} SELECT * FROM {vectors} WHERE key = 2",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "chunk_set"), [*((check, 1) for check in DAMAGE), *((check, 0) for check in OF_ITEMS)]
)
def test_each_check_finds_the_damage_that_is_meant_for_it(store, name, embedder, check, chunk_set):
    view = make(store, name, [embedder])
    ingest(store, name, documents(6), [embedder])
    assert wrong(store, name) == {}
    damage = (DAMAGE | OF_ITEMS)[check].replace("{namespace}", view.namespace)
    query(store, fresh(store, name), damage, chunk_set)
    assert wrong(store, name)[check] > 0


def test_every_check_there_is_is_among_those_tested(store, name, embedder):
    make(store, name, [embedder])
    assert {found.check for found in bridge.run(verify(store, fresh(store, name)))} == set(DAMAGE) | set(OF_ITEMS)
    once = len(checks.ITEM_CHECKS | checks.CHUNK_CHECKS) + 1
    assert once + 2 * len(checks.TEXT_CHECKS | checks.VECTOR_CHECKS) == len(DAMAGE | OF_ITEMS)


@pytest.mark.slow
def test_blank_texts_of_every_kind_are_not_taken_for_damage(store, name, embedder):
    make(store, name, [embedder])
    blanks = ["", " ", "\t\n", "\u00a0", "\u3000", "\x1c", "\u2003 \u2028", "\x0c"]
    items = [Item(f"t{number}", blank) for number, blank in enumerate(blanks)]
    items += [Item(f"h{number}", "", title=blank) for number, blank in enumerate(blanks)]
    report = ingest(store, name, [*items, Item("seen", "text"), Item("titled", "", title="Title")], [embedder])
    assert report.added == len(items) + 2
    assert wrong(store, name) == {}
    vectors = query(store, fresh(store, name), "SELECT id FROM {vectors} ORDER BY id")
    assert vectors == [("seen",), ("titled",)]
