"""`rankbook trash`, and what the commands that delete say of the way back."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals import trash, variants
from evals.collections import load
from evals.labels import query_sets
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from tests.app.corpus import KETTLES
from tests.app.test_command_line import data, mistake, rankbook

MINE = 'name = "mine"\n\n[[leg]]\nkind = "bm25"\n'


@pytest.fixture
def kept(store: Store, name: str) -> Iterator[str]:
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=(), check=False)))
    yield name
    if bridge.run(collections.find(store, name)):
        bridge.run(load.drop(store, name))
    bridge.run(trash.empty(store))


def entries(name: str) -> list[dict[str, object]]:
    return [each for each in data("trash") if name in (each["collection"], each["name"])]


def test_a_dropped_collection_is_listed_told_and_brought_back(store, kept):
    said = rankbook("data", "drop", kept, "--yes").stderr
    (entry,) = entries(kept)
    assert f"{kept} is gone. It is in the trash until" in " ".join(said.split())
    assert f"rankbook trash restore {entry['id']}" in said
    assert (entry["kind"], entry["name"]) == ("collection", kept)
    assert entry["deleted_by"]
    assert data("trash", "list") == data("trash")
    listed = rankbook("trash").output
    assert str(entry["id"]) in listed
    assert "on disk" in listed
    assert "is back" in rankbook("trash", "restore", str(entry["id"])).stderr
    assert bridge.run(query_sets.count(store, kept)) == 3
    assert entries(kept) == []


def test_every_deletion_says_in_json_where_it_went(store, kept, tmp_path, monkeypatch):
    subject = RunSubject(kept, 1, "default", b"x", "test", "content")
    runs = [
        bridge.run(run_store.save(store, Run(name, subject, {"q1": Ranking(("e42",), (1.0,))}, depth=5)))
        for name in ("one", "two")
    ]
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    rankbook("variant", "keep", str(file))
    made = [
        data("runs", "delete", runs[0].id, "--yes"),
        data("runs", "prune", "--keep", "0", "--collection", kept, "--yes"),
        data("queries", "drop", kept, "default", "--yes"),
        data("variant", "drop", "mine", "--yes"),
        data("data", "drop", kept, "--yes"),
    ]
    kinds = ["run", "run", "query set", "variant", "collection"]
    assert [each["trash"][0]["kind"] for each in made] == kinds
    ids = [each["trash"][0]["id"] for each in made]
    assert [each["id"] for each in data("trash") if each["id"] in ids] == ids[::-1], "newest first"
    for each in made[::-1]:
        rankbook("trash", "restore", each["trash"][0]["id"])
    assert not {each["id"] for each in data("trash")} & set(ids)
    assert variants.drop("mine").name == "mine"
    assert {each["name"] for each in data("runs", "list", "--collection", kept)} == {"one", "two"}


def test_a_taken_name_is_refused_with_a_way_out_that_works(store, kept):
    gone = data("queries", "drop", kept, "default", "--yes")["trash"][0]
    rankbook("queries", "add", kept, "-", typed="something new\n")
    said = mistake("trash", "restore", gone["id"])
    assert f"rankbook trash restore {gone['id']} --as NEW" in said
    rankbook("trash", "restore", gone["id"], "--as", "before")
    assert {each["name"]: each["queries"] for each in data("queries", "list", kept)} == {"default": 1, "before": 3}


def test_what_is_not_there_is_refused_with_what_is(kept):
    gone = data("data", "drop", kept, "--yes")["trash"][0]
    said = mistake("trash", "restore", "nothing")
    assert gone["id"] in said
    assert "`rankbook trash` lists what is there" in said


def test_emptying_asks_first_and_says_what_it_freed(kept):
    rankbook("trash", "empty", "--yes")  # of what other tests left
    rankbook("data", "drop", kept, "--yes")
    assert rankbook("trash", "empty", typed="n\n", code=1)
    assert rankbook("trash", "empty", "--older-than", "1", "--yes").stderr.startswith("0 destroyed")
    assert len(entries(kept)) == 1
    assert "1 destroyed" in rankbook("trash", "empty", "--yes").stderr
    assert "The trash is empty." in rankbook("trash").stderr


def test_whose_time_is_over_goes_with_the_next_look_which_says_so(store, kept):
    gone = data("data", "drop", kept, "--yes")["trash"][0]

    async def age() -> None:
        async with store.begin() as connection:
            late = text("UPDATE rankbook.trash SET until = now() - interval '1 day' WHERE id = :id")
            await connection.execute(late, {"id": gone["id"]})

    bridge.run(age())
    said = rankbook("trash").stderr
    assert f"Their time in the trash is over, and they are gone for good: collection {kept}." in " ".join(said.split())
    assert gone["id"] not in {each["id"] for each in data("trash")}


def test_days_that_are_none_are_refused_before_anything_is_deleted(store, kept, monkeypatch):
    monkeypatch.setenv("RANKBOOK_TRASH_DAYS", "for ever")
    assert "RANKBOOK_TRASH_DAYS is 'for ever'" in mistake("data", "drop", kept, "--yes")
    assert bridge.run(collections.find(store, kept)) is not None
    variants.keep(MINE)
    assert "RANKBOOK_TRASH_DAYS" in mistake("variant", "drop", "mine", "--yes")
    assert variants.get("mine").text == MINE
    monkeypatch.delenv("RANKBOOK_TRASH_DAYS")
    variants.drop("mine")


def test_dropping_a_variant_leaves_its_file_in_the_homes_trash(tmp_path, monkeypatch, store):
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    variants.keep(MINE)
    said = data("variant", "drop", "mine", "--yes")
    (entry,) = said["trash"]
    assert (tmp_path / "trash" / "variants" / f"{entry['id']}.toml").read_text() == MINE
    assert not Path(str(said["file"])).exists()
