"""The plan of an exported statement: as the server words it, read-only, and within its time."""

# mypy: disable-error-code="no-untyped-call, no-untyped-def"

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from sqlalchemy import text

from core import bridge
from core.context import RequestContext
from core.errors import DeadlineExceeded
from core.sql_export import explained
from core.store import indexes
from tests.app.test_command_line import mistake, rankbook
from tests.store.exporting import EMBEDDER, RESOURCES, variant
from tests.store.making import FAMILY, FIXED, documents, fresh, ingest, make, some_name

LEGS: Sequence[dict[str, object]] = ({"kind": "vector"}, {"kind": "bm25"}, {"kind": "fulltext"})


@pytest.fixture(scope="module")
def context(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"default": FIXED, "parents": FAMILY, "family": FAMILY})
    ingest(store, name, documents(60), [EMBEDDER])
    view = fresh(store, name)
    bridge.run(indexes.build(store, view))
    return RequestContext(store, view, RESOURCES)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["word5 unique7 common", "'; DROP TABLE items; --", "the of and"])
def test_a_measured_plan_has_the_time_of_each_step_and_of_all(context, query):
    found = bridge.run(explained(context, variant(*LEGS), query))
    assert "actual time=" in found.plan
    assert "Execution Time:" in found.plan
    assert found.made.statement in found.made.script


def test_a_plan_that_is_not_measured_ran_nothing(context):
    found = bridge.run(explained(context, variant(*LEGS), "common", measured=False))
    assert "cost=" in found.plan
    assert "actual" not in found.plan


@pytest.mark.slow
def test_a_statement_that_takes_too_long_is_stopped_and_said_to_be(context):
    async def while_locked():
        async with context.store.begin(context.view.namespace) as connection:
            await connection.execute(text(f'LOCK TABLE "{context.view.namespace}".items IN ACCESS EXCLUSIVE MODE'))
            return await explained(context, variant({"kind": "bm25"}), "common", seconds=0.3)

    with pytest.raises(DeadlineExceeded, match=r"did not end within 0\.3 s"):
        bridge.run(asyncio.wait_for(while_locked(), 20))


def test_the_command_prints_the_plan_and_gives_it_as_json(context, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('leg = [{ kind = "bm25" }]')
    asked = ("sql", str(file), "-c", context.view.name, "--explain", "common word3")
    assert "Execution Time:" in rankbook(*asked).stdout
    assert any("Execution Time:" in line for line in json.loads(rankbook(*asked, "--json").stdout)["plan"])
    assert "Give one of the two" in mistake(*asked, "--run", "common")
