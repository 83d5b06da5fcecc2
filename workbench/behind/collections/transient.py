"""Files that pass through on their way in or out: each lot in a private folder of its own, gone after a day.

Knows nothing of what is in them.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Final

from core.home import home, make_private

KEPT_FOR: Final = 24 * 3600  # seconds that what nobody wants any more stays


def new_in(folder: Path) -> Path:
    """A new folder in one of ours."""
    make_private(home())
    make_private(folder)
    made = folder / uuid.uuid4().hex
    made.mkdir(mode=0o700)
    return made


def sweep(folder: Path, wanted: Collection[str] = ()) -> None:
    """Away with what came a day ago, but for the names that are still wanted."""
    if not folder.is_dir():
        return
    for lot in folder.iterdir():
        if lot.name not in wanted and time.time() - lot.stat().st_mtime > KEPT_FOR:
            shutil.rmtree(lot, ignore_errors=True)
