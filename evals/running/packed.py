"""Rankings as few bytes, and back: what the store keeps of legs and runs. Every distinct unit is written once.

The bytes are zlib over numpy's own format, text in it as JSON; nothing that runs code on being read. They read back
equal, scores to the last bit.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from evals.rankings import Ranked, Rankings

LEVEL = 1  # of compression: a tenth larger than the best, and five times as quick
Unit = tuple[str, str | None, tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class Packed:
    """What was packed: rankings by query, and whatever plain data came with them."""

    rankings: dict[str, Ranked]
    more: Mapping[str, Any] = field(default_factory=dict)


def packed(rankings: Rankings, **more: Any) -> bytes:
    """Rankings, and anything that JSON can say."""
    units: dict[Unit, int] = {}
    codes = [units.setdefault(unit, len(units)) for ranked in rankings.values() for unit in _units(ranked)]
    written = {"queries": list(rankings), "units": list(units), "more": more}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        text=np.frombuffer(json.dumps(written).encode(), dtype=np.uint8),
        lengths=np.array([len(ranked.ids) for ranked in rankings.values()], dtype=np.int32),
        codes=np.array(codes, dtype=np.int32),
        scores=np.array([score for ranked in rankings.values() for score in ranked.scores], dtype=np.float64),
    )
    return zlib.compress(buffer.getbuffer(), LEVEL)


def _units(ranked: Ranked) -> list[Unit]:
    nothing = (None,) * len(ranked.ids)
    return list(zip(ranked.ids, ranked.items or nothing, ranked.spans or nothing, strict=True))


def unpacked(content: bytes) -> Packed:
    """What `packed` was given."""
    with np.load(io.BytesIO(zlib.decompress(content)), allow_pickle=False) as arrays:
        written = json.loads(arrays["text"].tobytes())
        codes, scores = arrays["codes"].tolist(), arrays["scores"].tolist()
        ends = [0, *np.cumsum(arrays["lengths"]).tolist()]
    units = [(unit, item, None if span is None else (span[0], span[1])) for unit, item, span in written["units"]]
    rankings = {
        query: _ranked([units[code] for code in codes[start:end]], tuple(scores[start:end]))
        for query, (start, end) in zip(written["queries"], pairwise(ends), strict=True)
    }
    return Packed(rankings, written["more"])


def _ranked(units: list[Unit], scores: tuple[float, ...]) -> Ranked:
    return Ranked(
        tuple(unit for unit, _, _ in units),
        scores,
        tuple(item for _, item, _ in units if item is not None),
        tuple(span for _, _, span in units if span is not None),
    )
