"""Values from YAML and Parquet as metadata can hold them: text, finite numbers, lists and mappings of those."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from typing import Any

MAX_DEPTH = 20
MAX_SHOWN = 200  # of what is neither text nor number, such as bytes


def plain(value: object, depth: int = 0) -> Any:
    """ISO text for dates and times, None for what JSON has no word for, `str` for all else."""
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return {str(name): plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and depth < MAX_DEPTH:
        return [plain(inner, depth + 1) for inner in value]
    return _scalar(value)


def _scalar(value: object) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if isinstance(value, (date, time)) else str(value)[:MAX_SHOWN]
