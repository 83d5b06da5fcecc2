"""Rankings as few bytes, and back: what the store keeps of legs and runs. Every distinct unit is written once.

The bytes are numpy's own format, text in it as JSON, and zlib over it where that helps; nothing that runs code on being
read. They read back equal, scores to the last bit.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.rankings import Floats, Ranked, Rankings, Unit, numbered, shared

LEVEL = 1  # of compression: a tenth larger than the best, and five times as quick
MARK = b"rankings 2\n"  # what was kept before begins as zlib does
SAMPLE, ENOUGH = 8192, 0.7  # bytes that are tried, and to what share they must shrink


@dataclass(frozen=True, slots=True)
class Packed:
    """What was packed: rankings by query, and whatever plain data came with them."""

    rankings: dict[str, Ranked]
    more: Mapping[str, Any] = field(default_factory=dict)


def packed(rankings: Rankings, **more: Any) -> bytes:
    """Rankings, and anything that JSON can say. Scores stand behind the rest, as they are where little is gained."""
    arrays, scores = _arrays(rankings, more)
    head = zlib.compress(_saved(arrays), LEVEL)
    return MARK + len(head).to_bytes(8, "little") + head + _squeezed(scores.tobytes())


def fingerprint(rankings: Rankings) -> bytes:
    """What tells rankings apart: their content alone, in whatever order they come and whatever packs them."""
    arrays, scores = _arrays(dict(sorted(rankings.items())), {})
    told = hashlib.blake2b(digest_size=16)
    forms = {"text": "u1", "lengths": "<i4", "codes": "<i4", "scores": "<f8"}
    for name, part in {**arrays, "scores": scores}.items():
        content = part.astype(forms[name]).tobytes()
        told.update(len(content).to_bytes(8, "little") + content)
    return told.digest()


def _arrays(rankings: Rankings, more: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Floats]:
    units, codes = numbered(rankings.values())
    written = json.dumps({"queries": list(rankings), "units": units, "more": more}).encode()
    lengths = np.array([ranked.length for ranked in rankings.values()], dtype=np.int32)
    scores = np.concatenate([np.zeros(0), *(ranked.values for ranked in rankings.values())])
    return {"text": np.frombuffer(written, dtype=np.uint8), "lengths": lengths, "codes": codes}, scores


def _saved(arrays: Mapping[str, NDArray[Any]]) -> memoryview:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type] # numpy's stub takes them for its flag
    return buffer.getbuffer()


def _squeezed(scores: bytes) -> bytes:
    """Of sums, most bytes are chance: compressed they would take four times the time for a twentieth of the room."""
    some = scores[:SAMPLE]
    if len(zlib.compress(some, LEVEL)) < ENOUGH * len(some):
        return b"z" + zlib.compress(scores, LEVEL)
    return b"=" + scores


def unpacked(content: bytes) -> Packed:
    """What `packed` was given."""
    head, scores = _apart(content)
    with np.load(io.BytesIO(zlib.decompress(head)), allow_pickle=False) as arrays:
        written, codes = json.loads(arrays["text"].tobytes()), arrays["codes"]
        values = arrays["scores"] if scores is None else np.frombuffer(scores, dtype=np.float64)
        ends = np.cumsum(arrays["lengths"])[:-1]
    units = [_unit(*each) for each in written["units"]]
    found = shared(units, np.split(codes, ends), np.split(values, ends))
    return Packed(dict(zip(written["queries"], found, strict=bool(written["queries"]))), written["more"])


def _apart(content: bytes) -> tuple[bytes, bytes | None]:
    """What is compressed with numpy's format in it, and the scores; none where they are in it, as they once were."""
    if not content.startswith(MARK):
        return content, None
    begin = len(MARK) + 8
    end = begin + int.from_bytes(content[len(MARK) : begin], "little")
    scores = content[end + 1 :]
    return content[begin:end], zlib.decompress(scores) if content[end : end + 1] == b"z" else scores


def _unit(unit: str, item: str | None, span: Sequence[int] | None) -> Unit:
    """As it was. Texts are interned: runs over one collection are of the same units."""
    place = None if span is None else (span[0], span[1])
    return sys.intern(unit), None if item is None else sys.intern(item), place
