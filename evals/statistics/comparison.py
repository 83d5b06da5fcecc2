"""Two systems over the same queries, looked at from every side; and all pairs of a suite at once.

Owns what is compared and what is corrected together; it must not know where scores come from. Plain values out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, UnknownName
from evals.statistics import bootstrap, significance
from evals.statistics.correction import corrected
from evals.statistics.significance import Floats
from evals.statistics.verdicts import Difference, Finding, Rules, Verdict, alongside_best, found

Names = tuple[str, str]
Groups = Mapping[str, Mapping[str, Sequence[str]]]
DECIDING = 10
DEFAULT_RULES = Rules()


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """What one query's scores differ by, and how the mean difference would change without it: by -`influence`."""

    query: str
    difference: float
    weight: float
    influence: float


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """The finding over the queries of one group: `by` is "kind", "tag" or the like, `group` its value."""

    by: str
    group: str
    finding: Finding


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A system against a baseline. `queries` by falling difference, then id; those of weight 0 are left out.

    `groups` are corrected for each other. `deciding` are the queries of the largest influence on the mean difference.
    """

    system: str
    baseline: str
    finding: Finding
    queries: tuple[QueryDifference, ...]
    groups: tuple[GroupFinding, ...]
    deciding: tuple[QueryDifference, ...]

    def __repr__(self) -> str:
        """What was found, in sentences: the whole of it, then each group that says something of its own."""
        groups = (f"{each.by} {each.group or '(none)'}: {each.finding.sentence}" for each in self.groups)
        return "\n".join((self.finding.sentence, *groups))

    @property
    def wins(self) -> int:
        return self.finding.difference.wins

    @property
    def ties(self) -> int:
        return self.finding.difference.ties

    @property
    def losses(self) -> int:
        return self.finding.difference.losses


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs of a suite, each judged once, in the order of the names and corrected for all the others."""

    names: tuple[str, ...]
    means: tuple[float | None, ...]
    findings: tuple[Finding, ...]
    rules: Rules

    def of(self, system: str, baseline: str) -> Finding:
        """The finding on that system against that baseline, whichever came first."""
        row, column = self._place(system), self._place(baseline)
        if row == column:
            raise InputError(f"{system!r} cannot be compared with itself; name two systems.")
        kept = self.findings[_pair_index(min(row, column), max(row, column), len(self.names))]
        return kept if row < column else found(kept.difference.flipped(), self.rules)

    def matrix(self, what: Literal["mean", "low", "high", "p", "corrected", "effect", "detectable"]) -> Floats:
        """That number of each row against each column: [systems, systems]. NaN is not known, and the diagonal."""
        cells = np.full((len(self.names), len(self.names)), np.nan)
        for (row, column), finding in zip(combinations(range(len(self.names)), 2), self.findings, strict=True):
            cells[row, column] = _number(getattr(finding.difference, what))
            cells[column, row] = _number(getattr(finding.difference.flipped(), what))
        return cells

    def verdicts(self) -> tuple[tuple[Verdict | None, ...], ...]:
        """Of each row against each column; None on the diagonal."""
        cells: list[list[Verdict | None]] = [[None] * len(self.names) for _ in self.names]
        for (row, column), finding in zip(combinations(range(len(self.names)), 2), self.findings, strict=True):
            cells[row][column], cells[column][row] = finding.verdict, finding.verdict.opposite
        return tuple(map(tuple, cells))

    def best(self) -> tuple[str, ...]:
        """The systems that cannot be told from the best, itself first."""
        means = {name: -np.inf if mean is None else mean for name, mean in zip(self.names, self.means, strict=True)}
        return alongside_best(means, lambda one, other: self.of(one, other).verdict)

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise UnknownName("system in this comparison", name, self.names)
        return self.names.index(name)


def all_pairs(
    names: Sequence[str], scores: ArrayLike, weights: ArrayLike | None = None, *, rules: Rules = DEFAULT_RULES
) -> Pairs:
    """Every pair of systems by scores [systems, queries]. One system alone has no pairs, and is the best."""
    rows = np.asarray(scores, dtype=np.float64)
    _check_names(names, rows)
    significance.checked(rows, weights)  # names the system; a difference could not
    means = tuple(map(significance.finite, significance.means(rows, weights)))
    pairs = list(combinations(range(len(names)), 2))
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    named = [(names[row], names[column]) for row, column in pairs]
    judged = findings(named, rows[first] - rows[second], weights, rules=rules)
    return Pairs(tuple(names), means, tuple(judged), rules)


def findings(
    names: Sequence[Names], differences: ArrayLike, weights: ArrayLike | None = None, *, rules: Rules = DEFAULT_RULES
) -> list[Finding]:
    """Each row of differences [pairs, queries] judged under its pair of names, and corrected for all the others."""
    rows = np.asarray(differences, dtype=np.float64)
    if not len(names):
        return []
    return _together(_numbers(names, rows, weights, rules, len(names)), rules)


def compare(
    names: Names,
    scores: ArrayLike,
    queries: Sequence[str],
    weights: ArrayLike | None = None,
    *,
    groups: Groups | None = None,
    rules: Rules = DEFAULT_RULES,
    deciding: int = DECIDING,
) -> Comparison:
    """The first of two systems against the second, by scores [2, queries] in the order of `queries`.

    `groups` are ids by what they have in common, as {"kind": split.kinds, "tag": split.tags}; an id that was not
    scored (it has no labels) counts in none of them.
    """
    rows = np.asarray(scores, dtype=np.float64)
    _check_names(names, rows)
    significance.checked(rows, weights)
    if rows.shape[1] != len(queries) or len(set(queries)) != len(queries):
        raise InputError(f"{len(queries)} query ids, {len(set(queries))} of them distinct, for {rows.shape[1]} scores.")
    difference = (rows[0] - rows[1])[None, :]
    finding = findings([names], difference, weights, rules=rules)[0]
    each = _by_query(queries, difference, weights)
    ranked = sorted(
        (query for query in each if query.influence), key=lambda query: (-abs(query.influence), query.query)
    )
    return Comparison(
        system=names[0],
        baseline=names[1],
        finding=finding,
        queries=tuple(each),
        groups=_by_group(names, queries, difference, weights, groups or {}, rules),
        deciding=tuple(ranked[:deciding]),
    )


def _by_query(queries: Sequence[str], difference: Floats, weights: ArrayLike | None) -> list[QueryDifference]:
    """Influence: the mean minus the mean without the query, w (d - mean) / (sum of w - w). A lone query has none."""
    (row,), counts = significance.checked(difference, weights)
    kept = np.array(queries, dtype=object)[_counting(weights, len(queries))]
    if not counts.size:
        return []
    others = counts.sum() - counts
    moved = counts * (row - significance.means(row[None, :], counts)[0])
    influence = np.divide(moved, others, out=np.zeros(counts.size), where=others > 0)
    influence[np.abs(influence) < 1e-12] = 0.0  # what rounding leaves of none
    made = map(QueryDifference, kept, row.tolist(), counts.tolist(), influence.tolist())
    return sorted(made, key=lambda query: (-query.difference, query.query))


def _by_group(
    names: Names, queries: Sequence[str], difference: Floats, weights: ArrayLike | None, groups: Groups, rules: Rules
) -> tuple[GroupFinding, ...]:
    counting = _counting(weights, len(queries))
    place = {query: at for at, query in enumerate(queries) if counting[at]}
    labels = [(by, group) for by in groups for group in groups[by]]
    chosen = [sorted(place[query] for query in set(groups[by][group]) if query in place) for by, group in labels]
    among = sum(_testable(len(each), rules) for each in chosen)
    counts = None if weights is None else np.asarray(weights, dtype=np.float64)
    differences = [
        _numbers([names], difference[:, each], None if counts is None else counts[each], rules, among)[0]
        for each in chosen
    ]
    findings = _together(differences, rules)
    return tuple(GroupFinding(by, group, finding) for (by, group), finding in zip(labels, findings, strict=True))


def _numbers(
    names: Sequence[Names], differences: Floats, weights: ArrayLike | None, rules: Rules, among: int
) -> list[Difference]:
    """Each row's numbers, of as many as are to be corrected together."""
    queries = int(_counting(weights, differences.shape[1]).sum())
    family = among if _testable(queries, rules) and rules.correction != "none" else 1
    low, high = bootstrap.intervals(differences, weights, samples=rules.samples, level=rules.level, seed=rules.seed)
    seen = significance.detectable(differences, weights, alpha=rules.alpha / family, power=rules.power)
    means, effects = significance.means(differences, weights), significance.effect_sizes(differences, weights)
    outcomes = significance.outcomes(differences, weights).tolist()
    values = _tested(differences, weights, rules, family).tolist()
    worth = significance.effective_queries(weights, differences.shape[1])
    return [
        Difference(
            *pair,
            queries=queries,
            effective=worth,
            mean=significance.finite(means[at]),
            low=significance.finite(low[at]),
            high=significance.finite(high[at]),
            p=values[at],
            corrected=values[at],
            effect=significance.finite(effects[at]),
            wins=outcomes[at][0],
            ties=outcomes[at][1],
            losses=outcomes[at][2],
            detectable=significance.finite(seen[at]),
            among=family,
        )
        for at, pair in enumerate(names)
    ]


def _tested(differences: Floats, weights: ArrayLike | None, rules: Rules, family: int) -> Floats:
    """With so many samples that the smallest p there can be stays a quarter of the level when it is corrected."""
    if rules.test == "wilcoxon":
        return significance.wilcoxon(differences, weights)
    samples = max(rules.samples, math.ceil(4 * family / rules.alpha))
    return significance.permutation(differences, weights, samples=samples, seed=rules.seed)


def _together(differences: Sequence[Difference], rules: Rules) -> list[Finding]:
    """Judged after correction. What has too few queries for any test to find is no part of it (Tarone 1990)."""
    tested = [_testable(difference.queries, rules) for difference in differences]
    values = np.array([difference.p for difference in differences])
    values[tested] = corrected(values[tested], rules.correction)
    return [
        found(replace(difference, corrected=value), rules)
        for difference, value in zip(differences, values.tolist(), strict=True)
    ]


def _testable(queries: int, rules: Rules) -> bool:
    """Of n signs, all alike is the furthest there is: 2 of 2^n arrangements."""
    return math.ldexp(1.0, 1 - queries) < rules.alpha


def _counting(weights: ArrayLike | None, queries: int) -> NDArray[np.bool_]:
    return np.ones(queries, dtype=bool) if weights is None else np.asarray(weights, dtype=np.float64) > 0


def _check_names(names: Sequence[str], rows: Floats) -> None:
    if len(set(names)) != len(names):
        raise InputError(f"Each system must have a name of its own; these are: {', '.join(names)}.")
    if rows.ndim != 2 or len(rows) != len(names):
        raise InputError(
            f"There must be one row of scores for each of {len(names)} systems; the shape is {rows.shape}."
        )


def _pair_index(row: int, column: int, systems: int) -> int:
    """Where the pair stands among combinations(range(systems), 2)."""
    return row * systems - row * (row + 1) // 2 + column - row - 1


def _number(value: float | None) -> float:
    return math.nan if value is None else value
