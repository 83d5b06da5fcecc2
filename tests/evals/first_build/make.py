"""What somebody left behind who used the first build: run by that version's own code, this fills RANKBOOK_HOME.

    PYTHONPATH=<its checkout> RANKBOOK_HOME=<an empty folder> python tests/evals/first_build/make.py [BACKUP.tar]

It may use nothing that the first build has not got. What it makes is told in `tests/evals/first_build/__init__.py`.
"""

# mypy: ignore-errors
# (its imports are that version's)

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from contents import BOTH, NOTEBOOK, WORDS
from evals.query_sets import Labelled
from evals.running import run_store
from evals.store import chain
from sqlalchemy import text
from workbench.book.shelf import shelf

from core import bridge
from core.store import attached
from core.store.collections import View
from core.store.engine import Store
from core.types import Query
from evals import backup, kept_variants, library, query_sets
from evals.evaluation import Wanted, evaluated, opened
from evals.judging import judgements, votes
from evals.judging.judgements import Judgement
from evals.judging.votes import Contest, Vote
from evals.labels import Label
from tests.app.corpus import KETTLES, MODEL

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def fill(store: Store, saved: Path | None) -> None:
    plan = library.Plan(
        models=(MODEL,),
        chunks={"small": {"kind": "fixed", "max_tokens": 8, "overlap": 0}},
        fields=("type",),
        check=False,
    )
    await library.add(store, "kettles", KETTLES, plan)
    ground = await opened(store, "kettles")
    await _judge(store, ground.view)
    kept_variants.keep(WORDS.to_toml())
    board, _ = await evaluated(ground, [WORDS, BOTH], ground.split("test"), Wanted())  # deep, as was usual then
    await evaluated(ground, [BOTH.but(name="both as shipped")], ground.split("test"), Wanted(as_shipped=True))
    await run_store.pin(store, board.runs[0].id, "main")
    contest = Contest.of("kettles", {"Today": WORDS, "Tomorrow": BOTH})
    await votes.announce(store, contest)
    await votes.cast(store, contest, Vote("a visitor", "scale", BOTH.id))
    shelf().folder.mkdir(parents=True, exist_ok=True)
    (shelf().folder / "kettles.md").write_text(NOTEBOOK, encoding="utf-8")
    await _attach(store)
    if saved is not None:
        folders = {"notebooks": shelf().folder, "variants": kept_variants.folder()}
        await backup.save(store, saved, folders=folders)  # type: ignore[arg-type]


async def _judge(store: Store, view: View) -> None:
    shown = await judgements.shown(store, view, ["descale", "e42"])
    given = [
        Judgement("q1", "descale", "ada", 3, shown["descale"].version, note="all of it", judged_at=NOON),
        Judgement("q1", "descale", "ben", 2, shown["descale"].version, judged_at=NOON),
        Judgement("q2", "e42", "ben", 3, shown["e42"].version, judged_at=NOON),
    ]
    await judgements.give(store, view.name, given)


async def _attach(store: Store) -> None:
    async with store.begin() as connection:
        await connection.execute(text("CREATE TABLE public.shop_faq (nr int PRIMARY KEY, answer text)"))
        rows = "INSERT INTO public.shop_faq VALUES (1, 'Vinegar takes the scale.'), (2, 'Two years on all.')"
        await connection.execute(text(rows))
    await attached.attach(store, "faq", attached.AttachedTable(table="shop_faq", id="nr", text="answer"))
    await query_sets.keep(store, "faq", Labelled((Query("f1", "scale"),), (Label("f1", "1", 1),)))


def main() -> None:
    store = bridge.run(Store.open(chains=[chain]))
    try:
        bridge.run(fill(store, Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    finally:
        bridge.run(store.close())


if __name__ == "__main__":
    main()
