"""Judgements become labels: settled between judges, merged into a query set, written as qrels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from core.errors import InputError
from core.store import names
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.judging.agreement import Agreement, Calibration, PairId, agreement, calibration, settled_grade
from evals.judging.judgements import Judgement, JudgementStatus, Origin, standing
from evals.labels import query_sets
from evals.labels.revisions import Cause
from evals.types import DEFAULT_QUERY_SET, Grades, Label, LabelledQueries, MergedFrom, Way

# -- what becomes of several ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SettledGrade:
    """The one grade of a pair: whose, and whether people's or a model's."""

    grade: int
    origin: Origin
    judges: tuple[str, ...]


def resolved(judgements: Iterable[Judgement], *, models: bool = False) -> dict[PairId, SettledGrade]:
    """One grade a pair: the median of people's, the lower of the middle two.

    A model's grades count only where `models` asks for them, and only for pairs that no person has graded.
    """
    by_pair: dict[PairId, list[Judgement]] = defaultdict(list)
    for each in judgements:
        by_pair[each.pair].append(each)
    found = {}
    for pair, several in sorted(by_pair.items()):
        people = [each for each in several if not each.is_model]
        if counted := people or (several if models else []):
            grade = settled_grade([each.grade for each in counted])
            found[pair] = SettledGrade(
                grade, "human" if people else "model", tuple(sorted(each.judge for each in counted))
            )
    return found


def by_judge(judgements: Iterable[Judgement]) -> dict[str, dict[PairId, int]]:
    """Each judge's grades, as agreement wants them."""
    found: dict[str, dict[PairId, int]] = defaultdict(dict)
    for each in judgements:
        found[each.judge][each.pair] = each.grade
    return dict(found)


def with_judgements(grades: Grades, settled: Mapping[PairId, SettledGrade]) -> dict[str, dict[str, int]]:
    """Labels and judgements as one; of a pair that has both, the judgement, which is the later word."""
    united = {query: dict(given) for query, given in grades.items()}
    for (query, item), each in settled.items():
        united.setdefault(query, {})[item] = each.grade
    return united


@dataclass(frozen=True, slots=True)
class MergedLabels:
    """A query set with judgements among its labels, and where the label of each pair of the split comes from.

    `ways` has the splits that judgements came into, this one and those that an earlier merge had made.
    """

    labelled: LabelledQueries
    origins: Mapping[PairId, Origin]
    left_out: int  # judgements of queries that the set does not have
    ways: Mapping[str, Way] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Origin, int]:
        return dict(sorted(Counter(self.origins.values()).items()))


def merged(
    labelled: LabelledQueries, settled: Mapping[PairId, SettledGrade], *, split: str = "test", overrule: bool = False
) -> MergedLabels:
    """Judgements as labels of a split. A pair that is labelled there keeps its label, unless judgements `overrule`."""
    known = {query.id for query in labelled.queries}
    labels = {(label.query_id, label.item_id): label for label in labelled.labels if label.split == split}
    origins: dict[PairId, Origin] = dict.fromkeys(labels, "labels")
    for pair, each in settled.items():
        if pair[0] in known and (overrule or pair not in labels):
            labels[pair], origins[pair] = Label(*pair, each.grade, split), each.origin
    others = [label for label in labelled.labels if label.split != split]
    ordered = sorted([*others, *labels.values()], key=lambda label: (label.split, label.query_id, label.item_id))
    left_out = sum(query not in known for query, _ in settled)
    return MergedLabels(replace(labelled, labels=tuple(ordered)), dict(sorted(origins.items())), left_out)


def qrels(grades: Mapping[PairId, int], form: Literal["trec", "beir"] = "trec") -> str:
    """A judgement file: TREC's four columns, or BEIR's three with a header. Ids with blanks fit only the second."""
    if form == "beir":
        rows = [f"{query}\t{item}\t{grade}" for (query, item), grade in sorted(grades.items())]
        return "\n".join(["query-id\tcorpus-id\tscore", *rows, ""])
    for each in (part for pair in grades for part in pair):
        if len(each.split()) != 1 or each != each.strip():
            raise InputError(
                f"The id {each!r:.80} holds a blank, and TREC's columns are parted by blanks. Export as BEIR's TSV."
            )
    return "".join(f"{query} 0 {item} {grade}\n" for (query, item), grade in sorted(grades.items()))


@dataclass(frozen=True, slots=True)
class Agreed:
    """How far people agree with each other, and each model with them. Stale judgements are in neither."""

    standing: JudgementStatus
    counts: tuple[tuple[str, int], ...]
    people: Agreement
    models: tuple[Calibration, ...]


async def agreed(store: Store, view: CollectionView, *, name: str = DEFAULT_QUERY_SET) -> Agreed:
    """Models are held against what people settled on, and against the labels where no person has judged."""
    stood = await standing(store, view)
    labels = (await query_sets.load(store, view.name, name=name)).labels
    reference = {(each.query_id, each.item_id): each.grade for each in labels}
    reference |= {pair: each.grade for pair, each in resolved(stood.current).items()}
    people = by_judge(each for each in stood.current if not each.is_model)
    models = by_judge(each for each in stood.current if each.is_model)
    counts = tuple((judge, len(grades)) for judge, grades in sorted((people | models).items()))
    held = tuple(calibration(judge, grades, reference) for judge, grades in sorted(models.items()))
    return Agreed(stood, counts, agreement(people), held)


class WouldOverwrite(InputError):
    """A query set of that name is there, with labels or queries that nothing else has."""


async def merge_judgements(  # noqa: PLR0913 - a merge has that many sides
    store: Store,
    view: CollectionView,
    into: str,
    *,
    name: str = DEFAULT_QUERY_SET,
    split: str = "test",
    models: bool | None = None,
    overrule: bool | None = None,
    overwrite: bool = False,
    author: str = "",
) -> tuple[MergedLabels, bool]:
    """Keep a query set with the judgements that hold as labels, under `into`; and whether that changed anything.

    Under another name than `name`, what came with the collection stays apart from what was judged, for good. A set
    that is as an earlier merge from `name` left it is made anew, in the splits of that one too; any other one may lose
    nothing, unless `overwrite` says so. Each split is made anew as it was: with models' grades, and overruling, or not.
    So is `split`, but for what `models` and `overrule` say of it.
    """
    into = names.checked(into, what="The query set's name")
    async with query_sets.change_lock(store, view.name, into):
        base = await query_sets.load(store, view.name, name=name)
        if not base.queries:
            raise InputError(
                f"{view.name!r} has no query set {name!r}, or an empty one. See `rankbook queries add --help`."
            )
        stood = await standing(store, view)
        before = await query_sets.merged_from(store, view.name, name=into)
        again = before if before is not None and before.query_set == name else None
        ways = _ways(again, split, models=models, overrule=overrule)
        for other in sorted({*ways} - {split}):
            base = _judged(base, stood, other, ways[other]).labelled
        made = replace(_judged(base, stood, split, ways[split]), ways=ways)
        if into != name and again is None and not overwrite:
            there = await query_sets.load(store, view.name, name=into)
            if lost := _lost(there, made.labelled):
                raise WouldOverwrite(
                    f"The query set {into!r} is there already, and not as a merge from {name!r} left it: {lost} would "
                    "be lost. Choose another name, or say that it may be overwritten."
                )
        of = MergedFrom(query_set=name, splits=ways) if into != name else None
        cause = Cause(author, f"judgements merged with {name!r}, into {split!r}")
        return made, await query_sets.keep(store, view.name, made.labelled, name=into, merged=of, cause=cause)


def _ways(again: MergedFrom | None, split: str, *, models: bool | None, overrule: bool | None) -> dict[str, Way]:
    """How each split is made: as it was, and this one otherwise where that is said."""
    before = again.splits if again else {}
    was = before.get(split, Way(models=False, overrule=False))
    way = Way(models=was.models if models is None else models, overrule=was.overrule if overrule is None else overrule)
    return {**before, split: way}


def _judged(labelled: LabelledQueries, stood: JudgementStatus, split: str, way: Way) -> MergedLabels:
    return merged(labelled, resolved(stood.current, models=way.models), split=split, overrule=way.overrule)


def others_anew(made: MergedLabels, split: str) -> str:
    """The splits of earlier merges that were made anew with this one, in words; empty where there are none."""
    told = ", ".join(f"{other!r}{way}" for other, way in sorted(made.ways.items()) if other != split)
    return f"Made anew as before: {told}." if told else ""


def _lost(there: LabelledQueries, made: LabelledQueries) -> str:
    """What the set that is there has and the new one has not, in words; empty where that is nothing."""
    said = [f"its choice of {len(there.queries):,} queries"] if there.queries and there.queries != made.queries else []
    for what in ("labels", "spans", "exclusions"):
        old, new = set(getattr(there, what)), set(getattr(made, what))
        if gone := len(old - new):
            said.append(f"{gone:,} of its {len(old):,} {what}")
    return " and ".join(said)
