"""Two systems over the same queries in every detail; many against a baseline; all pairs of a table.

Intervals, p values and verdicts of all that is looked at together come of one procedure (`simultaneous`), so that they
never contradict each other. It must not know where scores come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, UnknownName
from evals.statistics import significance
from evals.statistics.significance import Floats
from evals.statistics.simultaneous import Simultaneous, simultaneous, simultaneous_pairs
from evals.statistics.verdicts import Difference, Finding, Rules, alongside_best, found

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
class PairComparison:
    """A system against a baseline. `queries` by falling difference, then id; those of weight 0 are left out.

    `groups` are looked at together. `deciding` are the queries of the largest influence on the mean difference.
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

    def undecided(self, why: str) -> PairComparison:
        """The same without a verdict, on the whole and on every group."""
        groups = tuple(replace(each, finding=each.finding.undecided(why)) for each in self.groups)
        return replace(self, finding=self.finding.undecided(why), groups=groups)

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
    """Every pair of systems, looked at together. `rows` are the scores [systems, queries]."""

    names: tuple[str, ...]
    rows: Floats = field(repr=False)
    weights: Floats | None = field(repr=False)
    rules: Rules
    together: Simultaneous | None = field(repr=False)

    def of(self, system: str, baseline: str) -> Finding:
        """The finding on that system against that baseline, whichever came first."""
        row, column = self._place(system), self._place(baseline)
        if row == column:
            raise InputError(f"{system!r} cannot be compared with itself; name two systems.")
        low, high = min(row, column), max(row, column)
        difference = (self.rows[low] - self.rows[high])[None, :]
        at = _pair_index(low, high, len(self.names))
        one = None if self.together is None else _entry(self.together, at)
        pair = (self.names[low], self.names[high])
        among = len(self.names) * (len(self.names) - 1) // 2
        (made,) = _differences([pair], difference, self.weights, self.rules, one, among)
        return found(made if row < column else made.flipped(), self.rules)

    def best(self, sure: Collection[Names] = (), among: Collection[str] | None = None) -> tuple[str, ...]:
        """The systems, by default of all, that none of the others starred is surely better than, by falling mean.

        `sure` are pairs of which the first was found better where fewer were looked at together, as beside a baseline.
        """
        means = significance.means(self.rows, self.weights)
        every = dict(zip(self.names, np.where(np.isnan(means), -np.inf, means).tolist(), strict=True))
        known = every if among is None else {name: every[name] for name in among}
        worth = significance.effective_queries(self.weights, self.rows.shape[1])
        together = self.together if worth >= self.rules.fewest - 1e-9 else None

        def surely_better(system: str, baseline: str) -> bool:
            if (system, baseline) in sure:
                return True
            if together is None:
                return False
            row, column = self._place(system), self._place(baseline)
            at = _pair_index(min(row, column), max(row, column), len(self.names))
            return bool(together.low[at] > 0 if row < column else together.high[at] < 0)

        return alongside_best(known, surely_better)

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
    kept, counts = significance.checked(rows, weights)  # names the system; a difference could not
    together = None
    if len(names) > 1 and counts.size > 1:
        terms, worth = kept * counts / counts.sum(), significance.effective(counts)
        together = simultaneous_pairs(terms, worth, level=rules.level, samples=rules.samples, seed=rules.seed)
    given = None if weights is None else np.asarray(weights, dtype=np.float64)
    return Pairs(tuple(names), rows, given, rules, together)


def findings(
    names: Sequence[Names],
    differences: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    rules: Rules = DEFAULT_RULES,
) -> list[Finding]:
    """Each row of differences [pairs, queries] judged under its pair of names, all of them looked at together."""
    rows = np.asarray(differences, dtype=np.float64)
    if not len(names):
        return []
    kept, counts = significance.checked(rows, weights)
    together = None
    if counts.size > 1:
        terms, worth = kept * counts / counts.sum(), np.full(len(kept), significance.effective(counts))
        together = simultaneous(terms, worth, level=rules.level, samples=rules.samples, seed=rules.seed)
    given = None if weights is None else np.asarray(weights, dtype=np.float64)
    return [found(each, rules) for each in _differences(names, rows, given, rules, together, len(rows))]


def compare(
    names: Names,
    scores: ArrayLike,
    queries: Sequence[str],
    weights: ArrayLike | None = None,
    *,
    groups: Groups | None = None,
    rules: Rules = DEFAULT_RULES,
    deciding: int = DECIDING,
    finding: Finding | None = None,
) -> PairComparison:
    """The first of two systems against the second, by scores [2, queries] in the order of `queries`.

    `groups` are ids by what they have in common, as {"kind": split.kinds, "tag": split.tags}; an id that was not
    scored (it has no labels) counts in none of them. `finding` is what is said of the two where they are looked at
    among others; without it, they are looked at alone.
    """
    rows = np.asarray(scores, dtype=np.float64)
    _check_names(names, rows)
    significance.checked(rows, weights)
    if rows.shape[1] != len(queries) or len(set(queries)) != len(queries):
        raise InputError(f"{len(queries)} query ids, {len(set(queries))} of them distinct, for {rows.shape[1]} scores.")
    difference = (rows[0] - rows[1])[None, :]
    each = _by_query(queries, difference, weights)
    ranked = sorted(
        (query for query in each if query.influence), key=lambda query: (-abs(query.influence), query.query)
    )
    return PairComparison(
        system=names[0],
        baseline=names[1],
        finding=finding or findings([names], difference, weights, rules=rules)[0],
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
    """Each group's queries by themselves; signs are drawn by query, for all groups that it is in."""
    labels = [(by, group) for by in groups for group in groups[by]]
    if not labels:
        return ()
    counts = np.ones(len(queries)) if weights is None else np.asarray(weights, dtype=np.float64)
    place = {query: at for at, query in enumerate(queries)}
    within = np.zeros((len(labels), len(queries)))
    for row, (by, group) in enumerate(labels):
        within[row, [place[query] for query in set(groups[by][group]) if query in place]] = 1.0
    parts = within * counts
    enough = [at for at, part in enumerate(parts) if np.count_nonzero(part) > 1]
    together: dict[int, Simultaneous] = {}
    if enough:
        chosen = parts[enough]
        terms = chosen * difference / chosen.sum(axis=1, keepdims=True)
        worth = np.array([significance.effective(part[part > 0]) for part in chosen])
        made = simultaneous(terms, worth, level=rules.level, samples=rules.samples, seed=rules.seed)
        together = {at: _entry(made, number) for number, at in enumerate(enough)}
    judged = []
    for at, ((by, group), part) in enumerate(zip(labels, parts, strict=True)):
        own = part > 0
        (numbers,) = _differences([names], difference[:, own], part[own], rules, together.get(at), len(enough))
        judged.append(GroupFinding(by, group, found(numbers, rules)))
    return tuple(judged)


def _entry(made: Simultaneous, at: int) -> Simultaneous:
    return Simultaneous(made.means[[at]], made.errors[[at]], made.critical, made.p[[at]])


def _differences(
    names: Sequence[Names],
    differences: Floats,
    weights: Floats | None,
    rules: Rules,
    together: Simultaneous | None,
    among: int,
) -> list[Difference]:
    """Each row's numbers; `together` has those that come of looking at all at once, where there are enough queries."""
    queries = int(_counting(weights, differences.shape[1]).sum())
    means, effects = significance.means(differences, weights), significance.effect_sizes(differences, weights)
    outcomes = significance.outcomes(differences, weights).tolist()
    worth = significance.effective_queries(weights, differences.shape[1])
    # The smallest true difference that would be found with the rules' power: half the interval's width, and what
    # chance may take away. NaN where nothing varies.
    detectable = np.full(len(differences), np.nan)
    if together is not None:
        from scipy import special

        errors = significance.standard_errors(differences, weights)
        lost = special.stdtrit(max(worth - 1, 1e-9), rules.power) * errors
        rows, _ = significance.checked(differences, weights)
        varies = errors > 1e-12 * np.abs(rows).max(axis=1)
        detectable = np.where(varies, together.critical * together.errors + lost, np.nan)
    finite = significance.finite
    return [
        Difference(
            *pair,
            queries=queries,
            effective=worth,
            mean=finite(means[at]),
            low=None if together is None else finite(together.low[at]),
            high=None if together is None else finite(together.high[at]),
            p=1.0 if together is None else float(together.p[at]),
            effect=finite(effects[at]),
            wins=outcomes[at][0],
            ties=outcomes[at][1],
            losses=outcomes[at][2],
            detectable=finite(detectable[at]),
            among=among,
        )
        for at, pair in enumerate(names)
    ]


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
