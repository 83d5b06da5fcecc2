"""A folder of this process alone, in memory where there is such a place, for parsers that want a file."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

WITHIN = "RANKBOOK_FUZZ_SCRATCH"  # a folder that somebody else removes: a fuzzed process may end at any moment
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@cache
def folder() -> Path:
    within = os.environ.get(WITHIN)
    made = Path(tempfile.mkdtemp(prefix="rankbook-fuzz-", dir=within or MEMORY))
    if not within:
        atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def written(name: str, content: bytes) -> Path:
    """The content under that name, in the place of what was there."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def packed(name: str, members: dict[str, bytes]) -> bytes:
    """A zip of these members, as bytes."""
    import io
    import zipfile

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}/{member}" if name else member, (2026, 1, 1, 0, 0, 0)), content)
    return made.getvalue()
