"""Rankings as few bytes, and back: what the store keeps of legs and runs. Every distinct unit is written once.

The bytes are numpy's own format, text in it as JSON, and zlib over it where that helps; nothing that runs code on being
read. They read back equal, scores to the last bit.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import StoreError
from evals.rankings import Codes, Floats, Ranked, Rankings, Unit, numbered, shared

LEVEL = 1  # of compression: a tenth larger than the best, and five times as quick
MARK = b"rankings 2\n"  # what was kept before begins as zlib does
LARGEST: Final = 2**30  # bytes that either part may unpack to
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
    """What `packed` was given; StoreError where this is nothing that it made: anybody may write a backup with runs."""
    try:
        return _unpacked(content)
    except Exception as error:  # zipfile and numpy raise whatever their parsing happens to raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"Its rankings are damaged, or no Rankbook wrote them ({reason:.200}).") from error


def _unpacked(content: bytes) -> Packed:
    head, scores = _apart(content)
    with np.load(io.BytesIO(_inflated(head, LARGEST)), allow_pickle=False) as arrays:
        if any(member.compress_type != zipfile.ZIP_STORED for member in arrays.zip.infolist()):
            raise ValueError("they are packed twice")
        written, codes, lengths = json.loads(arrays["text"].tobytes()), arrays["codes"], arrays["lengths"]
        values = arrays["scores"] if scores is None else _scores(scores, codes.size)
    units = [_unit(*each) for each in written["units"]]
    _check_fit(units, lengths, codes, values)
    ends = np.cumsum(lengths)[:-1]
    found = shared(units, np.split(codes, ends), np.split(values, ends))
    return Packed(dict(zip(written["queries"], found, strict=bool(written["queries"]))), written["more"])


def _apart(content: bytes) -> tuple[bytes, bytes | None]:
    """What is compressed with numpy's format in it, and the scores; none where they are in it, as they once were."""
    if not content.startswith(MARK):
        return content, None
    begin = len(MARK) + 8
    end = begin + int.from_bytes(content[len(MARK) : begin], "little")
    return content[begin:end], content[end:]


def _scores(content: bytes, count: int) -> Floats:
    """As many as there are units in the rankings."""
    plain = _inflated(content[1:], 8 * count) if content[:1] == b"z" else content[1:]
    return np.frombuffer(plain, dtype=np.float64)


def _inflated(content: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(content, most + 1)
    if len(plain) > most:
        raise ValueError(f"they unpack to more than {most:,} bytes")
    if not unpacker.eof:
        raise ValueError("they are cut off")
    return plain


def _check_fit(units: Sequence[Unit], lengths: Codes, codes: Codes, values: Floats) -> None:
    """Every number is that of a unit, and each of them has its score."""
    fits = codes.ndim == values.ndim == lengths.ndim == 1 and codes.size == values.size == lengths.sum()
    if not (fits and (lengths >= 0).all() and (codes >= 0).all() and (codes < len(units)).all()):
        raise ValueError("their parts do not fit together")


def _unit(unit: str, item: str | None, span: Sequence[int] | None) -> Unit:
    """As it was. Texts are interned: runs over one collection are of the same units."""
    place = None if span is None else (span[0], span[1])
    return sys.intern(unit), None if item is None else sys.intern(item), place
