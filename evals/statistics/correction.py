"""p values corrected for how many were looked at. Owns nothing else: what is tested, and when, is the caller's.

`holm` keeps the chance of even one false finding at the level, whatever depends on what; `bh` keeps the expected share
of false ones among the findings there (more findings, some of them false); `none` leaves the values as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InputError, UnknownName

Floats = NDArray[np.float64]
Correction = Literal["holm", "bh", "none"]


def corrected(values: ArrayLike, method: Correction = "holm") -> Floats:
    """The corrected values, in the order given. One at or below the level is a finding at that level."""
    if method not in _METHODS:
        raise UnknownName("correction", str(method), _METHODS)
    given = np.asarray(values, dtype=np.float64)
    wrong = np.flatnonzero(~((given >= 0) & (given <= 1)))
    if wrong.size:
        raise InputError(f"A p value lies between 0 and 1; number {wrong[0]} is {given.flat[wrong[0]]}.")
    return _METHODS[method](given) if given.size else given.copy()


def _holm(values: Floats) -> Floats:
    """The smallest of m times m, the next times m - 1, ..., none below the one before (Holm 1979, JSTOR 4615733)."""
    order = np.argsort(values, kind="stable")
    grown = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1))
    found = np.empty_like(values)
    found[order] = np.minimum(grown, 1.0)
    return found


def _benjamini_hochberg(values: Floats) -> Floats:
    """Benjamini & Hochberg 1995, JSTOR 2346101."""
    from scipy import stats

    return np.asarray(stats.false_discovery_control(values, method="bh"), dtype=np.float64)


_METHODS: Mapping[str, Callable[[Floats], Floats]] = {
    "holm": _holm,
    "bh": _benjamini_hochberg,
    "none": np.copy,
}
NAMES: Mapping[Correction, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}
