"""The harness's tables: query sets, labels and their revisions, runs, judgements, outputs of cells, votes."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    false,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from core.store.migrations import Chain
from core.store.schema import CATALOG, Base, Id

schema_chain = Chain("evals", Path(__file__).parent / "migrations")

QUERY_SET = f"{CATALOG}.query_sets.key"


class QuerySet(Base):
    """The queries of a collection under a name. `digest` covers queries, labels, spans and exclusions."""

    __tablename__ = "query_sets"
    __table_args__ = (
        UniqueConstraint("collection", "name", name="query_sets_collection_name_key"),
        {"schema": CATALOG},
    )

    key: Mapped[int] = mapped_column(Integer, Identity(), primary_key=True)
    collection: Mapped[str] = mapped_column(Id)
    name: Mapped[str] = mapped_column(Id)
    digest: Mapped[bytes] = mapped_column(LargeBinary)
    # Flaws of the import, shown with the scores; "of" is the kind of check that found one.
    flaws: Mapped[list[Any]] = mapped_column(JSONB, default=list)
    # The version of the collection whose texts were searched for leaks and repeats of these queries.
    checked_version: Mapped[int | None] = mapped_column(BigInteger)
    # The digest after the last merge of judgements; it differs from `digest` if the set was changed since.
    merged_digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    # The set that judgements were merged with, and the rule of each split: see `evals.types.MergedFrom`.
    merged_from: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class StoredQuery(Base):
    """A query of a set."""

    __tablename__ = "queries"
    __table_args__ = ({"schema": CATALOG},)

    set_key: Mapped[int] = mapped_column(ForeignKey(QUERY_SET, ondelete="CASCADE"), primary_key=True)
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    text: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text, default="")
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list)
    weight: Mapped[float] = mapped_column(Float, default=1.0)
    meta: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, default=dict)


class StoredLabel(Base):
    """How relevant an item is to a query, in one split."""

    __tablename__ = "labels"
    __table_args__ = ({"schema": CATALOG},)

    set_key: Mapped[int] = mapped_column(ForeignKey(QUERY_SET, ondelete="CASCADE"), primary_key=True)
    split: Mapped[str] = mapped_column(Id, primary_key=True)
    query_id: Mapped[str] = mapped_column(Id, primary_key=True)
    item_id: Mapped[str] = mapped_column(Id, primary_key=True)
    grade: Mapped[int] = mapped_column(Integer)


class StoredSpan(Base):
    """Which characters of an item answer a query."""

    __tablename__ = "spans"
    __table_args__ = ({"schema": CATALOG},)

    key: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    set_key: Mapped[int] = mapped_column(ForeignKey(QUERY_SET, ondelete="CASCADE"), index=True)
    split: Mapped[str] = mapped_column(Id)
    query_id: Mapped[str] = mapped_column(Id)
    item_id: Mapped[str] = mapped_column(Id)
    start_at: Mapped[int] = mapped_column(Integer)
    end_at: Mapped[int] = mapped_column(Integer)
    text: Mapped[str] = mapped_column(Text)
    grade: Mapped[int] = mapped_column(Integer)


class StoredExclusion(Base):
    """An item that a query's ranking leaves out, such as the document that the query was written from."""

    __tablename__ = "exclusions"
    __table_args__ = ({"schema": CATALOG},)

    set_key: Mapped[int] = mapped_column(ForeignKey(QUERY_SET, ondelete="CASCADE"), primary_key=True)
    query_id: Mapped[str] = mapped_column(Id, primary_key=True)
    item_id: Mapped[str] = mapped_column(Id, primary_key=True)


class LabelRevision(Base):
    """A change of a query set that can be undone: author, time, reason, and the rows that differ."""

    __tablename__ = "label_revisions"
    __table_args__ = ({"schema": CATALOG},)

    key: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    set_key: Mapped[int] = mapped_column(ForeignKey(QUERY_SET, ondelete="CASCADE"), index=True)
    author: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)  # "load" or "edit"
    reason: Mapped[str] = mapped_column(Text)
    counts: Mapped[dict[str, Any]] = mapped_column(JSONB)  # how many queries and labels, before and after
    content: Mapped[bytes] = mapped_column(LargeBinary)  # compressed: see `evals.labels.revisions`
    made_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    undone_by: Mapped[str | None] = mapped_column(Text)
    undone_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    lapsed: Mapped[bool] = mapped_column(server_default="false")  # undone, and the set was changed since


class RunRow(Base):
    """A variant's rankings over a split, with everything needed to repeat them; without a variant, another engine's."""

    __tablename__ = "runs"
    __table_args__ = ({"schema": CATALOG},)

    id: Mapped[str] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Id, default="")  # in lists
    names: Mapped[dict[str, str]] = mapped_column(JSONB, default=dict)  # all names, and when each was used last
    collection: Mapped[str] = mapped_column(Id, index=True)
    collection_version: Mapped[int] = mapped_column(BigInteger)
    content: Mapped[str] = mapped_column(Text, default="")  # a digest of the collection's content
    query_set: Mapped[str] = mapped_column(Id, default="")
    query_set_digest: Mapped[bytes] = mapped_column(LargeBinary)
    split: Mapped[str] = mapped_column(Id)
    depth: Mapped[int] = mapped_column(Integer, default=0)  # requested depth; 0 is the variant's own
    variant: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    environment: Mapped[dict[str, Any]] = mapped_column(JSONB)  # code version, machine, server
    scores: Mapped[dict[str, Any]] = mapped_column(JSONB)
    queries: Mapped[int] = mapped_column(Integer, default=0)
    failed: Mapped[int] = mapped_column(Integer, default=0)
    latency: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    rankings: Mapped[bytes] = mapped_column(LargeBinary)  # compressed, with failures and times: see `packed`
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    used_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())  # made or reused


class Pin(Base):
    """A run under a name with which later ones are compared. It is not pruned."""

    __tablename__ = "pins"
    __table_args__ = ({"schema": CATALOG},)

    name: Mapped[str] = mapped_column(Id, primary_key=True)
    run: Mapped[str] = mapped_column(ForeignKey(f"{CATALOG}.runs.id"), index=True)
    pinned_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class SetUp(Base):
    """What became of a set-up over the queries of a split: chosen, a cell of a suite's grid, or set aside.

    `seen` is whether it had scores when it was set aside. See `evals.runs.candidates`.
    """

    __tablename__ = "set_ups"
    __table_args__ = ({"schema": CATALOG},)

    key: Mapped[str] = mapped_column(Id, primary_key=True)
    collection: Mapped[str] = mapped_column(Id, index=True)
    query_set: Mapped[str] = mapped_column(Id)
    split: Mapped[str] = mapped_column(Id)
    set_up: Mapped[str] = mapped_column(Id)
    status: Mapped[str] = mapped_column(Text)
    seen: Mapped[bool] = mapped_column(Boolean, server_default=false())
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class RankingBatch(Base):
    """Rankings of a leg, or of a variant in progress, for some queries. A cache: it may be emptied at any time.

    `digest` identifies the leg or variant and the queries, `state` the content of the collection.
    """

    __tablename__ = "ranking_batches"
    __table_args__ = ({"schema": CATALOG},)

    key: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    digest: Mapped[str] = mapped_column(Id, index=True)
    depth: Mapped[int] = mapped_column(Integer)
    collection: Mapped[str] = mapped_column(Id, index=True)
    state: Mapped[str] = mapped_column(Text)
    queries: Mapped[int] = mapped_column(Integer)
    rankings: Mapped[bytes] = mapped_column(LargeBinary)
    made_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class JudgementRow(Base):
    """A grade of a pair: by whom or what, when, and on which version of the text."""

    __tablename__ = "judgements"
    __table_args__ = ({"schema": CATALOG},)

    collection: Mapped[str] = mapped_column(Id, primary_key=True)
    query_id: Mapped[str] = mapped_column(Id, primary_key=True)
    item_id: Mapped[str] = mapped_column(Id, primary_key=True)
    judge: Mapped[str] = mapped_column(Id, primary_key=True)
    grade: Mapped[int] = mapped_column(Integer)
    is_model: Mapped[bool]
    item_digest: Mapped[bytes] = mapped_column(LargeBinary)
    note: Mapped[str] = mapped_column(Text, default="")
    judged_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class WithdrawnJudgement(Base):
    """A judgement that its judge took back. It is in the trash until `until`."""

    __tablename__ = "withdrawn_judgements"
    __table_args__ = ({"schema": CATALOG},)

    key: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    collection: Mapped[str] = mapped_column(Id)
    query_id: Mapped[str] = mapped_column(Id)
    item_id: Mapped[str] = mapped_column(Id)
    judge: Mapped[str] = mapped_column(Id)
    grade: Mapped[int] = mapped_column(Integer)
    is_model: Mapped[bool]
    item_digest: Mapped[bytes] = mapped_column(LargeBinary)
    note: Mapped[str] = mapped_column(Text)
    judged_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    withdrawn_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class OutputRow(Base):
    """The output of a notebook's cell, by the digest of everything that it depends on."""

    __tablename__ = "outputs"
    __table_args__ = ({"schema": CATALOG},)

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    notebook: Mapped[str] = mapped_column(Id, index=True)
    content: Mapped[dict[str, Any]] = mapped_column(JSONB)
    made_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class ContestRow(Base):
    """Variants that a demo compares, with the names that its results show."""

    __tablename__ = "contests"
    __table_args__ = ({"schema": CATALOG},)

    key: Mapped[str] = mapped_column(Id, primary_key=True)
    collection: Mapped[str] = mapped_column(Id, index=True)
    variants: Mapped[dict[str, str]] = mapped_column(JSONB)  # names by id
    begun_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class VoteRow(Base):
    """The variant that a visitor prefers for a query: its id, "both" or "neither"; none if withdrawn."""

    __tablename__ = "votes"
    __table_args__ = ({"schema": CATALOG},)

    contest: Mapped[str] = mapped_column(ForeignKey(f"{CATALOG}.contests.key", ondelete="CASCADE"), primary_key=True)
    visitor: Mapped[str] = mapped_column(Id, primary_key=True)
    query: Mapped[str] = mapped_column(Id, primary_key=True)
    choice: Mapped[str | None] = mapped_column(Id)
    voted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
