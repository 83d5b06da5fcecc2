"""A run: one variant over one split, kept with everything needed to repeat it. Its value here; its rows in the store.

A foreign run, of another engine, has no variant and is otherwise an equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.variant import Variant
from evals.rankings import Rankings


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run was made over. Two runs are comparable where these are equal."""

    collection: str
    version: int
    query_set: str
    digest: bytes
    split: str


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it. A query that failed has a reason in `failures`, an empty ranking, and a score of 0.

    `milliseconds` are whole searches by query; `stages` the same by stage and query, where they were seen one by one.
    `environment` is the code's version, the machine, the server and the like.
    """

    name: str
    subject: Subject
    rankings: Rankings
    variant: Variant | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    made_at: datetime | None = None
    id: str = ""
