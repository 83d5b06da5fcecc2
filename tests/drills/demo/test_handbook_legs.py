"""The demo collection: which family of legs wins which kind of query, as its card says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core import bridge
from core.context import RequestContext
from core.legs import legs
from core.store import collections
from core.store.engine import Store
from core.variant import Rollup, Variant
from evals.collections import load
from evals.evaluation.board import Board
from evals.labels import query_sets
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.sources import guess
from evals.types import ALL, QuerySplit

METRIC, DEPTH = "ndcg@10", 10
MARGIN = 0.05

LEGS = ("vector", "fulltext", "trigram", "fuzzy", "bm25")
FAMILIES = {
    "vector": ("vector",),
    "fulltext": ("fulltext",),
    "trigram or fuzzy": ("trigram", "fuzzy"),
    "bm25": ("bm25",),
}

# A leg has no level of its own: a variant names it. So all over chunks, all over whole documents, and each leg at
# whichever is better for it over all queries. The kinds that a family wins by the margin over the three others, but
# for those so close to it that another processor's embeddings might decide.
BETTER = "each at its better level"
WINNERS = {
    "chunks": {
        "paraphrase": "vector",
        "time-bound": "vector",
        "typo-keyword": "trigram or fuzzy",
        "garbled-code": "trigram or fuzzy",
        "ticket": "vector",
    },
    "items": {
        "misspelling": "trigram or fuzzy",
        "typo-keyword": "trigram or fuzzy",
        "garbled-code": "trigram or fuzzy",
        "word-variants": "fulltext",
    },
    BETTER: {
        "time-bound": "vector",
        "typo-keyword": "trigram or fuzzy",
        "garbled-code": "trigram or fuzzy",
        "ticket": "vector",
        "page-name": "vector",
    },
}
# What the card admits: at their better levels these two win no kind. Fuzzy is why, for bm25: words that are spelled
# right it weighs much as bm25 does. With trigrams alone as the third family, bm25 wins these.
WITHOUT_A_WIN = {"fulltext", "bm25"}
OF_BM25_BUT_FOR_FUZZY = ("identifier", "error-paste", "release")

Row = dict[str, float]


@pytest.fixture(scope="module")
def board(store) -> Board:
    """Each leg over chunks (rolled up to their documents) and over whole documents, as the harness scores them."""
    return bridge.run(_board(store))


async def _board(store: Store) -> Board:
    source, name = guess("handbook"), "the handbook, for its table"
    chunks = {"default": load.plan_for(source).chunks["default"]}  # no leg is asked for the parents' children
    await load.load_collection(store, name, source, load.plan_for(source, chunks=chunks, check=False))
    context = RequestContext(store, await collections.get(store, name))
    split = QuerySplit.of(await query_sets.load(store, name), ALL)
    runs = await runner.run(context, [*_variants()], split, options=EvalOptions())
    await load.drop(store, name)
    return Board(split, runs, [METRIC])


def _variants() -> Iterator[Variant]:
    for leg in LEGS:
        yield Variant.of_leg(legs[leg](), chunks="items", top_k=DEPTH).but(name=f"{leg}, items")
        # Three chunks a document and more: the ten best documents are all there after the roll-up.
        yield Variant.of_leg(legs[leg](), top_k=100, rollup=Rollup()).but(name=f"{leg}, chunks", overfetch=3)


def test_nearly_all_that_a_leg_finds_has_been_judged(board):
    assert not any(run.failures for run in board.runs)
    queries, judged = board.queries(METRIC), {}
    for run in board.runs:
        answered = sum(len(run.rankings[query].values) > 0 for query in queries) / len(queries)
        judged[run.name] = board.cells(METRIC)[run.name].judged / answered  # nothing of an empty ranking is judged
    assert min(judged.values()) > 0.95, judged


@pytest.fixture(scope="module")
def tables(board) -> dict[str, dict[str, Row]]:
    """For each way to choose the level: mean nDCG@10 by kind and leg."""
    overall = {name: cell.mean for name, cell in board.cells(METRIC).items()}
    by_kind = {kind: {name: cell.mean for name, cell in row.items()} for kind, row in board.by(METRIC).items()}
    made = {}
    for way in WINNERS:
        runs = {leg: _run(leg, way, overall) for leg in LEGS}
        rows = {kind: {leg: row[run] for leg, run in runs.items()} for kind, row in by_kind.items()}
        made[way] = rows
        _print(way, list(runs.values()), rows | {"all": {leg: overall[run] for leg, run in runs.items()}})
    return made


def _run(leg: str, way: str, overall: Row) -> str:
    return max(f"{leg}, chunks", f"{leg}, items", key=overall.__getitem__) if way == BETTER else f"{leg}, {way}"


@pytest.mark.parametrize("way", WINNERS)
def test_which_family_of_legs_wins_which_kind(tables, way):
    for kind, family in WINNERS[way].items():
        first, lead = winner(tables[way][kind])
        assert (first, lead >= MARGIN) == (family, True), f"{kind}: {first} leads by {lead:.3f}"


def test_the_families_that_the_card_says_win_no_kind_at_their_better_levels_win_none(tables):
    won = [winner(row) for row in tables[BETTER].values()]
    assert WITHOUT_A_WIN.isdisjoint(first for first, lead in won if lead >= MARGIN)


@pytest.mark.parametrize("kind", OF_BM25_BUT_FOR_FUZZY)
def test_but_for_fuzzy_bm25_wins(tables, kind):
    first, lead = winner({leg: score for leg, score in tables[BETTER][kind].items() if leg != "fuzzy"})
    assert first == "bm25"
    assert lead >= MARGIN


def winner(row: Row) -> tuple[str, float]:
    """The family whose best leg leads, and by how much over the next family's."""
    best = {family: max(row[leg] for leg in members if leg in row) for family, members in FAMILIES.items()}
    first, second = sorted(best, key=lambda family: best[family], reverse=True)[:2]
    return first, best[first] - best[second]


def _print(way: str, heads: list[str], table: dict[str, Row]) -> None:
    print(f"\n\n{way}\n{'nDCG@10':14}" + "".join(f"{head:>18}" for head in heads) + "  leads by")
    for kind, row in table.items():
        first, lead = winner(row)
        mark = " *" if lead >= MARGIN else ""
        print(f"{kind:14}" + "".join(f"{score:18.3f}" for score in row.values()) + f"  {first} {lead:.3f}{mark}")
