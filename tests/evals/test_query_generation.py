"""Queries where there are none: out of a file, and made of the collection's own documents."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
import json

import pytest

from core import bridge
from core.errors import InputError, SpecError
from core.store.text_index import update_texts
from core.types import Item, Query
from evals.labels import corrections, query_generation, query_sets
from evals.labels.query_generation import KnownItems, parse_known_items, read_queries
from evals.types import Label, LabelledQueries
from tests.store.making import complete, fresh, ingest, make

ITEMS = [
    Item("kettle", "Descale the kettle with vinegar once a month. Rinse it twice. It is so.", "Kettle care"),
    Item("teapot", "Warm the teapot before you brew the leaves with boiling vinegar.", "Teapot"),
    Item("toaster", "The toaster browns bread. Empty the crumbs from the kettle month.", "Toaster"),
    Item("bread", "Knead the dark-brown bread and brew nothing.", ""),
    Item("empty", "the and of", "Kettle care"),
]


@pytest.fixture
def view(store, name):
    make(store, name, chunks={})
    ingest(store, name, ITEMS)
    complete(store, name)
    bridge.run(update_texts(store, fresh(store, name)))
    return fresh(store, name)


def generate_queries(store, view, **wishes):
    return bridge.run(query_generation.generate(store, view, KnownItems(**wishes)))


def texts(found):
    return {query.metadata["item"]: query.text for query in found.labelled.queries}


def test_titles_make_queries_but_not_those_that_several_documents_bear(store, view):
    found = generate_queries(store, view, style="title")
    assert texts(found) == {"teapot": "Teapot", "toaster": "Toaster"}
    assert (found.unfit, found.repeated) == (1, 2)


def test_each_query_has_its_own_item_as_the_single_relevant_one_and_says_its_style(store, view):
    found = generate_queries(store, view, style="terms").labelled
    assert {(label.query_id, label.item_id, label.grade) for label in found.labels} == {
        (query.id, query.metadata["item"], 1) for query in found.queries
    }
    assert {query.kind for query in found.queries} == {"known-item:terms"}
    assert list(found.queries) == sorted(found.queries, key=lambda query: query.id)


def test_key_terms_are_the_rarest_words_that_more_than_one_document_holds(store, view):
    found = texts(generate_queries(store, view, style="terms", terms=2))
    assert found["kettle"] == "care month", "two documents hold these, titles included; three the kettle, one the rinse"
    assert found["teapot"].split()[0] in {"brew", "vinegar"}
    assert found["empty"] == "care kettle", "of its text nothing is left, of its title two words"


def test_a_sentence_comes_without_the_words_that_the_language_drops(store, view):
    found = texts(generate_queries(store, view, style="sentence"))
    assert found["bread"] == "knead dark-brown bread brew nothing", "a compound once, and not its parts too"
    assert found["kettle"] == "descale kettle vinegar month"


def test_misspelled_terms_differ_from_the_words_by_one_slip_each(store, view):
    right, wrong = (
        texts(generate_queries(store, view, style="terms")),
        texts(generate_queries(store, view, style="misspelled")),
    )
    assert right.keys() == wrong.keys()
    for item, query in wrong.items():
        assert query != right[item]
        for word, slip in zip(right[item].split(), query.split(), strict=True):
            assert abs(len(word) - len(slip)) <= 1
            assert slip[0] == word[0]


@pytest.mark.slow
@pytest.mark.parametrize("style", ["title", "terms", "sentence", "misspelled"])
def test_the_same_seed_makes_the_same_queries_and_a_smaller_count_makes_no_more(store, view, style):
    assert generate_queries(store, view, style=style, seed=4) == generate_queries(store, view, style=style, seed=4)
    assert len(generate_queries(store, view, style=style, seed=4, count=2).labelled.queries) == 2


def test_another_seed_chooses_other_documents(store, view):
    chosen = {tuple(texts(generate_queries(store, view, style="terms", count=1, seed=seed))) for seed in range(8)}
    assert len(chosen) > 1


@pytest.mark.slow
def test_generated_queries_are_kept_apart_and_never_over_what_people_wrote(store, view):
    first, second = generate_queries(store, view, style="terms"), generate_queries(store, view, style="title")
    assert bridge.run(query_generation.save(store, view.name, first))
    assert bridge.run(query_generation.save(store, view.name, second))
    assert bridge.run(query_sets.load(store, view.name, name="known-items")) == second.labelled
    assert bridge.run(query_sets.load(store, view.name)) == LabelledQueries()
    bridge.run(query_sets.keep(store, view.name, LabelledQueries((Query("q", "by hand"),)), name="mine"))
    with pytest.raises(InputError, match="holds queries that were not generated"):
        bridge.run(query_generation.save(store, view.name, first, name="mine"))
    assert "favour legs that compare words" in first.note


@pytest.mark.slow
def test_a_collection_without_fitting_documents_says_so(store, name):
    view = make(store, name, chunks={})
    ingest(store, name, [Item("a", "text without a title")])
    found = generate_queries(store, view, style="title")
    assert (found.labelled, found.unfit) == (LabelledQueries(), 1)
    with pytest.raises(InputError, match="Choose another style"):
        bridge.run(query_generation.save(store, name, found))


def test_a_wish_that_is_none_is_refused_in_words():
    with pytest.raises(SpecError, match="must be one of 'title', 'terms'"):
        parse_known_items({"style": "haiku"})


# -- files ---------------------------------------------------------------------------------------------------------

ROWS = [
    {"text": "how do I descale it", "kind": "question", "tags": "care, vinegar"},
    {"text": "E-42", "kind": "identifier", "tags": ""},
]


@pytest.fixture(params=["tsv", "jsonl"])
def file(request, tmp_path):
    path = tmp_path / f"queries.{request.param}"
    if request.param == "tsv":
        path.write_text("\n".join("\t".join(row.values()) for row in [{k: k for k in ROWS[0]}, *ROWS]))
    else:
        path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def add(store, name, path, **more):
    return bridge.run(query_generation.add(store, name, read_queries(path), **more))


def test_queries_of_a_file_without_ids_are_named_by_their_text(store, name, file):
    written = add(store, name, file)
    assert (written.added, written.queries) == (2, 2)
    kept = {query.text: query for query in bridge.run(query_sets.load(store, name)).queries}
    first = kept["how do I descale it"]
    assert (first.kind, first.tags, first.metadata) == ("question", ("care", "vinegar"), {})
    assert first.id.startswith("q-")


@pytest.mark.parametrize(
    "column", ["query_id", "query-id", "qid", "queryid", "q_id", "topic_id", "_id", "id", "uuid", "key"]
)
def test_an_id_is_read_from_the_columns_that_tables_of_labels_have(store, name, tmp_path, column):
    path = tmp_path / "queries.csv"
    path.write_text(f"{column},text,topic\n7,how do I descale it,care\n0,E-42,\n,no id of its own,\n")
    assert add(store, name, path).added == 3
    kept = {query.text: query for query in bridge.run(query_sets.load(store, name)).queries}
    assert [kept[text].id for text in ("how do I descale it", "E-42")] == ["7", "0"]
    assert kept["no id of its own"].id.startswith("q-")
    assert column not in kept["how do I descale it"].metadata
    assert kept["how do I descale it"].metadata["topic"] == "care"


def test_a_query_id_comes_before_a_tables_own_id(store, name, tmp_path):
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps({"id": 12, "query_id": "q1", "query": "how do I descale it"}))
    add(store, name, path)
    (query,) = bridge.run(query_sets.load(store, name)).queries
    assert (query.id, query.text, query.metadata["id"]) == ("q1", "how do I descale it", 12)


def test_added_and_generated_queries_are_changes_that_can_be_undone(store, view):
    there = LabelledQueries((Query("old", "an old query"),), (Label("old", "d1", 2),))
    bridge.run(query_sets.keep(store, view.name, there, name="mine"))
    rows = query_generation.typed_queries("where is the lid")
    bridge.run(query_generation.add(store, view.name, rows, name="mine", author="ada"))
    done = bridge.run(corrections.undo(store, view.name, name="mine"))
    assert done.change.sentence == "1 label -> 1, 2 queries -> 1"
    assert (done.revision.author, done.revision.reason) == ("ada", "1 queries added")
    assert bridge.run(query_sets.load(store, view.name, name="mine")) == there


def test_adding_a_file_twice_adds_nothing_and_keeps_what_was_there(store, name, file):
    there = LabelledQueries((Query("old", "an old query"),), (Label("old", "d", 2),))
    bridge.run(query_sets.keep(store, name, there))
    assert add(store, name, file).added == 2
    again = add(store, name, file)
    assert (again.added, again.queries) == (0, 3)
    kept = bridge.run(query_sets.load(store, name))
    assert kept.labels == there.labels
    assert Query("old", "an old query") in kept.queries


def test_an_id_that_another_text_has_and_an_empty_query_are_left_out_and_told(store, name, tmp_path):
    bridge.run(query_sets.keep(store, name, LabelledQueries((Query("a", "first"),))))
    path = tmp_path / "queries.tsv"
    path.write_text("id\ttext\na\tsecond\nb\t \nc\tthird\n")
    written = add(store, name, path)
    assert written.added == 1
    told = {flaw.subject: flaw.message for flaw in written.flaws if flaw.outcome == "quarantined"}
    assert "taken by another text" in told["a"]
    assert "empty" in told["b"]


def test_a_file_without_texts_is_refused_with_its_columns(store, name, tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text("wording\tkind\nx\ty\n")
    with pytest.raises(InputError, match=r"no column 'text'.*'wording', 'kind'"):
        add(store, name, path)


def test_queries_that_several_write_at_once_are_all_kept(store, name):
    make(store, name, chunks={})

    async def write(number):
        return await query_generation.add(store, name, query_generation.typed_queries(f"question {number}"))

    async def all_at_once():
        return await asyncio.gather(*map(write, range(6)))

    assert [written.added for written in bridge.run(all_at_once())] == [1] * 6
    kept = bridge.run(query_sets.load(store, name))
    assert sorted(query.text for query in kept.queries) == [f"question {number}" for number in range(6)]
