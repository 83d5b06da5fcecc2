"""Rankings as arrays over one table of units, and their bytes as runs store them."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import StoreError
from core.legs import Leg

T = TypeVar("T")
Span = tuple[int, int]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UnitTable:
    """Items or chunks, by number: their ids, which item each is part of, and where in its text.

    The latter two are empty where units are items.
    """

    ids: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Ranking:
    """One query's ranking, best first: units (items or chunks) with their scores.

    `items` says which item each unit is part of and `spans` where in its text; both are empty where units are items.
    `units` may be those of many rankings: `codes` are then the numbers of this one's. `values` are the scores as they
    are held; the other properties give plain values, made anew at each call.
    """

    units: UnitTable
    codes: Codes | None  # None: all units, in their order
    values: Floats

    def __init__(
        self,
        ids: Sequence[str] = (),
        scores: ArrayLike = (),
        items: Sequence[str] = (),
        spans: Sequence[Span] = (),
    ) -> None:
        self._hold(UnitTable(tuple(ids), tuple(items), tuple(spans)), None, np.array(scores, dtype=np.float64))

    @classmethod
    def among(cls, units: UnitTable, codes: Codes, values: Floats) -> Self:
        """A ranking of units that are shared with others."""
        made = cls.__new__(cls)
        made._hold(units, codes, values)
        return made

    def _hold(self, units: UnitTable, codes: Codes | None, values: Floats) -> None:
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "values", values)

    @property
    def length(self) -> int:
        return len(self.units.ids) if self.codes is None else len(self.codes)

    @property
    def ids(self) -> tuple[str, ...]:
        return self._picked(self.units.ids)

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(self.values.tolist())

    @property
    def items(self) -> tuple[str, ...]:
        return self._picked(self.units.items)

    @property
    def spans(self) -> tuple[Span, ...]:
        return self._picked(self.units.spans)

    @property
    def item_ids(self) -> tuple[str, ...]:
        """The items in the order of their best units, each once."""
        return tuple(dict.fromkeys(self.items or self.ids))

    def at(self, places: Sequence[int] | slice) -> Ranking:
        """The hits at these places, in that order."""
        chosen = places if isinstance(places, slice) else np.asarray(places, dtype=np.int64)
        codes = np.arange(self.length, dtype=np.int32) if self.codes is None else self.codes
        return Ranking.among(self.units, codes[chosen], self.values[chosen])

    def then(self, more: Ranking) -> Ranking:
        """This ranking with another one below it."""
        if not more.length or not self.length:
            return self if self.length else more
        if self.units is more.units and self.codes is not None and more.codes is not None:
            codes, values = np.concatenate([self.codes, more.codes]), np.concatenate([self.values, more.values])
            return Ranking.among(self.units, codes, values)
        return Ranking(self.ids + more.ids, self.scores + more.scores, self.items + more.items, self.spans + more.spans)

    def _picked(self, column: tuple[T, ...]) -> tuple[T, ...]:
        if self.codes is None or not column:
            return column
        return tuple(map(column.__getitem__, self.codes.tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranking):
            return NotImplemented
        return self._plain == other._plain

    def __hash__(self) -> int:
        return hash(self._plain)

    def __repr__(self) -> str:
        return "Ranking(ids={!r}, scores={!r}, items={!r}, spans={!r})".format(*self._plain)

    @property
    def _plain(self) -> tuple[tuple[str, ...], tuple[float, ...], tuple[str, ...], tuple[Span, ...]]:
        return self.ids, self.scores, self.items, self.spans


Rankings = Mapping[str, Ranking]  # by query id


def cut_off(rankings: Rankings, top_k: int, *, keep: bool = True) -> tuple[dict[str, Ranking], dict[str, Ranking]]:
    """The first `top_k` of each ranking; and what is behind them, where that is to be kept."""
    first = {query: ranked.at(slice(top_k)) if ranked.length > top_k else ranked for query, ranked in rankings.items()}
    behind = {query: ranked.at(slice(top_k, None)) for query, ranked in rankings.items() if ranked.length > top_k}
    return first, behind if keep else {}


Unit = tuple[str, str | None, Span | None]  # its id, its item, its span


def numbered(rankings: Iterable[Ranking]) -> tuple[list[Unit], Codes]:
    """Every unit of these rankings once, in the order in which it is first met; and each hit's number among them."""
    numbers: dict[Unit, int] = {}
    parts = [np.zeros(0, dtype=np.int32)]
    for _, alike in groupby(rankings, key=lambda ranking: id(ranking.units)):
        group = list(alike)
        units = group[0].units
        codes = np.concatenate(
            [np.arange(each.length, dtype=np.int32) if each.codes is None else each.codes for each in group]
        )
        met = np.arange(len(codes)) if group[0].codes is None else _in_order_of_first(codes, len(units.ids))
        triples = (
            (units.ids[at], units.items[at] if units.items else None, units.spans[at] if units.spans else None)
            for at in met.tolist()
        )
        number_of = np.zeros(len(units.ids), dtype=np.int32)
        number_of[met] = [numbers.setdefault(unit, len(numbers)) for unit in triples]
        parts.append(number_of[codes])
    return list(numbers), np.concatenate(parts)


def _in_order_of_first(codes: Codes, units: int) -> NDArray[np.int64]:
    """Which numbers there are, in the order in which they come first."""
    first = np.full(units, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several the last one written stays: the first
    there = np.flatnonzero(first >= 0)
    return there[np.argsort(first[there])]


def share_units(rankings: Rankings) -> dict[str, Ranking]:
    """The same rankings, over units that they share."""
    if len({id(ranked.units) for ranked in rankings.values() if ranked.length}) <= 1:
        return dict(rankings)
    units, codes = numbered(rankings.values())
    ends = np.cumsum([ranked.length for ranked in rankings.values()])[:-1]
    values = [ranked.values for ranked in rankings.values()]
    return dict(zip(rankings, shared(units, np.split(codes, ends), values), strict=True))


def shared(units: Sequence[Unit], codes: Iterable[Codes], values: Iterable[Floats]) -> Iterator[Ranking]:
    """Rankings of these units by their numbers. Where some are items and some chunks they share no table: a column
    of it would have holes.
    """
    ids, items, spans = zip(*units, strict=True) if units else ((), (), ())
    columns = [() if set(column) <= {None} else column for column in (items, spans)]
    table = None if any(None in column for column in columns) else UnitTable(ids, *columns)
    for some, scores in zip(codes, values, strict=True):
        if table is not None:
            yield Ranking.among(table, some, scores)
            continue
        found = [units[at] for at in some.tolist()]
        own_items = [item for _, item, _ in found if item is not None]
        own_spans = [span for *_, span in found if span is not None]
        yield Ranking([unit for unit, _, _ in found], scores, own_items, own_spans)


@dataclass(frozen=True, slots=True)
class LegRankings:
    """What one leg found for each query that it answered, under its name in the variant; and how long it took.

    `failures` says why it could not answer the others. The leg itself is kept for its bounds.
    """

    name: str
    leg: Leg
    depth: int
    rankings: Rankings
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


LEVEL = 1  # of compression: a tenth larger than the best, and five times as quick
MARK = b"rankings 2\n"  # what was kept before begins as zlib does
LARGEST: Final = 2**30  # bytes that either part may unpack to


@dataclass(frozen=True, slots=True)
class Packed:
    """What was packed: rankings by query, and whatever plain data came with them."""

    rankings: dict[str, Ranking]
    more: Mapping[str, Any] = field(default_factory=dict)


def encode_rankings(rankings: Rankings, **more: Any) -> bytes:
    """Rankings, and anything that JSON can say."""
    arrays, scores = _arrays(rankings, more)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type] # numpy's stub takes them for its flag
    head = zlib.compress(buffer.getbuffer(), LEVEL)
    return MARK + len(head).to_bytes(8, "little") + head + b"z" + zlib.compress(scores.tobytes(), LEVEL)


def fingerprint(rankings: Rankings) -> bytes:
    """What tells rankings apart: their content alone, in whatever order they come and whatever packs them."""
    arrays, scores = _arrays(dict(sorted(rankings.items())), {})
    digest = hashlib.blake2b(digest_size=16)
    forms = {"text": "u1", "lengths": "<i4", "codes": "<i4", "scores": "<f8"}
    for name, part in {**arrays, "scores": scores}.items():
        content = part.astype(forms[name]).tobytes()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.digest()


def _arrays(rankings: Rankings, more: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Floats]:
    units, codes = numbered(rankings.values())
    written = json.dumps({"queries": list(rankings), "units": units, "more": more}).encode()
    lengths = np.array([ranked.length for ranked in rankings.values()], dtype=np.int32)
    scores = np.concatenate([np.zeros(0), *(ranked.values for ranked in rankings.values())])
    return {"text": np.frombuffer(written, dtype=np.uint8), "lengths": lengths, "codes": codes}, scores


def decode_rankings(content: bytes) -> Packed:
    """What `encode_rankings` was given; StoreError for anything else: anybody may write a backup with runs."""
    try:
        return _decode(content)
    except Exception as error:  # zipfile and numpy raise whatever their parsing happens to raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"Its rankings are damaged, or no Rankbook wrote them ({reason:.200}).") from error


def _decode(content: bytes) -> Packed:
    """Also of earlier forms: with the scores among the arrays, or behind them as they are."""
    head, scores = content, None
    if content.startswith(MARK):
        begin = len(MARK) + 8
        end = begin + int.from_bytes(content[len(MARK) : begin], "little")
        head, scores = content[begin:end], content[end:]
    with np.load(io.BytesIO(_inflate(head, LARGEST)), allow_pickle=False) as arrays:
        if any(member.compress_type != zipfile.ZIP_STORED for member in arrays.zip.infolist()):
            raise ValueError("they are packed twice")
        written, codes, lengths = json.loads(arrays["text"].tobytes()), arrays["codes"], arrays["lengths"]
        if scores is None:
            values = arrays["scores"]
        else:
            plain = _inflate(scores[1:], 8 * codes.size) if scores[:1] == b"z" else scores[1:]
            values = np.frombuffer(plain, dtype=np.float64)
    # Texts are interned: runs over one collection are of the same units.
    units: list[Unit] = [
        (sys.intern(unit), None if item is None else sys.intern(item), None if span is None else (span[0], span[1]))
        for unit, item, span in written["units"]
    ]
    fits = codes.ndim == values.ndim == lengths.ndim == 1 and codes.size == values.size == lengths.sum()
    if not (fits and (lengths >= 0).all() and (codes >= 0).all() and (codes < len(units)).all()):
        raise ValueError("their parts do not fit together")
    ends = np.cumsum(lengths)[:-1]
    found = shared(units, np.split(codes, ends), np.split(values, ends))
    return Packed(dict(zip(written["queries"], found, strict=bool(written["queries"]))), written["more"])


def _inflate(content: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(content, most + 1)
    if len(plain) > most:
        raise ValueError(f"they unpack to more than {most:,} bytes")
    if not unpacker.eof:
        raise ValueError("they are cut off")
    return plain
