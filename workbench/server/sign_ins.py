"""The sign-ins that count: begun here, not signed out, and not too old. Streamlit's cookie alone counts wherever it is
copied to, also after "Sign out".

One small file each, in a folder of the home, so that they outlive a restart and hold for all processes of one home.
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
    """Told apart by all that the provider said at one: its token holds a number that is used once (nonce)."""

    def __init__(self, folder: Path, *, lasts: float = LASTS, now: Callable[[], float] = time.time) -> None:
        self._folder, self._lasts, self._now = folder, lasts, now

    def begin(self, said: Mapping[str, Any]) -> None:
        """OSError where it cannot be kept."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(said)
        atomic_files.write_whole(file, f"{self._now() + self._lasts:.0f}", mode=0o600)
        self._keep_few(file.name.partition("-")[0])

    def end(self, said: Mapping[str, Any]) -> None:
        """Now, wherever its cookie is. OSError where that cannot be written down."""
        self._file(said).unlink(missing_ok=True)

    def counts(self, said: Mapping[str, Any]) -> bool:
        return self._until(self._file(said)) > self._now()

    def stamp(self) -> int:
        """Another one when a sign-in began or was ended."""
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _file(self, said: Mapping[str, Any]) -> Path:
        person = hashlib.sha256(json.dumps([said.get("iss"), said.get("sub")]).encode()).hexdigest()[:16]
        claims = {name: value for name, value in said.items() if name not in NO_CLAIMS}
        whole = hashlib.sha256(json.dumps(claims, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{person}-{whole}"

    @staticmethod
    def _until(file: Path) -> float:
        """When it ends. One that is gone or not whole ended long ago."""
        try:
            return float(file.read_text("ascii"))
        except (OSError, ValueError):
            return 0.0

    def _keep_few(self, person: str) -> None:
        """Those that are over go, and the oldest where there are too many."""
        kept = sorted(((self._until(file), file) for file in self._folder.iterdir() if not file.suffix), reverse=True)
        gone = {file for until, file in kept if until <= self._now()}
        gone |= {file for _, file in kept[MOST:]}
        gone |= {file for _, file in [each for each in kept if each[1].name.startswith(f"{person}-")][MOST_OF_ONE:]}
        for file in gone:
            with suppress(OSError):
                file.unlink()
