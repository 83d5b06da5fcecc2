"""The sign-ins that count: begun here, not signed out, and not too old.

Streamlit's cookie alone would count wherever it is copied to, also after "Sign out".

One small file each, in a folder of the home: they outlive a restart, and count in all processes with this home.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from core import atomic_files

FOLDER: Final = "sign-ins"
LASTS: Final = 30 * 24 * 60 * 60  # seconds, as long as Streamlit's cookie
MOST: Final = 10_000  # of all people together; beyond that the oldest end
MOST_OF_ONE: Final = 20  # of one person, so that nobody can end all others' by signing in often
NO_CLAIMS: Final = {"origin", "is_logged_in", "tokens"}  # of Streamlit's own, beside what the provider said


class SignIns:
    """Each is identified by all of its claims: a token holds a number that is used once (nonce)."""

    def __init__(self, folder: Path, *, lasts: float = LASTS, now: Callable[[], float] = time.time) -> None:
        self._folder, self._lasts, self._now = folder, lasts, now

    def begin(self, user: Mapping[str, Any]) -> None:
        """Record it, and delete those that are over and the oldest of too many. OSError where it cannot be written."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(user)
        atomic_files.write_whole(file, f"{self._now() + self._lasts:.0f}", mode=0o600)
        person = file.name.partition("-")[0]
        kept = sorted(((self._until(each), each) for each in self._folder.iterdir() if not each.suffix), reverse=True)
        gone = {each for until, each in kept if until <= self._now()}
        gone |= {each for _, each in kept[MOST:]}
        gone |= {each for _, each in [pair for pair in kept if pair[1].name.startswith(f"{person}-")][MOST_OF_ONE:]}
        for each in gone:
            with suppress(OSError):
                each.unlink()

    def end(self, user: Mapping[str, Any]) -> None:
        """From now on its cookie counts nowhere. OSError where that cannot be written."""
        self._file(user).unlink(missing_ok=True)

    def counts(self, user: Mapping[str, Any]) -> bool:
        return self._until(self._file(user)) > self._now()

    def stamp(self) -> int:
        """Another one whenever a sign-in has begun or ended."""
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _file(self, user: Mapping[str, Any]) -> Path:
        person = hashlib.sha256(json.dumps([user.get("iss"), user.get("sub")]).encode()).hexdigest()[:16]
        claims = {name: value for name, value in user.items() if name not in NO_CLAIMS}
        whole = hashlib.sha256(json.dumps(claims, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{person}-{whole}"

    @staticmethod
    def _until(file: Path) -> float:
        """When it ends. One that is gone or not whole has ended."""
        try:
            return float(file.read_text("ascii"))
        except (OSError, ValueError):
            return 0.0
