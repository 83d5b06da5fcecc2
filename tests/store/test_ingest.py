"""What an ingest does to what is stored: counts, replacement, pruning, and who may do it when."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import func, select

from core import bridge, doctor
from core.errors import StoreError
from core.legs import legs
from core.legs.base import PreparedQuery
from core.progress import Step
from core.store import collections, locks
from core.store.ingest import Ingest
from core.store.resolve_target import search_target
from core.store.schema import ItemRow as StoredItem
from core.types import Item
from tests.fakes import HashingEmbedder, rows
from tests.store.making import (
    FAMILY,
    complete,
    contents,
    documents,
    fresh,
    ids,
    ingest,
    loader,
    make,
    query,
    some_name,
    wrong,
)


def stored_ids(store, name) -> set[str]:
    return {row[0] for row in query(store, fresh(store, name), "SELECT id FROM {items}")}


@pytest.mark.slow
def test_added_changed_unchanged_and_pruned_are_counted_and_leave_the_collection_whole(store, name, embedder):
    make(store, name, [embedder])
    first = documents(10)
    report = ingest(store, name, first, [embedder])
    assert (report.added, report.changed, report.unchanged, report.removed) == (10, 0, 0, 0)
    assert wrong(store, name) == {}
    report = ingest(store, name, first, [embedder])
    assert (report.added, report.changed, report.unchanged, report.removed) == (0, 0, 10, 0)
    assert not report.touched
    second = [*first[:3], Item("d00003", "quite other words"), Item("new", "a new one")]
    report = ingest(store, name, second, [embedder])
    assert (report.added, report.changed, report.unchanged, report.removed) == (1, 1, 3, 0)
    assert report.vanished == 6, "they stay, and are counted"
    assert stored_ids(store, name) == ids(first) | {"new"}
    assert wrong(store, name) == {}
    report = ingest(store, name, second, [embedder], prune=True)
    assert (report.added, report.changed, report.unchanged, report.removed) == (0, 0, 5, 6)
    assert report.vanished == 0
    assert stored_ids(store, name) == ids(second)
    assert wrong(store, name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"text": "b"}, {"title": "t"}, {"metadata": {"a": 2}}, {"metadata": {}}])
def test_whatever_changes_in_a_document_counts_as_a_change(store, name, changed):
    make(store, name)
    whole = {"id": "x", "text": "a", "title": "", "metadata": {"a": 1}}
    ingest(store, name, [Item(**whole)])
    assert ingest(store, name, [Item(**{**whole, **changed})]).changed == 1
    assert ingest(store, name, [Item(**{**whole, **changed})]).unchanged == 1


@pytest.mark.slow
def test_a_changed_document_replaces_everything_derived_from_it(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(8), [embedder])
    changed = [*documents(8)[:4], *(Item(item.id, f"zebra {item.id} crossing", "Zoo") for item in documents(8)[4:])]
    ingest(store, name, changed, [embedder])
    other = some_name()
    make(store, other, [embedder])
    ingest(store, other, changed, [embedder])
    assert contents(store, name) == contents(store, other)
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_words_that_no_document_holds_any_more_are_forgotten(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(5), [embedder])
    ingest(store, name, documents(2), [embedder], prune=True)
    for chunk_set in (0, 1):
        lexemes = {row[0] for row in query(store, fresh(store, name), "SELECT lexeme FROM {terms}", chunk_set)}
        assert "unique1" in lexemes
        assert "unique4" not in lexemes


@pytest.mark.slow
def test_pruning_leaves_what_a_smaller_source_would_have_made(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(20), [embedder])
    ingest(store, name, documents(20)[5:9], [embedder], prune=True)
    other = some_name()
    make(store, other, [embedder])
    ingest(store, other, documents(20)[5:9], [embedder])
    assert contents(store, name) == contents(store, other)


@pytest.mark.slow
def test_a_source_that_fails_half_way_prunes_nothing_and_the_next_run_works(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(10), [embedder])

    def broken():
        yield from rows(documents(1, first=50))
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="the disk went away"):
        bridge.run(loader(store, name, [embedder]).run(broken(), prune=True))
    assert ids(documents(10)) <= stored_ids(store, name)
    for _ in range(10):  # whichever connection of the pool comes next
        report = ingest(store, name, documents(10), [embedder])
        assert report.unchanged == 10
    assert wrong(store, name) == {}


class Failing(HashingEmbedder):
    """Gives vectors until it has been asked often enough."""

    async def embed(self, texts, purpose="document"):
        if len(self.texts) > 300:
            raise RuntimeError("the model broke")
        return await super().embed(texts, purpose)


@pytest.mark.slow
def test_a_model_that_fails_half_way_is_reported_as_itself_and_the_next_run_finishes(store, name):
    failing, embedder = Failing(name=name), HashingEmbedder(name=name)
    make(store, name, [embedder])
    with pytest.raises(RuntimeError, match="the model broke"):
        ingest(store, name, documents(300), [failing])
    kept = len(stored_ids(store, name))
    assert kept < 300
    report = ingest(store, name, documents(300), [embedder])
    assert (report.unchanged, report.added) == (kept, 300 - kept)
    assert stored_ids(store, name) == ids(documents(300))
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_an_ingest_that_is_cancelled_can_be_run_again_at_once(store, name, embedder):
    make(store, name, [embedder])
    reached = threading.Event()

    items = [Item(f"{name} {number}", f"{name} {number}") for number in range(5)]  # that no cache knows

    class Hanging(HashingEmbedder):
        async def embed(self, texts, purpose="document"):
            reached.set()
            await asyncio.Event().wait()

    hanging = Hanging()
    work = loader(store, name, [hanging]).run(rows(items))
    future = asyncio.run_coroutine_threadsafe(work, bridge.loop())
    assert reached.wait(10)
    future.cancel()
    assert ingest(store, name, items, [embedder]).added == 5
    assert wrong(store, name) == {}


class Gate:
    """A source that stops in the middle until it is let go."""

    def __init__(self, items) -> None:
        self.items, self.reached, self.go = items, threading.Event(), threading.Event()

    def __iter__(self):
        for number, row in enumerate(rows(self.items)):
            if number == len(self.items) // 2:
                self.reached.set()
                assert self.go.wait(30)
            yield row


@pytest.fixture
def running(store, name, embedder):
    """An ingest that stands still in its middle; at the end it is let go and must have succeeded."""
    make(store, name, [embedder])
    gate = Gate(documents(600))
    future = asyncio.run_coroutine_threadsafe(loader(store, name, [embedder]).run(iter(gate)), bridge.loop())
    assert gate.reached.wait(20)
    yield gate
    gate.go.set()
    report = future.result(30)
    assert report.added == 600
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_a_second_ingest_of_the_same_collection_is_refused_in_one_sentence(store, name, embedder, running):
    with pytest.raises(StoreError, match=r"^Another process is loading the collection .* Wait until it is done.$"):
        ingest(store, name, documents(3), [embedder])
    other = some_name()
    make(store, other, [embedder])
    assert ingest(store, other, documents(3), [embedder]).added == 3


@pytest.mark.slow
def test_nothing_is_added_or_dropped_beside_an_ingest_which_would_not_know_of_it(store, name, embedder, running):
    view = fresh(store, name)
    attempts = (
        lambda: collections.add_chunk_set(store, view, "late", {"kind": "sentences"}),
        lambda: collections.add_embedding_set(store, view, view.chunk_set("small"), "late", 3),
        lambda: collections.drop(store, name),
    )
    for attempt in attempts:
        with pytest.raises(StoreError, match="Another process is loading"):
            bridge.run(attempt())


@pytest.mark.slow
def test_readers_meet_whole_documents_only_while_an_ingest_goes_on(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(200), [embedder])
    everything_changes = [
        Item(item.id, item.text.replace("common", "common shared"), item.title) for item in documents(200)
    ]

    async def read_on(done: asyncio.Event) -> int:
        rounds = 0
        while not done.is_set():
            view = await collections.get(store, name)
            async with store.begin(view.namespace, read_only=True) as connection:
                count = await connection.scalar(select(func.count()).select_from(StoredItem))
                assert count == 200
                for chunks in ("items", "small"):
                    where = search_target(store, view, chunks)
                    asked = PreparedQuery("common word3 word11", lambda model, text: one(text))
                    for leg in (legs["vector"](), legs["fulltext"]()):
                        found = await leg.recall(connection, where, asked, 50)
                        described = {
                            row.id for row in await connection.execute(where.described([each.id for each in found]))
                        }
                        assert described == {each.id for each in found}
            rounds += 1
        return rounds

    async def one(text):
        return (await HashingEmbedder().embed([text]))[0]

    async def both():
        done = asyncio.Event()
        reader = asyncio.create_task(read_on(done))
        ingesting = Ingest(store, await collections.get(store, name), {embedder.model: embedder}, embedder)
        report = await ingesting.run(rows(everything_changes))
        done.set()
        assert await reader > 0
        return report

    assert bridge.run(both()).changed == 200
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_an_ingest_that_was_prepared_before_another_one_ran_gives_no_key_twice(store, name, embedder):
    make(store, name, [embedder])
    prepared = loader(store, name, [embedder])
    ingest(store, name, documents(5), [embedder])
    report = bridge.run(prepared.run(rows(documents(5, first=3))))
    assert (report.added, report.unchanged) == (3, 2)
    assert wrong(store, name) == {}


def test_a_set_added_after_an_ingest_was_prepared_is_not_passed_over_in_silence(store, name, embedder):
    make(store, name, [embedder])
    prepared = loader(store, name, [embedder])
    view = fresh(store, name)
    bridge.run(collections.add_embedding_set(store, view, view.chunk_set("items"), "another", 4))
    with pytest.raises(StoreError, match="embedded with another too"):
        bridge.run(prepared.run(rows(documents(5))))


@pytest.mark.slow
def test_keys_are_never_given_again_after_deletes(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(5), [embedder])
    statement = "SELECT max(key) FROM {items} UNION ALL SELECT max(key) FROM {chunks}"
    before = query(store, fresh(store, name), statement, 1)
    ingest(store, name, [], [embedder], prune=True)
    assert stored_ids(store, name) == set()
    ingest(store, name, documents(5), [embedder])
    after = query(store, fresh(store, name), "SELECT min(key) FROM {items} UNION ALL SELECT min(key) FROM {chunks}", 1)
    assert all(new > old for (new,), (old,) in zip(after, before, strict=True))
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_parents_are_stored_and_neither_embedded_nor_in_the_lexemes(store, name, embedder):
    make(store, name, [embedder], {"family": FAMILY})
    ingest(store, name, documents(6), [embedder])
    view = fresh(store, name)
    levels = dict(query(store, view, "SELECT level, count(*) FROM {chunks} GROUP BY level", 1))
    assert levels["parent"] >= 6
    assert levels["child"] > levels["parent"]
    for table in ("lexemes", "vectors"):
        joined = f"SELECT level, count(*) FROM {{{table}}} AS found JOIN {{chunks}} AS chunk USING (item_key, key) GROUP BY level"  # noqa: E501
        assert dict(query(store, view, joined, 1)) == {"child": levels["child"]}
    orphans = """SELECT count(*) FROM {chunks} AS child LEFT JOIN {chunks} AS parent
        ON parent.key = child.parent_key AND parent.item_key = child.item_key AND parent.level = 'parent'
        WHERE child.level = 'child'
        AND (parent.key IS NULL OR child.start_at < parent.start_at OR child.end_at > parent.end_at)"""
    assert query(store, view, orphans, 1) == [(0,)]
    for leg in (legs["fulltext"](), legs["trigram"]()):
        found = bridge.run(recalled(store, view, leg, "word3 word7 common"))
        assert found
        assert {row[0] for row in query(store, view, "SELECT id FROM {chunks} WHERE level = 'parent'", 1)}.isdisjoint(
            found
        )


async def recalled(store, view, leg, text):
    where = search_target(store, view, "family")
    async with store.begin(view.namespace, read_only=True) as connection:
        return [each.id for each in await leg.recall(connection, where, PreparedQuery(text), 1000)]


@pytest.mark.slow
def test_the_version_moves_with_every_change_and_with_nothing_else(store, name, embedder):
    make(store, name, [embedder])
    versions = []
    for items in (documents(3), documents(3), documents(4), documents(4)):
        ingest(store, name, items, [embedder])
        versions.append(fresh(store, name).row.version)
    assert versions[0] == versions[1] < versions[2] == versions[3]


def test_a_load_is_marked_as_begun_and_left_to_its_caller_to_end(store, name, embedder):
    make(store, name, [embedder])
    mark(store, name)
    assert not fresh(store, name).interrupted
    ingest(store, name, documents(3), [embedder])
    assert fresh(store, name).interrupted
    assert fresh(store, name).incomplete_sets == []


def mark(store, name):
    async def work():
        async with store.begin() as connection:
            await collections.mark_loaded(connection, name)

    bridge.run(work())


@pytest.mark.slow
def test_a_writer_at_work_is_seen_and_one_that_is_done_is_not(store, name, embedder, running):
    assert bridge.run(locks.is_being_loaded(store, name))
    assert not bridge.run(locks.is_being_loaded(store, some_name()))
    running.go.set()


@pytest.mark.slow
def test_doctor_tells_a_collection_whose_loading_was_interrupted(store, name, embedder):
    make(store, name, [embedder])
    ingest(store, name, documents(3), [embedder])

    def finding():
        return bridge.run(doctor.examine_collection(store, name))

    assert not finding().ok
    assert "loading was interrupted" in finding().found
    assert f"rankbook data add '{name}'" in finding().way_out
    mark(store, name)
    assert finding().ok
    bridge.run(collections.add_chunk_set(store, fresh(store, name), "late", {"kind": "sentences"}))
    assert "(late)" in finding().way_out


@pytest.mark.slow
def test_doctor_says_that_a_collection_is_being_loaded_now(store, name, embedder, running):
    found = bridge.run(doctor.examine_collection(store, name))
    assert found.ok
    assert "at this moment" in found.found


@pytest.mark.slow
@pytest.mark.parametrize("second", ["late", "later"])
def test_sets_that_are_added_from_the_same_look_at_a_collection_get_keys_of_their_own(store, name, embedder, second):
    view = make(store, name, [embedder])
    for chunks in ("late", second):
        bridge.run(collections.add_chunk_set(store, view, chunks, {"kind": "sentences"}))
    for model in ("one", f"{second} two"):
        bridge.run(collections.add_embedding_set(store, view, view.chunk_set("small"), model, 4))
    bridge.run(collections.add_embedding_set(store, view, view.chunk_set("small"), "one", 4))
    found = fresh(store, name)
    assert [each.key for each in found.chunk_sets] == list(range(2 + len({"late", second})))
    assert [each.key for each in found.embedding_sets] == [1, 2, 3, 4]
    with pytest.raises(StoreError, match="another name"):
        bridge.run(collections.add_chunk_set(store, view, "late", {"kind": "none"}))


@pytest.mark.slow
def test_progress_tells_steps_that_end_at_their_total(store, name, embedder):
    make(store, name, [embedder])
    steps: list[Step] = []
    work = Ingest(store, fresh(store, name), {embedder.model: embedder}, embedder, steps.append)
    report = bridge.run(work.run(rows(documents(300)), total=300))
    assert {"Loading", "Embedding", "Full-text lexemes of small", "BM25 postings and vocabulary of items"} <= {
        step.name for step in steps
    }
    loading = [step.done for step in steps if step.name == "Loading"]
    assert loading == sorted(loading)
    assert loading[-1] == 300
    assert all(step.total is None or step.done <= step.total for step in steps)
    assert set(report.seconds) == {"load", "backfill", "texts", "indexes"}


@pytest.mark.slow
def test_what_is_embedded_afterwards_is_told_with_what_is_left(store, name, embedder):
    make(store, name)
    ingest(store, name, documents(700))
    view = fresh(store, name)
    for each in view.chunk_sets:
        view = bridge.run(collections.add_embedding_set(store, view, each, embedder.model, embedder.dimension))
    steps: list[Step] = []
    bridge.run(Ingest(store, view, {embedder.model: embedder}, embedder, steps.append).complete())
    told = [(step.done, step.total) for step in steps if step.name == "Embedding"]
    assert all(total is not None and 0 <= done <= total for done, total in told)
    assert told[0][1] == sum(each.last_key for each in view.chunk_sets)
    assert told[-1][0] == told[-1][1]


def test_a_total_that_was_too_low_is_corrected_on_the_way(store, name, embedder):
    make(store, name, chunks={})
    steps: list[Step] = []
    bridge.run(Ingest(store, fresh(store, name), {}, embedder, steps.append).run(rows(documents(300)), total=7))
    told = [(step.done, step.total) for step in steps if step.name == "Loading"]
    assert told[-1] == (300, 300)
    assert all(total is not None and done <= total for done, total in told)


@pytest.mark.slow
def test_an_empty_source_makes_an_empty_collection_that_can_be_searched(store, name, embedder):
    view = make(store, name, [embedder], {"family": FAMILY})
    assert not ingest(store, name, [], [embedder]).touched
    complete(store, name, [embedder])
    assert wrong(store, name) == {}
    for leg in (legs["fulltext"](), legs["trigram"]()):
        assert bridge.run(recalled(store, view, leg, "anything")) == []
