"""What a merge leaves with a query set: it comes back from a backup, and a backup that makes it up gets nowhere."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import json

import pytest
from sqlalchemy import select, update

from core import bridge
from core.errors import InputError
from core.store.passages import read_items
from evals import backup
from evals.judging.judgements import Judgement, save_judgements
from evals.judging.merging import WouldOverwrite, merge_judgements
from evals.labels import query_sets
from evals.schema import QuerySet
from evals.types import Label, MergedFrom, MergeRule
from tests.evals.archives import back_up, fill_collection, member_of, modify
from tests.store.making import fresh, some_name

MADE_UP = [
    [1],
    "default",
    {"a": 1},
    {"query_set": "default"},
    {"splits": [1]},
    {"query_set": "default", "splits": [1]},
    {"query_set": 1, "splits": {}},
    {"query_set": "default", "splits": {"train": {"model": True}}},
    {"query_set": "default", "splits": {"train": {"models": 1, "overrule": False}}},
    {"query_set": "default", "splits": {"train": {"models": True, "overrule": False, "more": 1}}},
    {"train": {"model": True}},
]
OF_A_MERGE = MergedFrom(query_set="default", splits={"test": MergeRule(models=True, overrule=False)})


def judge(store, name):
    """Fill a collection, whose set "judged" gets a label that only a merge knows of."""
    fill_collection(store, name)
    view = fresh(store, name)
    (item,) = bridge.run(read_items(store, view, ["d00005"])).values()
    bridge.run(save_judgements(store, name, [Judgement("q1", item.id, "llm:m", 3, item.version, is_model=True)]))
    bridge.run(merge_judgements(store, view, "judged", models=True))
    return Label("q1", item.id, 3)


@pytest.fixture
def judged(store, name):
    return judge(store, name)


@pytest.fixture(scope="module")
def sound(store, tmp_path_factory):
    """The name of such a collection that nobody changes, and a backup of it."""
    name = some_name()
    judge(store, name)
    return name, back_up(store, tmp_path_factory.mktemp("sound") / "a.tar", name).path


def labels(store, name):
    return bridge.run(query_sets.load(store, name, name="judged")).labels


def query_set_of(store, name, query_set):
    """What the column holds, and whether that is SQL's NULL."""

    async def read():
        table = QuerySet
        asked = select(table.merged_from, table.merged_from.is_(None)).where(
            table.collection == name, table.name == query_set
        )
        async with store.begin(read_only=True) as connection:
            return tuple((await connection.execute(asked)).one())

    return bridge.run(read())


@pytest.mark.slow
def test_a_merged_set_that_was_restored_is_merged_into_without_a_question(store, name, judged, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    other = f"{name} b"
    bridge.run(backup.restore_backup(store, path, name=other))
    assert query_set_of(store, other, "judged") == (OF_A_MERGE.model_dump(), False)
    bridge.run(merge_judgements(store, fresh(store, other), "judged", split="train"))
    assert {judged} <= set(labels(store, other))


@pytest.mark.slow
def test_where_no_merge_was_nothing_comes_back(store, name, judged, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    bridge.run(backup.restore_backup(store, path, name=f"{name} b"))
    assert query_set_of(store, f"{name} b", "default") == (None, True)


FLAW = {"of": "labels", "place": "", "message": "m", "outcome": "noted", "subject": "q1"}
NO_FLAWS: tuple[object, ...] = ({}, ["a"], [{}], [FLAW | {"subject": 1}])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "made_up", "told"),
    [
        *((b"merged_from", each, "what no merge of judgements leaves") for each in MADE_UP),
        *((b"flaws", each, "flaws that no check finds") for each in NO_FLAWS),
    ],
)
def test_a_backup_that_makes_it_up_is_refused(store, sound, column, made_up, told):
    name, whole = sound

    def change(members):
        piece = member_of("query_sets", members)
        lines = [line.split(b"\t") for line in members[piece].rstrip(b"\n").split(b"\n")]
        at = lines[0].index(column)
        for line in lines[1:]:
            line[at] = json.dumps(made_up).encode()
        members[piece] = b"".join(b"\t".join(line) + b"\n" for line in lines)

    path = modify(whole, change)
    with pytest.raises(InputError, match=rf"{told}\. Nothing"):
        bridge.run(backup.restore_backup(store, path, name=f"{name} b"))
    with pytest.raises(InputError, match=rf"{told}\. Nothing"):
        bridge.run(backup.restore_labels(store, path, name=name))


@pytest.mark.slow
@pytest.mark.parametrize("made_up", MADE_UP)
def test_what_is_kept_and_no_merge_left_is_asked_about_like_a_set_of_ones_own(store, name, judged, made_up):
    async def make_up():
        async with store.begin() as connection:
            mine = (QuerySet.collection == name, QuerySet.name == "judged")
            await connection.execute(update(QuerySet).where(*mine).values(merged_from=made_up))

    bridge.run(make_up())
    with pytest.raises(WouldOverwrite, match="1 of its 4 labels"):
        bridge.run(merge_judgements(store, fresh(store, name), "judged", split="train"))
    assert judged in labels(store, name)
