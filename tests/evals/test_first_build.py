"""A backup that the first build made comes back whole, and is usable: documents, labels, grades, runs, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from core import bridge
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals import backup
from evals.backup import RestoreReport
from evals.labels import query_sets
from evals.schema import schema_chain
from tests.conftest import TEST_DSN, make_home, remove_home, without_disk
from tests.evals.first_build import BACKUP, COMMIT, usable
from tests.evals.first_build.contents import NOTEBOOK, WORDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TEST_DSN is not None, reason="a whole backup is restored into an empty store of its own"),
]


@pytest.fixture(scope="module")
def empty() -> Iterator[Store]:
    home = make_home()
    opened = bridge.run(Store.open(home=home, chains=[schema_chain]))
    without_disk(opened)
    yield opened
    bridge.run(opened.close())
    remove_home(home)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def restored(empty: Store, home: Path) -> RestoreReport:
    folders = {"notebooks": home / "notebooks", "variants": home / "variants"}
    return bridge.run(backup.restore_backup(empty, BACKUP, folders=folders))  # type: ignore[arg-type]


def test_it_is_of_the_first_build_and_small() -> None:
    manifest = backup.check(BACKUP)
    assert manifest.revisions == {"catalog": "c0002", "evals": "e0008", "collection": "k0002"}
    assert BACKUP.stat().st_size < 100_000
    assert COMMIT[:12] in BACKUP.with_name("README.md").read_text(encoding="utf-8")


def test_documents_are_there_and_found(empty: Store, restored: RestoreReport) -> None:
    usable.documents(empty, "kettles")


def test_labels_grades_and_votes_are_there(empty: Store, restored: RestoreReport) -> None:
    usable.labels(empty, "kettles")
    usable.grades(empty, "kettles")


def test_runs_and_pins_are_there_and_what_is_evaluated_now_is_told_from_deep_ones(
    empty: Store, restored: RestoreReport
) -> None:
    usable.runs(empty, "kettles")
    usable.evaluation(empty, "kettles")


def test_the_kept_variant_and_the_notebook_are_there(restored: RestoreReport, home: Path) -> None:
    assert Variant.from_file(home / "variants" / "words.toml") == WORDS
    assert (home / "notebooks" / "kettles.md").read_text(encoding="utf-8") == NOTEBOOK


def test_the_attached_table_comes_back_where_it_is_named_and_only_there(empty: Store, restored: RestoreReport) -> None:
    async def make() -> None:
        async with empty.begin() as connection:
            await connection.execute(text("CREATE TABLE public.shop_faq (nr int PRIMARY KEY, answer text)"))
            await connection.execute(text("INSERT INTO public.shop_faq VALUES (1, 'Vinegar takes the scale.')"))

    (back,) = [each for each in restored.collections if each.name == "faq"]
    assert bridge.run(collections.find(empty, "faq")) is None
    assert "--attach faq=public.shop_faq" in back.note
    assert bridge.run(query_sets.count(empty, "faq")) == 1
    bridge.run(make())
    bridge.run(backup.restore_backup(empty, BACKUP))
    assert bridge.run(collections.find(empty, "faq")) is None
    bridge.run(backup.restore_backup(empty, BACKUP, tables={"faq": "public.shop_faq"}))
    found = bridge.run(collections.get(empty, "faq")).row.attached
    assert json.loads(json.dumps(found))["table"]["table"] == "shop_faq"
