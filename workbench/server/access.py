"""Access control: the role of a user who has signed in, and the tables that a role may write."""

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
    """Of one process: who has which role, and the store that each role works with.

    A `user` is what the sign-in's provider says of one: the claims of their ID token.
    """

    def __init__(self, provider: SignIn, file: Path, sign_ins: SignIns) -> None:
        self.provider, self.file, self.sign_ins = provider, file, sign_ins
        self._read: tuple[tuple[int, ...], RoleFile] | None = None
        self._warned: set[tuple[object, ...]] = set()
        self._stores: dict[str, RoleStore] = {}
        self._set_up = False

    @property
    def access(self) -> RoleFile:
        """The file as it is now, refused where it has a mistake."""
        with _lock:
            stamp = self.stamp()
            if self._read is None or self._read[0] != stamp or not stamp:
                self._read = stamp, roles_file.read(self.file)
                self._warned.clear()
            return self._read[1]

    def stamp(self) -> tuple[int, ...]:
        """Another one whenever the file may have changed."""
        try:
            status = self.file.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid

    def readable(self) -> RoleFile | None:
        """The same; None where it has a mistake, which is logged."""
        try:
            return self.access
        except RankbookError as error:
            self._warn("access_unreadable", says=str(error))
            return None

    def role_of(self, user: Mapping[str, Any]) -> str | None:
        """None where they may not come in, as nobody may while the file has a mistake."""
        access = self.readable()
        if access is None or not user.get("is_logged_in") or self.has_ended(user):
            return None
        if access.discounts(user):
            self._warn("address_not_counted", user=logs.user_mark(user), says=UNVERIFIED)
        return access.role_of(user)

    def has_ended(self, user: Mapping[str, Any]) -> bool:
        """Whether their sign-in counts no more. Its cookie, or a copy of it, may still exist."""
        return bool(user.get("is_logged_in")) and not self.sign_ins.counts(user)

    def lets_in(self, user: Mapping[str, Any]) -> bool:
        return self.role_of(user) is not None

    def _warn(self, event: str, **fields: str) -> None:
        """Once as long as the file stays as it is: pages ask at every click."""
        with _lock:
            warning = (self.stamp(), event, *fields.values())
            if warning not in self._warned:
                self._warned.add(warning)
                logs.warning(event, **fields)

    def store(self, role: str) -> RoleStore:
        """The store as that role. New collections and tables are granted first."""
        with _lock:
            owner, first = session.store(), not self._set_up
            if first:
                bridge.run(_migrate_collections(owner))
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


async def _migrate_collections(owner: Store) -> None:
    """Bring the tables of older versions up to date: readers may not, and could not open them before."""
    for row in await collections.listed(owner):
        with suppress(RankbookError):  # which opening that one says again
            await collections.find(owner, row.name)


_gate: list[AccessControl | None] = []


def current() -> AccessControl | None:
    """The access control of this process; None without a sign-in, where everybody who reaches it is the owner."""
    with _lock:
        if not _gate:
            provider = sign_in.configured()
            _gate.append(AccessControl(provider, roles_file.path(), SignIns(home() / FOLDER)) if provider else None)
        return _gate[0]


def forget() -> None:
    """Close what is open; the next call of `current` begins anew."""
    with _lock:
        while _gate:
            if (gate := _gate.pop()) is not None:
                gate.close()
