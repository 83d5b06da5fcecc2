"""Well-known systems as variants, each a TOML file here. What they must do is tested line by line in tests/systems."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from core.errors import UnknownName
from core.variant import Variant

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def preset(name: str) -> Variant:
    """The variant of that name."""
    if name not in names():
        raise UnknownName("preset", name, names())
    return Variant.from_file(FOLDER / f"{name}.toml")
