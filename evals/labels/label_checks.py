"""Checks of queries, labels, spans and exclusions against the items; a row that cannot be used becomes a flaw.

A bad row never raises. Checks over the whole corpus are in `evals.labels.corpus_checks`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from core.errors import InputError
from core.types import Flaw, Place, Query, Row
from evals.types import Exclusion, Label, LabelledQueries, Span

USUAL_GRADE = 3  # the highest grade of the usual scale, which begins at 0; a higher one may be of another scale
DEFAULT_MAX_GRADE = 10  # nDCG's gain may be 2**grade - 1: a higher grade is a slip or of another scale
_EXAMPLES = 5
T = TypeVar("T")


class UnusualGrades(InputError):
    """Grades beyond 0 to 3 that nobody has confirmed."""


@dataclass(frozen=True, slots=True)
class CheckedLabels:
    """The rows that can be used, and flaws about the rest. `unlabelled` are ids of queries without any judgement.

    `unusual` counts the grades beyond 0 to 3, with those that were left out or raised to 0.
    """

    queries: tuple[Row[Query], ...]
    labels: tuple[Row[Label], ...]
    spans: tuple[Row[Span], ...]
    exclusions: tuple[Row[Exclusion], ...]
    unlabelled: tuple[str, ...]
    flaws: tuple[Flaw, ...]
    unusual: Mapping[int, int] = field(default_factory=dict)

    def labelled_queries(self) -> LabelledQueries:
        """The values without the places where they were read."""
        return LabelledQueries.ordered(
            (row.value for row in self.queries),
            (row.value for row in self.labels),
            (row.value for row in self.spans),
            (row.value for row in self.exclusions),
        )


def unusual_sentence(unusual: Mapping[int, int]) -> str:
    """`-1 (2 labels, counted as 0), 5 (1 label)`."""
    parts = []
    for grade, count in sorted(unusual.items()):
        fate = ", counted as 0" if grade < 0 else ", left out" if grade > DEFAULT_MAX_GRADE else ""
        parts.append(f"{grade} ({count:,} label{'' if count == 1 else 's'}{fate})")
    return ", ".join(parts[:_EXAMPLES]) + (", ..." if len(parts) > _EXAMPLES else "")


def refuse_unusual(unusual: Mapping[int, int]) -> None:
    """Raise if there are unusual grades; called where nobody has confirmed them."""
    if unusual:
        raise UnusualGrades(
            f"There are grades beyond 0 to {USUAL_GRADE}: {unusual_sentence(unusual)}. A higher grade counts for more "
            "in nDCG than all that is on the usual scale. Nothing was changed. If they are meant so, say it: "
            "`--all-grades` in a command, `all_grades=True` in Python, a tick on the page."
        )


def check_labels(
    queries: Iterable[Row[Query] | Flaw],
    labels: Iterable[Row[Label] | Flaw] = (),
    spans: Iterable[Row[Span] | Flaw] = (),
    exclusions: Iterable[Row[Exclusion] | Flaw] = (),
    *,
    has_item: Callable[[str], bool],
    item_text: Callable[[str], str | None] | None = None,
    max_grade: int = DEFAULT_MAX_GRADE,
) -> CheckedLabels:
    """Check a source's own iterators. Flaws among them are passed on; without `item_text` spans are not compared."""
    check = _LabelCheck(has_item, item_text, max_grade)
    check.add_queries(queries)
    check.add_labels(labels)
    check.add_spans(spans)
    check.add_exclusions(exclusions)
    check.note_splits()
    check.note_high_grades()
    return CheckedLabels(
        tuple(check.queries.values()),
        tuple(check.labels.values()),
        tuple(check.spans.values()),
        tuple(check.exclusions.values()),
        tuple(check.unlabelled()),
        tuple(check.flaws),
        dict(check.unusual),
    )


@dataclass
class _LabelCheck:
    has_item: Callable[[str], bool]
    item_text: Callable[[str], str | None] | None
    max_grade: int
    flaws: list[Flaw] = field(default_factory=list)
    queries: dict[str, Row[Query]] = field(default_factory=dict)
    labels: dict[tuple[str, str, str], Row[Label]] = field(default_factory=dict)
    spans: dict[Span, Row[Span]] = field(default_factory=dict)
    exclusions: dict[Exclusion, Row[Exclusion]] = field(default_factory=dict)
    unusual: Counter[int] = field(default_factory=Counter)

    def usable(self, rows: Iterable[Row[T] | Flaw]) -> Iterator[Row[T]]:
        """The rows; flaws among them join the other flaws."""
        for row in rows:
            if isinstance(row, Flaw):
                self.flaws.append(row)
            else:
                yield row

    def add_queries(self, rows: Iterable[Row[Query] | Flaw]) -> None:
        texts: dict[str, str] = {}
        for row in self.usable(rows):
            query, first = row.value, self.queries.get(row.value.id)
            if first is not None:
                self.drop(
                    row.place, f"The query id {query.id!r} is taken by {first.place}; the first was kept.", query.id
                )
            elif not query.text.strip():
                self.drop(row.place, f"The query {query.id!r} is empty.", query.id)
            else:
                self.queries[query.id] = row
                twin = texts.setdefault(query.text.strip(), query.id)
                if twin != query.id:
                    self.note(row.place, f"The query {query.id!r} has the same text as {twin!r}.", query.id)

    def add_labels(self, rows: Iterable[Row[Label] | Flaw]) -> None:
        for row in self.usable(rows):
            if self.is_known(row.value.query_id, row.value.item_id, row.place) and (kept := self.on_scale(row)):
                self.keep_label(kept)

    def on_scale(self, row: Row[Label]) -> Row[Label] | None:
        grade: object = row.value.grade
        if not isinstance(grade, int) or isinstance(grade, bool):
            self.drop(row.place, f"The grade is {grade!r:.40}; a whole number was expected.", row.value.query_id)
            return None
        if not 0 <= grade <= USUAL_GRADE:
            self.unusual[grade] += 1
        if grade > self.max_grade:
            message = f"The grade is {grade}; 0 to {self.max_grade} are allowed. Bring your scale down to that."
            self.drop(row.place, message, row.value.query_id)
            return None
        if grade >= 0:
            return row
        # TREC's web tracks use -1 and -2 for junk and spam, which are judged and not relevant.
        self.clean(
            row.place, f"The grade {grade} is negative; it counts as 0, judged not relevant.", row.value.query_id
        )
        return Row(replace(row.value, grade=0), row.place)

    def keep_label(self, row: Row[Label]) -> None:
        """Of conflicting grades the highest is kept: judges miss an answer more often than they invent one."""
        label = row.value
        key = (label.split, label.query_id, label.item_id)
        first = self.labels.setdefault(key, row)
        if first is row:
            return
        pair = f"{label.query_id!r} and {label.item_id!r} are judged a second time in split {label.split!r}"
        if first.value.grade == label.grade:
            self.note(row.place, f"{pair}, with the same grade; the two were merged.", label.query_id)
            return
        best = max(first.value.grade, label.grade)
        message = f"{pair}: {first.value.grade} at {first.place}, {label.grade} here. The higher, {best}, was kept."
        self.clean(row.place, message, label.query_id)
        if label.grade == best:
            self.labels[key] = row

    def add_spans(self, rows: Iterable[Row[Span] | Flaw]) -> None:
        for row in self.usable(rows):
            span = row.value
            if not self.is_known(span.query_id, span.item_id, row.place) or (kept := self.at_its_text(row)) is None:
                continue
            if kept.value in self.spans:
                self.note(row.place, "The span stands there twice; the two were merged.", span.query_id)
            self.spans.setdefault(kept.value, kept)

    def at_its_text(self, row: Row[Span]) -> Row[Span] | None:
        span = row.value
        if not 0 <= span.start < span.end:
            message = f"The span runs from {span.start} to {span.end}; 0 <= start < end was expected."
            self.drop(row.place, message, span.query_id)
            return None
        text = self.item_text(span.item_id) if self.item_text else None
        if text is None or text[span.start : span.end] == span.text:
            return row
        at = text.find(span.text) if span.text else -1
        if at < 0 or text.find(span.text, at + 1) >= 0:
            there = text[span.start : span.end]
            message = (
                f"The span says {span.text!r:.50}, and {span.item_id!r} has {there!r:.50} at {span.start}:{span.end}."
            )
            self.drop(row.place, message, span.query_id)
            return None
        moved = replace(span, start=at, end=at + len(span.text))
        message = f"The span's text stands at {moved.start}:{moved.end}, not at {span.start}:{span.end}; it was moved."
        self.clean(row.place, message, span.query_id)
        return Row(moved, row.place)

    def add_exclusions(self, rows: Iterable[Row[Exclusion] | Flaw]) -> None:
        relevant = {(query, item) for (_, query, item), row in self.labels.items() if row.value.grade > 0}
        for row in self.usable(rows):
            pair = row.value
            if not self.is_known(pair.query_id, pair.item_id, row.place):
                continue
            if pair in self.exclusions:
                self.note(row.place, f"{pair.item_id!r} is excluded twice; the two were merged.", pair.query_id)
            elif (pair.query_id, pair.item_id) in relevant:
                message = (
                    f"{pair.item_id!r} is excluded for {pair.query_id!r} and judged relevant to it; it is excluded."
                )
                self.note(row.place, message, pair.query_id)
            self.exclusions.setdefault(pair, row)

    def is_known(self, query_id: str, item_id: str, place: Place) -> bool:
        if query_id not in self.queries:
            self.drop(place, f"The query {query_id!r:.80} is not among the queries, or was left out itself.", query_id)
        elif not self.has_item(item_id):
            self.drop(place, f"The document {item_id!r:.80} is not in the collection, or was left out itself.", item_id)
        else:
            return True
        return False

    def note_splits(self) -> None:
        """Queries without use, only counted: of the 808,731 of MS MARCO most have no judgement in a given split."""
        if missing := self.unlabelled():
            message = f"{_several(missing)} no judgement in any split and will not be scored."
            self.note(self.queries[missing[0]].place, message, missing[0])
        best: dict[str, dict[str, int]] = defaultdict(dict)
        for (split, query, _), row in self.labels.items():
            best[split][query] = max(row.value.grade, best[split].get(query, 0))
        for split, grades in best.items():
            if hopeless := [query for query, grade in grades.items() if grade == 0]:
                message = f"{_several(hopeless)} nothing relevant in split {split!r}: no ranking can score there."
                self.note(self.queries[hopeless[0]].place, message, hopeless[0])
        for one, other in combinations(best, 2):
            if shared := [query for query in best[one] if query in best[other]]:
                message = (
                    f"{_several(shared)} judgements in {one!r} and in {other!r}: tuning on one leaks into the other."
                )
                self.note(self.queries[shared[0]].place, message, shared[0])

    def note_high_grades(self) -> None:
        """Grades above the usual scale that count as they are; each lower or much higher one has a flaw already."""
        high = [row for row in self.labels.values() if row.value.grade > USUAL_GRADE]
        if high:
            counts = unusual_sentence(Counter(row.value.grade for row in high))
            message = (
                f"Grades beyond 0 to {USUAL_GRADE} count as they are: {counts}. Check that they are of this scale."
            )
            self.note(high[0].place, message, high[0].value.query_id)

    def unlabelled(self) -> list[str]:
        labelled = {query for _, query, _ in self.labels}
        return [query for query in self.queries if query not in labelled]

    def drop(self, place: Place, message: str, subject: str) -> None:
        self.flaws.append(Flaw(place, message, "quarantined", subject))

    def clean(self, place: Place, message: str, subject: str) -> None:
        self.flaws.append(Flaw(place, message, "cleaned", subject))

    def note(self, place: Place, message: str, subject: str) -> None:
        self.flaws.append(Flaw(place, message, "noted", subject))


def _several(ids: list[str]) -> str:
    named = ", ".join(f"{query!r:.40}" for query in ids[:_EXAMPLES]) + (", ..." if len(ids) > _EXAMPLES else "")
    return f"The query {named} has" if len(ids) == 1 else f"{len(ids):,} queries ({named}) have"
