"""Backups taken apart and put together again, as somebody with other intentions would do it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from core import bridge
from core.store.engine import Store
from core.types import Item, Query
from evals.backup import Saved, save_backup
from evals.judging import judgements as judging
from evals.judging.judgements import Judgement
from evals.labels import query_sets
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.types import Exclusion, Label, LabelledQueries, Span
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, contents, documents, fresh, ingest, make

Members = dict[str, bytes]  # unpacked, in the order of the file
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HARD = Item("hard\\N", "tab\there, line\nthere,\r\n\\. \\N {quoted} \"text\" 'all' unique 🥝\n\\.\nend", "T\t\\")
LABELLED = LabelledQueries(
    (Query("q1", "word1 common\twith\\.", "kind", ("a", "b,c"), 0.1 + 0.2, {"x": [1, None]}), Query("q2", "word2")),
    (Label("q1", "d00001", 2), Label("q2", "d00002", 0), Label("q2", "d00003", 1, "train")),
    (Span("q1", "d00001", 0, 5, "word7", "test", 1),),
    (Exclusion("q2", "d00004"),),
)


def judgement(
    query: str, item: str, grade: int, judge: str = "ada", when: datetime = NOON, note: str = ""
) -> Judgement:
    return Judgement(query, item, judge, grade, b"\x00\x01version", judge.startswith("llm:"), note, when)


def fill_collection(store: Store, name: str, *, count: int = 12) -> HashingEmbedder:
    """A collection with chunks, parents, vectors, labels, judgements, a pinned run, and texts that are hard to save."""
    model = HashingEmbedder()
    made = make(store, name, [model], {"family": FAMILY}, fields=["kind"], card="# A card")
    ingest(store, name, [*documents(count), HARD], [model])
    bridge.run(query_sets.keep(store, made.name, LABELLED))
    given = [judgement("q1", "d00001", 2, note="why\tnot"), judgement("q1", "d00002", 1, "llm:m")]
    bridge.run(judging.save_judgements(store, made.name, given))
    subject = RunSubject(made.name, 1, "default", LABELLED.digest(), "test", "content")
    run = bridge.run(run_store.save(store, Run("main", subject, {"q1": Ranking(("d00001",), (0.5,))}, depth=10)))
    bridge.run(run_store.pin(store, run.id, f"pin of {name}"))
    return model


def back_up(store: Store, path: Path, name: str) -> Saved:
    return bridge.run(save_backup(store, path, collection=name))


def everything(store: Store, name: str) -> dict[str, object]:
    """What a collection holds and what is known of it, but for its name."""
    row = fresh(store, name).row
    runs = bridge.run(run_store.listed(store, collection=name))
    return {
        **contents(store, name),
        "row": {at: getattr(row, at) for at in ("language", "card", "fields", "version", "created_at", "loaded_at")},
        "labelled": sorted_parts(bridge.run(query_sets.load(store, name))),
        "digest": bridge.run(query_sets.last_check(store, name)),
        "judgements": sorted(bridge.run(judging.load(store, name)), key=repr),
        "runs": [(each.name, each.made_at) for each in runs],
    }


def sorted_parts(labelled: LabelledQueries) -> dict[str, list[object]]:
    return {part: sorted(getattr(labelled, part), key=repr) for part in ("queries", "labels", "spans", "exclusions")}


def unpack(path: Path) -> Members:
    found = {}
    with tarfile.open(path) as tar:
        for info in tar:
            content = tar.extractfile(info)
            assert content is not None
            stored = content.read()
            found[info.name] = gzip.decompress(stored) if info.name.endswith(".gz") else stored
    return found


def repack(path: Path, members: Members, *, listed: bool = True) -> Path:
    """A tar of these members; `listed` makes its list of contents fit them."""
    if listed and "contents.json" in members:
        rows = [_listed(name, content) for name, content in members.items() if name != "contents.json"]
        members = {**members, "contents.json": json.dumps({"members": rows}).encode()}
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members.items():
            stored = gzip.compress(content, 1) if name.endswith(".gz") else content
            info = tarfile.TarInfo(name)
            info.size = len(stored)
            tar.addfile(info, io.BytesIO(stored))
    return path


def _listed(name: str, content: bytes) -> dict[str, object]:
    rows = content.count(b"\n") - 1 if name.endswith(".gz") else 0
    return {"name": name, "size": len(content), "rows": rows, "sha256": hashlib.sha256(content).hexdigest()}


def modify(path: Path, change: Callable[[Members], None], *, listed: bool = True) -> Path:
    members = unpack(path)
    change(members)
    return repack(path.with_name(f"changed-{path.name}"), members, listed=listed)


def member_of(table: str, members: Members) -> str:
    """The first piece of a table."""
    return next(name for name in members if f"/{table}." in name)
