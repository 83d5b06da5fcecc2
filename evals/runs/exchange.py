"""Runs from and for elsewhere: TREC files, tables, dictionaries, data frames and ranx."""

from __future__ import annotations

import gzip
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from core import atomic_files
from core.errors import InputError
from core.types import Flaw, Row
from evals.runs.rankings import Ranking, Rankings
from evals.runs.types import Run, RunSubject
from evals.sources.files import open_file, require_file
from evals.sources.rows import id_text, read_lines, shown
from evals.sources.table_files import TABLE_SUFFIXES, opened_table
from evals.types import QuerySplit

if TYPE_CHECKING:
    import pandas as pd

QUERY, ITEM, SCORE, RANK = (
    ("query", "query_id", "qid", "topic"),
    ("item", "item_id", "doc_id", "docno"),
    "score",
    "rank",
)
FIRST = 3  # unknown documents that are named
LARGEST = 4 * 2**30  # bytes that a run becomes in memory while it is read
A_ROW = 400  # of them for each row besides its ids
WRITTEN = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".run", ".trec", ".txt")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A line of a run: which item, its score, and the rank it was given, for those that have equal scores."""

    query: str
    item: str
    score: float
    rank: float


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run that came in, what was wrong with it, and how it meets the labelled queries."""

    run: Run
    flaws: tuple[Flaw, ...]
    unasked: tuple[str, ...]  # queries of the file that the split does not have
    missing: tuple[str, ...]  # queries of the split that the file does not have: they score 0
    unknown: tuple[str, ...] = ()  # documents of the file that the collection does not have


def run_name(path: Path) -> str:
    """What a run is called that is in this file."""
    return path.name.split(".")[0]


def read_run(
    path: Path, subject: RunSubject, split: QuerySplit, *, name: str = "", largest: int = LARGEST
) -> ForeignRun:
    """A run by the ending of its file's name; TREC's six columns where it is no table's."""
    require_file(path, "a run")
    rows = _table_rows(path) if path.name.lower().endswith(TABLE_SUFFIXES) else _trec_rows(path)
    flaws: list[Flaw] = []
    tied: list[str] = []
    rankings = _ranked(_sound(rows, flaws, path, largest), tied)
    if not rankings:
        wrong = next((flaw for flaw in flaws if flaw.outcome != "noted"), None)
        first = f" The first thing wrong with it: {wrong.place}: {wrong.message}" if wrong else ""
        raise InputError(f"There is no ranking in it.{first}", path=path)
    if not rankings.keys() & split.queries.keys():
        raise InputError(
            f"None of its {len(rankings):,} queries is one of {split.name!r} of {subject.collection!r}; the first is "
            f"{next(iter(rankings))!r:.80}. Check that the ids are the collection's own.",
            path=path,
        )
    run = Run(name or run_name(path), subject, rankings, environment={"read from": path.name})
    return foreign(run, split, flaws, tied)


def foreign(run: Run, split: QuerySplit, flaws: Sequence[Flaw] = (), tied: Sequence[str] = ()) -> ForeignRun:
    """A run as it meets the split: its rankings of these queries alone, without what they exclude, as ours are.

    `tied` are the queries in which neither score nor rank gave some documents an order.
    """
    asked = {query: ranked for query, ranked in run.rankings.items() if query in split.queries}
    left = {query: _allowed(ranked, split.excluded.get(query, frozenset())) for query, ranked in asked.items()}
    gone = sum(ranked.length for ranked in asked.values()) - sum(ranked.length for ranked in left.values())
    notes = [f"Documents that its queries exclude were taken out of the rankings: {gone}."] if gone else []
    if equal := [query for query in tied if query in asked]:
        notes.append(
            f"Documents have equal scores, and no ranks that part them, in {len(equal):,} of its queries, "
            f"{equal[0]!r:.80} among them. They were ordered by their ids, descending, as trec_eval does."
        )
    return ForeignRun(
        replace(run, rankings=left, notes=tuple(notes)),
        tuple(flaws),
        tuple(query for query in run.rankings if query not in split.queries),
        tuple(query for query in split.queries if query not in run.rankings),
    )


def with_unknown(found: ForeignRun, unknown: Collection[str]) -> ForeignRun:
    """With what to say of documents that the collection has not got: nobody can have judged them."""
    gone = frozenset(unknown)
    every = dict.fromkeys(item for ranked in found.run.rankings.values() for item in ranked.item_ids)
    met = [item for item in every if item in gone]
    if not met:
        return found
    first, more = ", ".join(f"{item!r:.80}" for item in met[:FIRST]), " and more" if len(met) > FIRST else ""
    note = (
        f"{len(met):,} of its {len(every):,} documents are not in {found.run.subject.collection!r}: {first}{more}. "
        "They keep their places, and count as not relevant."
    )
    return replace(found, run=replace(found.run, notes=(*found.run.notes, note)), unknown=tuple(met))


def _allowed(ranked: Ranking, excluded: frozenset[str]) -> Ranking:
    kept = [at for at, item in enumerate(ranked.items or ranked.ids) if item not in excluded]
    return ranked if len(kept) == ranked.length else ranked.at(kept)


def from_dict(scores: Mapping[str, Mapping[str, float]], tied: list[str] | None = None) -> Rankings:
    """`{query: {item: score}}`, as ranx's `Run.to_dict()` and pytrec_eval have it. Queries with ties go into `tied`."""
    places = (_Placed(query, item, float(score), 0) for query, given in scores.items() for item, score in given.items())
    return _ranked(places, [] if tied is None else tied)


def to_dict(rankings: Rankings) -> dict[str, dict[str, float]]:
    """The same back, for ranx's `Run` or pytrec_eval: each item once, with scores that fall from one to the next."""
    return {query: dict(zip(ranked.item_ids, _falling(ranked), strict=True)) for query, ranked in rankings.items()}


def from_frame(frame: pd.DataFrame, tied: list[str] | None = None) -> Rankings:
    """A frame with the columns query, item and score; rank too, where scores are equal. As `from_dict` else."""
    columns = {wanted: _column(frame.columns, names) for wanted, names in (("query", QUERY), ("item", ITEM))}
    if SCORE not in frame.columns:
        raise InputError(f"The frame has no column 'score'. It has: {', '.join(map(str, frame.columns))}.")
    ranks = frame[RANK] if RANK in frame.columns else [0.0] * len(frame)
    places = zip(frame[columns["query"]], frame[columns["item"]], frame[SCORE], ranks, strict=True)
    placed = (_Placed(id_text(query), id_text(item), float(score), float(rank)) for query, item, score, rank in places)
    return _ranked(placed, [] if tied is None else tied)


def frame(run: Run) -> pd.DataFrame:
    """The run's rankings as a frame: query, item, rank, score, and whether the query failed."""
    import pandas as pd

    rows = [
        (query, item, rank, score)
        for query, ranked in run.rankings.items()
        for rank, (item, score) in enumerate(zip(ranked.item_ids, _scores(ranked), strict=True), 1)
    ]
    return pd.DataFrame(rows, columns=["query", "item", "rank", "score"])


def write_run(run: Run, path: Path) -> None:
    """By the ending: Parquet, CSV, TSV, JSONL, or TREC's run format (.run, .trec, .txt, none); packed with .gz."""
    packed, name = path.name.lower().endswith(".gz"), path.name.lower().removesuffix(".gz")
    if (packed and name.endswith(".parquet")) or (PurePath(name).suffix and not name.endswith(WRITTEN)):
        raise InputError(
            f"The ending is none that a run is written by. It may be {', '.join(WRITTEN)}, or none; and .gz after it.",
            path=path,
        )
    with atomic_files.replacing(path, ending=f"-{PurePath(name).suffix}{'.gz' if packed else ''}") as part:
        if name.endswith(".parquet"):
            frame(run).to_parquet(part, index=False)
        elif name.endswith((".csv", ".tsv")):
            frame(run).to_csv(part, index=False, sep="\t" if name.endswith(".tsv") else ",")
        elif name.endswith((".jsonl", ".ndjson")):
            frame(run).to_json(part, orient="records", lines=True, force_ascii=False)
        else:
            with gzip.open(part, "wt", encoding="utf-8") if packed else part.open("w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in trec_lines(run))


def trec_lines(run: Run) -> Iterator[str]:
    """query Q0 item rank score tag, with tabs between them: an id may hold a blank.

    trec_eval orders by the score alone, read in single precision, and takes equal scores by id, backwards. So scores
    fall from line to line, by the least that single precision can tell.
    """
    tag = "_".join(run.name.split()) or "rankbook"
    for query, ranked in run.rankings.items():
        for rank, (item, score) in enumerate(zip(ranked.item_ids, _falling(ranked), strict=True), 1):
            yield f"{query}\tQ0\t{item}\t{rank}\t{score!r}\t{tag}"


# -- reading -----------------------------------------------------------------------------------------------------------


def _trec_rows(path: Path) -> Iterator[Row[_Placed] | Flaw]:
    with open_file(path) as stream:
        for line in read_lines(stream, str(path)):
            if isinstance(line, Flaw):
                yield line
            elif line.value.strip():
                text = line.value.strip("\r\n")
                cells = [cell.strip() for cell in (text.split("\t") if "\t" in text.strip() else text.split())]
                if len(cells) not in (5, 6):
                    yield Flaw(
                        line.place, f"TREC's six columns (query Q0 item rank score tag) were expected: {shown(text)}."
                    )
                else:
                    yield _place(cells[0], cells[2], cells[4], cells[3], line)


def _table_rows(path: Path) -> Iterator[Row[_Placed] | Flaw]:
    with opened_table(path) as table:
        query, item = table.pick(None, QUERY, "query's id"), table.pick(None, ITEM, "item's id")
        score = table.require(SCORE, "score")
        for row in table.rows:
            if isinstance(row, Flaw):
                yield row
            else:
                yield _place(
                    row.value.get(query), row.value.get(item), row.value.get(score), row.value.get(RANK, 0), row
                )


def _place(query: object, item: object, score: object, rank: object, row: Row[Any]) -> Row[_Placed] | Flaw:
    value = _number(score)
    if not id_text(query) or not id_text(item):
        return Flaw(row.place, "The query's or the item's id is empty.")
    if value is None:
        return Flaw(row.place, f"The score is {shown(score)}; a finite number was expected.", subject=id_text(query))
    return Row(_Placed(id_text(query), id_text(item), value, _number(rank) or 0.0), row.place)


def _number(given: object) -> float | None:
    try:
        number = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _sound(rows: Iterable[Row[_Placed] | Flaw], flaws: list[Flaw], path: Path, largest: int) -> Iterator[_Placed]:
    """The rows that can be used. An item that a query has twice is said, and keeps its better place."""
    seen: set[tuple[str, str]] = set()
    left = largest
    for row in rows:
        left -= A_ROW + (len(row.message) if isinstance(row, Flaw) else len(row.value.query) + len(row.value.item))
        if left < 0:
            raise InputError(
                f"The run becomes more than {largest:,} bytes in memory, in which there is room for about ten million "
                "rows. Cut its rankings (a thousand a query are plenty), or split the file by queries.",
                path=path,
                line=row.place.line,
            )
        if isinstance(row, Flaw):
            flaws.append(row)
            continue
        pair = (row.value.query, row.value.item)
        if pair in seen:
            message = f"The item {row.value.item!r:.80} stands here a second time; its better place was kept."
            flaws.append(Flaw(row.place, message, "cleaned", row.value.query))
        seen.add(pair)
        yield row.value


def _ranked(places: Iterable[_Placed], tied: list[str]) -> dict[str, Ranking]:
    """By score, then by the rank given. What is still equal is ordered by id, descending, as trec_eval does: `tied`
    are the queries that have such documents.
    """
    by_query: dict[str, list[_Placed]] = defaultdict(list)
    for place in places:
        by_query[place.query].append(place)
    rankings = {}
    for query, found in sorted(by_query.items()):
        best: dict[str, _Placed] = {}
        descending = sorted(found, key=lambda each: each.item.encode(), reverse=True)
        for place in sorted(descending, key=lambda each: (-each.score, each.rank)):
            best.setdefault(place.item, place)
        kept = list(best.values())
        if any((one.score, one.rank) == (next_.score, next_.rank) for one, next_ in pairwise(kept)):
            tied.append(query)
        rankings[query] = Ranking(tuple(best), tuple(each.score for each in kept))
    return rankings


def _column(columns: Iterable[object], names: tuple[str, ...]) -> str:
    found = next((name for name in names if name in set(columns)), None)
    if found is None:
        raise InputError(f"The frame has no column {names[0]!r}. It has: {', '.join(map(str, columns))}.")
    return found


# -- writing -----------------------------------------------------------------------------------------------------------


def _scores(ranked: Ranking) -> list[float]:
    """Each item's score: that of its best unit."""
    best: dict[str, float] = {}
    for item, score in zip(ranked.items or ranked.ids, ranked.scores, strict=True):
        best.setdefault(item, score)
    return list(best.values())


def _falling(ranked: Ranking) -> Iterator[float]:
    """The scores in single precision, each below the one before."""
    before = np.float32(np.inf)
    for score in _scores(ranked):
        before = min(np.float32(score), np.nextafter(before, np.float32(-np.inf)))
        yield float(before)


def foreign_run(subject: RunSubject, split: QuerySplit, name: str, rankings: Any) -> ForeignRun:
    if isinstance(rankings, str | Path):
        return read_run(Path(rankings).expanduser(), subject, split, name=name)
    tied: list[str] = []
    read = rankings_of(rankings, tied)
    if not read.keys() & split.queries.keys():
        raise InputError(f"None of the {len(read):,} queries of {name!r} is one of {split.name!r}. Check the ids.")
    run = Run(name, subject, read, environment={"read from": type(rankings).__name__})
    return foreign(run, split, tied=tied)


def rankings_of(given: Any, tied: list[str] | None = None) -> Rankings:
    """Scores by query and document, of a dictionary, a frame, or ranx's `Run`. Queries with ties go into `tied`."""
    if hasattr(given, "columns"):
        found: Rankings = from_frame(given, tied)
    else:
        scores = given if isinstance(given, Mapping) else given.to_dict() if hasattr(given, "to_dict") else None
        if scores is None or not all(isinstance(each, Mapping) for each in scores.values()):
            raise InputError(
                f"A run is a file, {{query: {{document: score}}}}, a frame, or a ranx Run, and this is {given!r:.80}."
            )
        found = from_dict(scores, tied)
    for query, ranked in found.items():
        if not all(map(math.isfinite, ranked.scores)):
            raise InputError(f"The query {query!r:.80} has a score that is no finite number.")
    return found
