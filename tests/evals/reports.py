"""Reports made by hand: a plausible evaluation, and one in which every text tries to be something else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from core.fusion import LinearFusion, RrfFusion
from core.store.passages import ItemText
from core.types import Query
from core.variant import Variant
from evals.evaluation.board import Board
from evals.reports import Part, Report, report
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.statistics.verdicts import Rules
from evals.suites.gate import Check
from evals.tuning import surface as tuning_surface
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningProcedure, TuningResult, tune
from evals.types import QuerySplit

SCRIPT = "<script>window.harmed = true</script><img src=x onerror='window.harmed = true'>"
SIGNS = "| a\\b & %{x} $x$ #1 _i_ ^2 ~ *b* `c` [l](javascript:alert(1)) -- '' \u2028 \u202e \ud800 \x07"
HOSTILE = f"</script><!-- {SCRIPT} --> {SIGNS}"
VARIANT = Variant.from_data({"name": "bm25", "top_k": 10, "leg": [{"kind": "bm25"}]})
MADE_WITH = {
    "code": "v0.2.0-14-gabc1234",
    "machine": {"processor": "AMD EPYC 7B13", "cores": 2, "system": "Linux-6.6 x86_64"},
    "server": {"version": "18.1"},
    "indexes": {"bm25": 41_000_000, "vector": 77_500_000},
    "own indexes": ["bm25"],
}
NAMES = ("bm25", "vector", "hybrid rrf", "hybrid linear 0.65 / 0.35", "hybrid, reranked", "fulltext")
SKILL = (0.45, 0.5, 0.66, 0.68, 0.69, 0.28)
RULES = Rules(samples=500)


def split(
    queries: int, labelled: int = 6, text: str = "How do I reset hub {} that sits behind the dashboard?"
) -> QuerySplit:
    ids = [f"q{number:04}" for number in range(queries)]
    kinds = ("question", "keywords", "identifier", "misspelling")
    return QuerySplit(
        "test",
        {each: Query(each, text.format(at), kinds[at % 4], ("hub",) if at % 3 else ("hub", "reset"))
         for at, each in enumerate(ids)},
        {each: {f"d{(at * 7 + k) % 400:03}": (2 if k == 0 else 1 if k < 3 else 0) for k in range(labelled)}
         for at, each in enumerate(ids)},
        digest=bytes(range(16)),
    )  # fmt: skip


def runs(of: QuerySplit, names: Sequence[str] = NAMES, skill: Sequence[float] = SKILL, **options: Any) -> list[Run]:
    """Rankings in which the better system more often has relevant items early."""
    subject = RunSubject(options.pop("collection", "handbook"), 3, "default", of.digest, of.name, "c0ffee" * 5)
    made = []
    for number, name in enumerate(names):
        random = np.random.default_rng(number)
        rankings = {query: _ranked(given, skill[number % len(skill)], random) for query, given in of.grades.items()}
        times = dict(zip(of.queries, random.gamma(4, 2 + 5 * number, len(of.queries)).tolist(), strict=True))
        made.append(
            Run(
                name,
                subject,
                rankings,
                VARIANT.but(name=name),
                milliseconds=times,
                timed=tuple(of.queries)[:20] if number != 1 else (),
                environment=MADE_WITH,
                made_at=datetime(2026, 11, 18, 12, number % 60, tzinfo=UTC),
                id=f"id of {name}",
                **options,
            )
        )
    return made


def _ranked(given: Any, skill: float, random: np.random.Generator) -> Ranking:
    others = [f"d{number:03}" for number in random.choice(400, 10, replace=False)]
    first = [item for item in given if random.random() < skill]
    ids = tuple(dict.fromkeys([*(first if random.random() < skill else others[:3]), *others, *first]))[:10]
    return Ranking(ids, tuple(map(float, range(len(ids), 0, -1))))


def documents(text: str = "Hold the button for ten seconds until the light blinks twice, then let go of it. ") -> Any:
    return {f"d{number:03}": ItemText(f"d{number:03}", f"Reset of hub {number}", text * 4) for number in range(400)}


def surface(legs: Sequence[str], steps: int, fusion: Any = None, seed: int = 0, queries: int = 80) -> Surface:
    """A hill with its top off the centre."""
    random = np.random.default_rng(seed)
    grid = tuning_surface.points(len(legs), steps)
    top = np.array([5, 3, 2, 1][: len(legs)]) / sum([5, 3, 2, 1][: len(legs)])
    away = np.abs(grid / steps - top).sum(axis=1)
    values = np.clip(
        0.72
        - 0.25 * away[:, None] ** 2
        + random.normal(0, 0.1, queries)
        + random.normal(0, 0.02, (len(grid), queries)),
        0,
        1,
    )
    return Surface(
        tuple(legs),
        fusion or RrfFusion(),
        steps,
        grid,
        tuple(f"q{number:04}" for number in range(queries)),
        np.ones(queries),
        ("",) * queries,
        "ndcg@10",
        values,
        values[int(tuning_surface.from_centre(grid).argmin())],
    )


def tuned(legs: Sequence[str] = ("vector", "bm25"), steps: int = 20) -> TuningResult:
    given = [surface(legs, steps), surface(legs, steps, LinearFusion(), seed=1)]
    return tune(given, TuningProcedure(folds=3, repeats=2, samples=200))


def part(queries: int = 60, **options: Any) -> Part:
    of = split(queries)
    made = runs(of)
    made[5] = Run(**{**_fields(made[5]), "failures": {"q0007": "The statement took longer than 5 s."}})
    flaw = {"of": "leaks", "subject": "q0003", "message": "the query stands word for word in d014"}
    board = Board(of, made, ("ndcg@10", "recall@10", "mrr@10"), baseline="bm25", rules=RULES, flaws=[flaw])
    tunings = {"hybrid linear": tuned(), "three legs": tuned(("vector", "bm25", "fulltext"), 14)}
    return Part(board, **{"tunings": tunings, "documents": documents(), "plan": "6 variants -> 3 leg runs", **options})


def _fields(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__dataclass_fields__}


def plausible() -> Report:
    checks = [
        Check("handbook", "hybrid rrf", "ndcg@10 at least", "0.6412", "0.6", "passed", "+0.0412"),
        Check("handbook", "fulltext", "ndcg@10 against bm25", "-0.1210", "-0.02 or more", "failed", "It is worse."),
    ]
    return report(
        [part()],
        checks=checks,
        title="Which hybrid for the handbook?",
        description="Six variants over the handbook's test split.",
        command="rankbook suite run handbook.toml",
        files={"handbook.toml": 'name = "handbook"\n'},
    )


def hostile() -> Report:
    """The same hostile text as every id, name, query, document, reason, note and title."""
    of = QuerySplit(
        HOSTILE,
        {f"{HOSTILE}{n}": Query(f"{HOSTILE}{n}", HOSTILE, HOSTILE + "k" * (n % 2), (HOSTILE,)) for n in range(4)},
        {f"{HOSTILE}{n}": {HOSTILE: 2, "other": 0} for n in range(4)},
        digest=b"x",
    )
    subject = RunSubject(HOSTILE, 1, HOSTILE, b"x", HOSTILE, HOSTILE)
    ranked = Ranking((HOSTILE, "other", f"{HOSTILE}!"), (3.0, 2.0, 1.0))
    made = [
        Run(
            name,
            subject,
            dict.fromkeys(list(of.queries)[number:], ranked),
            failures={f"{HOSTILE}0": HOSTILE} if number else {},
            milliseconds={f"{HOSTILE}0": 5.0 + number},
            environment={"code": HOSTILE, "machine": {"processor": HOSTILE}},
            notes=(HOSTILE,),
        )
        for number, name in enumerate((HOSTILE, f"{HOSTILE} two"))
    ]
    board = Board(
        of, made, ("ndcg@10",), rules=RULES, flaws=[{"of": HOSTILE, "subject": f"{HOSTILE}1", "message": HOSTILE}]
    )
    known = {HOSTILE: ItemText(HOSTILE, HOSTILE, HOSTILE)}
    check = Check(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, "error", HOSTILE)
    return report(
        [Part(board, {HOSTILE: tuned((HOSTILE, "b"), 4)}, known, (HOSTILE,), HOSTILE)],
        checks=[check],
        title=HOSTILE,
        description=HOSTILE,
        command=HOSTILE,
        files={HOSTILE: HOSTILE},
    )
