"""Judgements as labels: one grade of several judges, merged into a query set or written as qrels."""

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
from evals.judging.judgements import Judgement, JudgementStatus, Origin, judgement_status
from evals.labels import query_sets
from evals.labels.revisions import Cause
from evals.types import DEFAULT_QUERY_SET, Grades, Label, LabelledQueries, MergedFrom, MergeRule


@dataclass(frozen=True, slots=True)
class SettledGrade:
    """The one grade of a pair, its judges, and whether they are people or models."""

    grade: int
    origin: Origin
    judges: tuple[str, ...]


def settle_grades(judgements: Iterable[Judgement], *, models: bool = False) -> dict[PairId, SettledGrade]:
    """One grade for each pair: the median of people's grades, the lower of the middle two.

    Models' grades count only with `models`, and only for pairs that no person has graded.
    """
    by_pair: dict[PairId, list[Judgement]] = defaultdict(list)
    for each in judgements:
        by_pair[each.pair].append(each)
    settled = {}
    for pair, several in sorted(by_pair.items()):
        people = [each for each in several if not each.is_model]
        if counted := people or (several if models else []):
            grade = settled_grade([each.grade for each in counted])
            judges = tuple(sorted(each.judge for each in counted))
            settled[pair] = SettledGrade(grade, "human" if people else "model", judges)
    return settled


def by_judge(judgements: Iterable[Judgement]) -> dict[str, dict[PairId, int]]:
    """Each judge's grades."""
    grades: dict[str, dict[PairId, int]] = defaultdict(dict)
    for each in judgements:
        grades[each.judge][each.pair] = each.grade
    return dict(grades)


def with_judgements(grades: Grades, settled: Mapping[PairId, SettledGrade]) -> dict[str, dict[str, int]]:
    """Labels with judgements; of a pair that has both, the judgement, which is later."""
    both = {query: dict(labelled) for query, labelled in grades.items()}
    for (query, item), each in settled.items():
        both.setdefault(query, {})[item] = each.grade
    return both


@dataclass(frozen=True, slots=True)
class MergedLabels:
    """A query set with judgements among its labels, and the origin of the label of each pair of the split.

    `rules` has the splits that judgements were merged into, this one and those of earlier merges.
    """

    labelled: LabelledQueries
    origins: Mapping[PairId, Origin]
    left_out: int  # judgements of queries that the set does not have
    rules: Mapping[str, MergeRule] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Origin, int]:
        return dict(sorted(Counter(self.origins.values()).items()))


def merge_labels(
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


def qrels_text(grades: Mapping[PairId, int], form: Literal["trec", "beir"] = "trec") -> str:
    """The text of a qrels file: TREC's four columns, or BEIR's three with a header, which ids with blanks need."""
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
class JudgeAgreement:
    """The agreement of people, and of each model with people, by judgements that are not stale."""

    status: JudgementStatus
    counts: tuple[tuple[str, int], ...]
    people: Agreement
    models: tuple[Calibration, ...]


async def judge_agreement(store: Store, view: CollectionView, *, name: str = DEFAULT_QUERY_SET) -> JudgeAgreement:
    """Agreement of the judges. Models are compared with people's settled grades, or labels where there are none."""
    status = await judgement_status(store, view)
    labels = (await query_sets.load(store, view.name, name=name)).labels
    reference = {(each.query_id, each.item_id): each.grade for each in labels}
    reference |= {pair: each.grade for pair, each in settle_grades(status.current).items()}
    people = by_judge(each for each in status.current if not each.is_model)
    models = by_judge(each for each in status.current if each.is_model)
    counts = tuple((judge, len(grades)) for judge, grades in sorted((people | models).items()))
    compared = tuple(calibration(judge, grades, reference) for judge, grades in sorted(models.items()))
    return JudgeAgreement(status, counts, agreement(people), compared)


class WouldOverwrite(InputError):
    """A query set of that name exists, with labels or queries that would be lost."""


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
    """Store the query set `name` with current judgements as labels, as `into`; and whether that changed anything.

    Under another name than `name`, the labels of the collection and those from judgements stay apart. A set `into`
    that is still as an earlier merge from `name` left it is merged anew, with all splits of earlier merges. Any other
    one is only replaced if it loses nothing, or with `overwrite`. Each split keeps its rule (models' grades or not,
    overruling labels or not); that of `split` is changed by `models` and `overrule`.
    """
    into = names.checked(into, what="The query set's name")
    async with query_sets.change_lock(store, view.name, into):
        base = await query_sets.load(store, view.name, name=name)
        if not base.queries:
            raise InputError(
                f"{view.name!r} has no query set {name!r}, or an empty one. See `rankbook queries add --help`."
            )
        status = await judgement_status(store, view)
        before = await query_sets.merged_from(store, view.name, name=into)
        again = before is not None and before.query_set == name
        rules = dict(before.splits) if before is not None and again else {}
        rule = rules.get(split, MergeRule(models=False, overrule=False))
        changes = {"models": models, "overrule": overrule}
        rules[split] = rule.model_copy(update={key: value for key, value in changes.items() if value is not None})
        merged = MergedLabels(base, {}, 0)
        for each in (*sorted({*rules} - {split}), split):
            settled = settle_grades(status.current, models=rules[each].models)
            merged = merge_labels(merged.labelled, settled, split=each, overrule=rules[each].overrule)
        merged = replace(merged, rules=rules)
        if into != name and not again and not overwrite:
            stored = await query_sets.load(store, view.name, name=into)
            if lost := _lost(stored, merged.labelled):
                raise WouldOverwrite(
                    f"The query set {into!r} is there already, and not as a merge from {name!r} left it: {lost} would "
                    "be lost. Choose another name, or say that it may be overwritten."
                )
        of = MergedFrom(query_set=name, splits=rules) if into != name else None
        cause = Cause(author, f"judgements merged with {name!r}, into {split!r}")
        return merged, await query_sets.keep(store, view.name, merged.labelled, name=into, merged=of, cause=cause)


def remerged_splits(merged: MergedLabels, split: str) -> str:
    """A sentence that names the other splits, which were merged anew; empty if there are none."""
    others = ", ".join(f"{other!r}{rule}" for other, rule in sorted(merged.rules.items()) if other != split)
    return f"Made anew as before: {others}." if others else ""


def _lost(stored: LabelledQueries, merged: LabelledQueries) -> str:
    """What the stored set has and the merged one has not, in words; empty if nothing."""
    queries = stored.queries and stored.queries != merged.queries
    parts = [f"its choice of {len(stored.queries):,} queries"] if queries else []
    for what in ("labels", "spans", "exclusions"):
        old, new = set(getattr(stored, what)), set(getattr(merged, what))
        if gone := len(old - new):
            parts.append(f"{gone:,} of its {len(old):,} {what}")
    return " and ".join(parts)
