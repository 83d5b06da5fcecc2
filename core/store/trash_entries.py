"""An entry of the trash and how long it is kept: plain values, which kept variants use without a database."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from core.errors import SpecError, StoreError, UnknownName

Kind = Literal["collection", "query set", "run", "runs", "judgements", "variant"]
DAYS: Final = "RANKBOOK_TRASH_DAYS"
DEFAULT_DAYS: Final = 30
MOST_DAYS: Final = 36_500
ID_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """Something in the trash: what it was, whose, how large, and until when it can be brought back."""

    id: str
    kind: str
    name: str
    collection: str
    count: int
    bytes: int
    deleted_by: str
    deleted_at: datetime
    until: datetime
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The thing in a few words: `query set pilot of handbook`."""
        if self.kind == "runs":
            return f"{self.count:,} {'run' if self.count == 1 else 'runs'} of {self.collection}"
        if self.kind == "judgements":
            many = "judgement" if self.count == 1 else "judgements"
            return f"{self.count:,} {many} of {self.collection} that {self.name} took back"
        of = f" of {self.collection}" if self.collection and self.kind != "collection" else ""
        return f"{self.kind} {self.name}{of}"

    @property
    def way_back(self) -> str:
        return f"rankbook trash restore {self.id}"

    @property
    def expired(self) -> bool:
        return self.until <= datetime.now(UTC)

    def sentence(self) -> str:
        """What is said to whoever deletes it."""
        return f"It is in the trash until {day(self.until)}; bring it back: {self.way_back}"


def day(when: datetime) -> str:
    return f"{when.day} {when:%b %Y}"


def retention() -> timedelta:
    """How long something stays in the trash, by `RANKBOOK_TRASH_DAYS`."""
    days = os.environ.get(DAYS, "").strip() or str(DEFAULT_DAYS)
    if not days.isascii() or not days.isdigit() or not 1 <= int(days) <= MOST_DAYS:
        raise SpecError(
            f"{DAYS} is {days!r:.80}. It takes a whole number of days from 1 to {MOST_DAYS:,}. Leave it out for "
            f"{DEFAULT_DAYS}; `rankbook trash empty` empties the trash at once."
        )
    return timedelta(days=int(days))


def new_id() -> str:
    return secrets.token_hex(ID_BYTES)


def find(entries: Sequence[TrashEntry], reference: str) -> TrashEntry:
    """The entry of that id, or the only one with that name."""
    matches = [each for each in entries if each.id == reference.lower()]
    matches = matches or [each for each in entries if each.name == reference]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = "; ".join(
            f"{each.id} ({each.title}, deleted {each.deleted_at:%Y-%m-%d %H:%M})" for each in matches[:9]
        )
        raise SpecError(f"{reference!r} stands for {len(matches)} things in the trash: {listed}. Give the id.")
    known = [name for each in entries for name in (each.id, each.name) if name]
    raise UnknownName("thing in the trash", reference, known, way_out="`rankbook trash` lists what is there.")


def not_in_trash(entry: TrashEntry) -> StoreError:
    return StoreError(
        f"The {entry.title} is not in the trash any more: somebody brought it back or emptied the trash at this "
        "moment. `rankbook trash` lists what is there."
    )


def restore_conflict(entry: TrashEntry, why: str) -> StoreError:
    return StoreError(f"{why} Bring this one back under another name: {entry.way_back} --as NEW")
