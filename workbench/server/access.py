"""Who may do what: the role of whoever has signed in, and the tables that a role may write."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from core import bridge
from core.errors import RankbookError
from core.home import home
from core.store import collections, grants, roles
from core.store.engine import Store
from core.store.grants import Right
from core.store.roles import RoleStore
from evals import schema_chain
from workbench import session
from workbench.server import logs, roles_file, sign_in
from workbench.server.roles_file import RoleFile
from workbench.server.sign_in import SignIn
from workbench.server.sign_ins import FOLDER, SignIns

JUDGES: Final = (
    Right("judgements", "INSERT, UPDATE, DELETE"),  # a grade that is taken back is deleted
    Right("withdrawn_judgements", "INSERT"),  # and goes into the trash, which is editors' to look after
    Right("votes", "INSERT, UPDATE (choice, voted_at)"),
)

UNVERIFIED: Final = (
    "Their address has a role in access.toml and does not count, because the sign-in does not say that it is verified: "
    "see unverified_emails in docs/serving.md."
)
_lock: Final = threading.RLock()


class AccessControl:
    """The way in of this process."""

    def __init__(self, provider: SignIn, file: Path, sign_ins: SignIns) -> None:
        self.provider, self.file, self.sign_ins = provider, file, sign_ins
        self._read: tuple[tuple[int, ...], RoleFile] | None = None
        self._warned: set[tuple[object, ...]] = set()
        self._stores: dict[str, RoleStore] = {}
        self._set_up = False

    @property
    def access(self) -> RoleFile:
        """As the file stands now, refused where it has a mistake; `watch` sees to it that open pages follow."""
        with _lock:
            stamp = self.stamp()
            if self._read is None or self._read[0] != stamp or not stamp:
                self._read = stamp, roles_file.read(self.file)
                self._warned.clear()
            return self._read[1]

    def stamp(self) -> tuple[int, ...]:
        """Another one where the file may say something else."""
        try:
            told = self.file.stat()
        except OSError:
            return ()
        return told.st_mtime_ns, told.st_size, told.st_ino, told.st_mode, told.st_uid

    def readable(self) -> RoleFile | None:
        """The same; None where it has a mistake, which the log tells."""
        try:
            return self.access
        except RankbookError as error:
            self._warn("access_unreadable", says=str(error))
            return None

    def role_of(self, told: Mapping[str, Any]) -> str | None:
        """The role of whom the provider told this; None for whoever does not come in: all, while there is a mistake."""
        access = self.readable()
        if access is None or not told.get("is_logged_in") or self.has_ended(told):
            return None
        if access.discounts(told):
            self._warn("address_not_counted", user=logs.who(told), says=UNVERIFIED)
        return access.role_of(told)

    def has_ended(self, told: Mapping[str, Any]) -> bool:
        """Whether they signed in, and that does not count any more: its cookie may be there still, or a copy of it."""
        return bool(told.get("is_logged_in")) and not self.sign_ins.counts(told)

    def lets_in(self, told: Mapping[str, Any]) -> bool:
        return self.role_of(told) is not None

    def _warn(self, event: str, **fields: str) -> None:
        """Once as long as the file stays as it is: pages ask at every click."""
        with _lock:
            said = (self.stamp(), event, *fields.values())
            if said not in self._warned:
                self._warned.add(said)
                logs.warned(event, **fields)

    def store(self, role: str) -> RoleStore:
        """Opened at the first call as that role. What came from elsewhere since the last look is granted first."""
        with _lock:
            owner, first = session.store(), not self._set_up
            if first:
                bridge.run(_brought_up_to_date(owner))
                bridge.run(grants.set_up(owner, JUDGES))
                self._set_up = True
            if role not in self._stores:
                self._stores[role] = bridge.run(roles.opened(owner, role, [schema_chain]))
            opened = self._stores[role]
        if not first:
            bridge.run(grants.refresh(owner))
        return opened

    def close(self) -> None:
        with _lock:
            while self._stores:
                bridge.run(self._stores.popitem()[1].close())
            self._set_up = False


async def _brought_up_to_date(owner: Store) -> None:
    """Collections of an older version: whoever only reads could not do it, nor open them until somebody else has."""
    for row in await collections.listed(owner):
        with suppress(RankbookError):  # whoever opens that one is told what is wrong with it
            await collections.find(owner, row.name)


_gate: list[AccessControl | None] = []


def current() -> AccessControl | None:
    """The gate of this process, found at the first call; None where everybody who gets here is the owner."""
    with _lock:
        if not _gate:
            provider = sign_in.configured()
            _gate.append(AccessControl(provider, roles_file.path(), SignIns(home() / FOLDER)) if provider else None)
        return _gate[0]


def forget() -> None:
    """Close what is open, and look anew at the next call."""
    with _lock:
        while _gate:
            if (gate := _gate.pop()) is not None:
                gate.close()


def owner_or(role: str) -> Store:
    """The store of that role; the owner's where nobody signs in."""
    gate = current()
    return session.store() if gate is None else gate.store(role)
