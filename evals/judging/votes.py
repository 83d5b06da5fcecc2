"""Votes of a demo's visitors on which of several variants is better for a query: stored, withdrawn and tallied.

Owns the tables of contests and votes and their statistics, not how variants were shown. A visitor's latest vote on a
query counts. `cast` needs no more than INSERT and UPDATE on the votes, as a demo's own role may do nothing else.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert

from core.errors import InputError, UnknownName
from core.store import sanitize
from core.store.engine import Store
from core.variant import Variant
from evals.schema import ContestRow as StoredContest
from evals.schema import VoteRow as StoredVote

BOTH: Final = "both"
NEITHER: Final = "neither"
LONGEST_QUERY: Final = 300  # characters; a row of the votes' index holds 2,700 bytes
LONGEST_VISITOR: Final = 64
CONFIDENCE: Final = 0.95
KEY_DIGITS: Final = 16
MOST_OF_ONE: Final = 0.5  # the share of one visitor in the decided votes above which a sentence says so


@dataclass(frozen=True, slots=True)
class Contest:
    """Variants that are compared: their ids, and the names that visitors see."""

    collection: str
    variants: Mapping[str, str]

    @classmethod
    def of(cls, collection: str, named: Mapping[str, Variant]) -> Contest:
        ids = [variant.id for variant in named.values()]
        if len(set(ids)) < len(ids):
            raise InputError("Two of the variants do the very same: there is nothing to choose between them.")
        return cls(collection, {variant.id: name for name, variant in named.items()})

    @property
    def key(self) -> str:
        """Equal for the same variants in any order and under any names."""
        content = "\0".join([self.collection, *sorted(self.variants)])
        return hashlib.sha256(content.encode()).hexdigest()[:KEY_DIGITS]

    def checked(self, choice: str | None) -> str | None:
        if choice is not None and choice not in (*self.variants, BOTH, NEITHER):
            raise UnknownName("choice", choice, [*self.variants, BOTH, NEITHER])
        return choice


@dataclass(frozen=True, slots=True)
class Vote:
    """One visitor's choice for one query; None if it was withdrawn."""

    visitor: str
    query: str
    choice: str | None


# -- stored ------------------------------------------------------------------------------------------------------------


async def announce(store: Store, contest: Contest) -> None:
    """Store the contest, so that there can be votes, or its new names."""
    row = {"key": contest.key, "collection": contest.collection, "variants": dict(contest.variants)}
    statement = insert(StoredContest).values(row)
    renamed = {"variants": statement.excluded.variants, "begun_at": func.now()}
    async with store.begin() as connection:
        await connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=renamed))


async def cast(store: Store, contest: Contest, vote: Vote) -> None:
    """Store a vote in place of the visitor's earlier one for that query."""
    if not sanitize.storable(vote.visitor + vote.query) or not 0 < len(vote.visitor) <= LONGEST_VISITOR:
        raise InputError("The vote names no visitor or no query that can be kept.")
    row = {
        "contest": contest.key,
        "visitor": vote.visitor,
        "query": vote.query[:LONGEST_QUERY],
        "choice": contest.checked(vote.choice),
        "voted_at": func.clock_timestamp(),
    }
    statement = insert(StoredVote).values(row)
    changed = {name: statement.excluded[name] for name in ("choice", "voted_at")}
    keys = ["contest", "visitor", "query"]
    async with store.begin() as connection:
        await connection.execute(text("SET TRANSACTION READ WRITE"))  # a demo's connections begin read-only
        await connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))


async def choice_of(store: Store, contest: Contest, visitor: str, query: str) -> str | None:
    """The visitor's choice for the query, if any."""
    mine = (StoredVote.visitor == visitor, StoredVote.query == query[:LONGEST_QUERY])
    async with store.begin(read_only=True) as connection:
        return await connection.scalar(select(StoredVote.choice).where(StoredVote.contest == contest.key, *mine))


async def count(store: Store, contest: Contest) -> int:
    """How many votes there are that were not withdrawn."""
    valid = (StoredVote.contest == contest.key, StoredVote.choice.is_not(None))
    async with store.begin(read_only=True) as connection:
        return int(await connection.scalar(select(func.count()).select_from(StoredVote).where(*valid)) or 0)


async def contests(store: Store, collection: str) -> list[tuple[Contest, list[Vote]]]:
    """All contests of a collection with their votes, the latest first."""
    table = StoredContest
    wanted = select(table.__table__).where(table.collection == collection)
    cast_votes = select(StoredVote.__table__).join(table, table.key == StoredVote.contest)
    async with store.begin(read_only=True) as connection:
        rows = (await connection.execute(wanted.order_by(table.begun_at.desc(), table.key))).all()
        votes: dict[str, list[Vote]] = defaultdict(list)
        in_order = cast_votes.where(table.collection == collection).order_by(StoredVote.voted_at, StoredVote.visitor)
        for row in await connection.execute(in_order):
            votes[row.contest].append(Vote(row.visitor, row.query, row.choice))
    return [(Contest(row.collection, row.variants), votes[row.key]) for row in rows]


# -- tallied ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """A variant's share of the decided votes, with Wilson's interval, which is 0 to 1 without a vote."""

    name: str
    variant: str
    votes: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class QueryVotes:
    """The votes on one query by variant name, with "both" and "neither"."""

    query: str
    votes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tally:
    """The statistics of a contest's votes. `lead` is the leader's share against the runner-up alone."""

    contest: str
    votes: int
    visitors: int
    both: int
    neither: int
    shares: tuple[Share, ...]
    queries: tuple[QueryVotes, ...]
    lead: Share | None
    eager: float  # the largest part of the decided votes that came from one visitor

    @property
    def decided(self) -> int:
        return sum(each.votes for each in self.shares)

    def sentences(self) -> list[str]:
        """The verdict, and a caution where one visitor gave most votes."""
        if not self.votes:
            return ["Nobody has voted yet."]
        sentences = [self._verdict()]
        if self.decided > 1 and self.eager > MOST_OF_ONE:
            sentences.append(
                f"One visitor gave {self.eager:.0%} of the decided votes, which the interval does not know."
            )
        return sentences

    def _verdict(self) -> str:
        if self.lead is None:
            return "No vote decides between them."
        first, second = self.shares[0], self.shares[1]
        against = (
            f"{first.votes} of {first.votes + second.votes} votes that decide between {first.name!r} and "
            f"{second.name!r} are for {first.name!r}: {self.lead.share:.0%}, interval {self.lead.low:.0%} to "
            f"{self.lead.high:.0%}."
        )
        if self.lead.low > 1 / 2:
            return f"{first.name!r} is liked better. {against}"
        return f"Too few votes, or too alike, to tell which is liked better. {against}"


def tally(contest: Contest, votes: Iterable[Vote]) -> Tally:
    """Counts, and Wilson's intervals (1927) of the decided votes, which assume that votes are independent."""
    valid = [vote for vote in votes if vote.choice is not None]
    counts = Counter(vote.choice for vote in valid)
    wins = {variant: counts[variant] for variant in contest.variants}
    decided = [vote for vote in valid if vote.choice in wins]
    shares = [_share(name, each, wins[each], len(decided)) for each, name in contest.variants.items()]
    shares.sort(key=lambda share: (-share.votes, share.name))
    lead = None
    if len(shares) > 1 and shares[0].votes:
        first, second = shares[0], shares[1]
        lead = _share(first.name, first.variant, first.votes, first.votes + second.votes)
    return Tally(
        contest.key,
        len(valid),
        len({vote.visitor for vote in valid}),
        counts[BOTH],
        counts[NEITHER],
        tuple(shares),
        _votes_by_query(contest, valid),
        lead,
        max(Counter(vote.visitor for vote in decided).values(), default=0) / max(1, len(decided)),
    )


def _share(name: str, variant: str, votes: int, of: int) -> Share:
    if not of:
        return Share(name, variant, 0, 0.0, 0.0, 1.0)
    from scipy import stats

    interval = stats.binomtest(votes, of).proportion_ci(CONFIDENCE, method="wilson")  # type: ignore[attr-defined]
    return Share(name, variant, votes, votes / of, float(interval.low), float(interval.high))


def _votes_by_query(contest: Contest, votes: Sequence[Vote]) -> tuple[QueryVotes, ...]:
    """The queries with most votes first."""
    names = {**contest.variants, BOTH: BOTH, NEITHER: NEITHER}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for vote in votes:
        counts[vote.query][names[vote.choice or NEITHER]] += 1
    ordered = sorted(counts, key=lambda query: (-counts[query].total(), query))
    return tuple(QueryVotes(query, dict(counts[query])) for query in ordered)
