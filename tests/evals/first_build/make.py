"""What somebody left behind who used the first build: run by that version's own code, this fills RANKBOOK_HOME.

    PYTHONPATH=<its checkout> RANKBOOK_HOME=<an empty folder> python tests/evals/first_build/make.py [BACKUP.tar]

It may use nothing that the first build has not got. What it makes is told in `tests/evals/first_build/__init__.py`.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text

from core import bridge
from core.store import attached
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from core.types import Query
from core.variant import Variant
from evals import backup, variants
from evals.collections import load
from evals.evaluation.context import open_eval
from evals.evaluation.evaluate import evaluate
from evals.judging import judgements, votes
from evals.judging.judgements import Judgement
from evals.judging.votes import Contest, Vote
from evals.labels import query_sets
from evals.runs import run_store
from evals.runs.plan import EvalOptions
from evals.schema import schema_chain
from evals.types import Label, LabelledQueries
from tests.app.corpus import KETTLES, MODEL
from workbench.notebooks.files import shelf

WORDS = Variant.from_data({"name": "words", "chunks": "small", "top_k": 2, "leg": [{"kind": "bm25"}]})
BOTH = Variant.from_data(
    {"name": "both", "chunks": "small", "top_k": 2, "leg": [{"kind": "bm25"}, {"kind": "vector", "weight": 0.5}]}
)
NOTEBOOK = """# Kettles

```notebook
collection = "kettles"
```

```search words
query = "scale"
variants = ["words"]
```
"""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def fill(store: Store, saved: Path | None) -> None:
    plan = load.LoadPlan(
        models=(MODEL,),
        chunks={"small": {"kind": "fixed", "max_tokens": 8, "overlap": 0}},
        fields=("type",),
        check=False,
    )
    await load.load_collection(store, "kettles", KETTLES, plan)
    ground = await open_eval(store, "kettles")
    await _judge(store, ground.view)
    variants.keep(WORDS.to_toml())
    result = await evaluate(ground, [WORDS, BOTH], ground.split("test"), EvalOptions())  # deep, as was usual then
    await evaluate(ground, [BOTH.but(name="both as shipped")], ground.split("test"), EvalOptions(as_shipped=True))
    await run_store.pin(store, result.board.runs[0].id, "main")
    contest = Contest.of("kettles", {"Today": WORDS, "Tomorrow": BOTH})
    await votes.announce(store, contest)
    await votes.cast(store, contest, Vote("a visitor", "scale", BOTH.id))
    shelf().folder.mkdir(parents=True, exist_ok=True)
    (shelf().folder / "kettles.md").write_text(NOTEBOOK, encoding="utf-8")
    await _attach(store)
    if saved is not None:
        folders = {"notebooks": shelf().folder, "variants": variants.folder()}
        await backup.save_backup(store, saved, folders=folders)  # type: ignore[arg-type]


async def _judge(store: Store, view: CollectionView) -> None:
    shown = await read_items(store, view, ["descale", "e42"])
    given = [
        Judgement("q1", "descale", "ada", 3, shown["descale"].version, note="all of it", judged_at=NOON),
        Judgement("q1", "descale", "ben", 2, shown["descale"].version, judged_at=NOON),
        Judgement("q2", "e42", "ben", 3, shown["e42"].version, judged_at=NOON),
    ]
    await judgements.save_judgements(store, view.name, given)


async def _attach(store: Store) -> None:
    async with store.begin() as connection:
        await connection.execute(text("CREATE TABLE public.shop_faq (nr int PRIMARY KEY, answer text)"))
        rows = "INSERT INTO public.shop_faq VALUES (1, 'Vinegar takes the scale.'), (2, 'Two years on all.')"
        await connection.execute(text(rows))
    await attached.attach_table(store, "faq", attached.AttachedTable(table="shop_faq", id="nr", text="answer"))
    await query_sets.keep(store, "faq", LabelledQueries((Query("f1", "scale"),), (Label("f1", "1", 1),)))


def main() -> None:
    store = bridge.run(Store.open(chains=[schema_chain]))
    try:
        bridge.run(fill(store, Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    finally:
        bridge.run(store.close())


if __name__ == "__main__":
    main()
