"""Rows of a Parquet file, decoded a few at a time. Owns what one may become: a few kilobytes can say many gigabytes.

A value that stands in a dictionary once can be that of every row, and one row's list can have billions of elements. So
a batch has the fewer rows the longer a value may be, lists that may become long are decoded by a process that has only
so much memory, and each row is charged with the bytes that it becomes before Python gets it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from core.errors import InputError
from core.types import Flaw, Place, Row
from evals.sources.files import ArchiveLimits, Budget
from evals.sources.rows import MAX_LINE, plain

BATCH: Final = 1024  # rows
MOST_COLUMNS: Final = 10_000  # of a table: each is a name in every row
FEWEST: Final = 16  # rows of a batch whose values may each be as long as all that their row group holds
DECODED: Final = 256 * 2**20  # bytes that a batch may become in pyarrow
LARGEST_FOOTER: Final = 8 * 2**20  # bytes
SHORT_FOOTER: Final = 2**20  # bytes that are looked through, which takes Python a second
ROOM: Final = 2**30  # bytes for the process that decodes lists, of which one row may be as long as it likes
SCALAR: Final = 8  # bytes charged for a number, a date and whatever else has no length
WAY_OUT: Final = "If the file is to be trusted, write it as JSONL and give that"
NO_ROOM: Final = 3
DECODE: Final = f"""
import contextlib, resource, sys
from pathlib import Path
from pyarrow import ipc, lib, parquet
with contextlib.suppress(OSError, ValueError):  # a system that knows no such limit
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + {ROOM},) * 2)
try:
    with parquet.ParquetFile(sys.argv[1], pre_buffer=False) as file:
        with ipc.new_stream(sys.stdout.buffer, file.schema_arrow) as out:
            for batch in file.iter_batches(batch_size=int(sys.argv[2]), use_threads=False):
                out.write_batch(batch)
except BrokenPipeError:
    pass
except MemoryError:
    sys.exit({NO_ROOM})
except (lib.ArrowException, OSError, ValueError) as error:
    sys.exit(str(error)[:1000])
"""
SMALL_POOLS: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}  # what is reserved counts as used


@contextmanager
def opened_parquet(path: Path) -> Iterator[tuple[tuple[str, ...], Iterator[Row[dict[str, Any]] | Flaw]]]:
    """The columns, and the rows; the line of a row is its number, from 1."""
    from pyarrow import lib, parquet

    try:
        if _footer_length(path) > LARGEST_FOOTER:  # which pyarrow makes hundreds of times its length of
            raise InputError(f"Its footer is longer than {LARGEST_FOOTER:,} bytes. {WAY_OUT}.", path=path)
        file = parquet.ParquetFile(path)  # type: ignore[no-untyped-call]
        _refuse_odd_width(file.metadata.num_columns, path)
        columns = tuple(file.schema_arrow.names)
        sizes = _unpacked(file.metadata)
    except (lib.ArrowException, OSError, ValueError) as error:
        raise InputError(f"This is not a readable Parquet file ({_reason(error)}).", path=path) from error
    with file:
        packed = path.stat().st_size
        Budget(str(path), packed, ArchiveLimits(), way_out=WAY_OUT).spend(sum(sizes))
        budget = Budget(str(path), packed, ArchiveLimits(), way_out=WAY_OUT)
        rows = max(FEWEST, min(BATCH, DECODED // max(1, *sizes, 1)))
        # Linux alone holds a process to its memory; and starting one takes far longer than reading a small file.
        lists = _has_lists(file.schema) and sys.platform == "linux"
        apart = lists and most_elements(path) * max(sizes, default=0) > DECODED
        batches: Any = _decoded_apart(path, rows) if apart else file.iter_batches(batch_size=rows)  # type: ignore[no-untyped-call]
        with closing(batches):
            yield columns, _rows(batches, str(path), budget, lib.ArrowException)


def number_of_rows(path: Path) -> int | None:
    from pyarrow import lib, parquet

    try:
        return int(parquet.read_metadata(path).num_rows)  # type: ignore[no-untyped-call]
    except (lib.ArrowException, OSError, ValueError):
        return None  # said in a sentence when the rows are read


def _refuse_odd_width(columns: int, path: Path) -> None:
    """Of rows without a column pyarrow makes as many as the file claims, and what columns take no batch makes less."""
    if columns == 0:
        raise InputError("The Parquet file has no columns, and so no rows that could be read.", path=path)
    if columns > MOST_COLUMNS:
        raise InputError(f"The file has {columns:,} columns, and {MOST_COLUMNS:,} are allowed.", path=path)


def _has_lists(schema: Any) -> bool:
    return any(schema.column(at).max_repetition_level for at in range(len(schema)))


def _unpacked(metadata: Any) -> list[int]:
    """Bytes of each row group unpacked, as far as the file says so.

    By row group: asked of single columns, pyarrow ends the whole process where their statistics are damaged.
    """
    return [max(0, metadata.row_group(at).total_byte_size) for at in range(metadata.num_row_groups)]


def _decoded_apart(path: Path, rows: int) -> Iterator[Any]:
    """The batches, by a process that ends where they do not fit into its memory."""
    from pyarrow import ipc, lib  # type: ignore[attr-defined]

    command = [sys.executable, "-P", "-c", DECODE, str(path), str(rows)]
    environment, pipe, said = {**os.environ, **SMALL_POOLS}, subprocess.PIPE, ""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment) as decoder:  # noqa: S603
        out, err = cast("BinaryIO", decoder.stdout), cast("BinaryIO", decoder.stderr)
        try:
            try:
                yield from ipc.open_stream(out)  # type: ignore[no-untyped-call]
            except (lib.ArrowException, OSError, EOFError) as error:
                said = str(error)
            out.close()
            said = err.read().decode("utf-8", "replace").strip() or said
            if decoder.wait() == NO_ROOM or decoder.returncode < 0 or "MemoryError" in said:
                raise InputError(f"A few of its rows need more than {ROOM:,} bytes of memory. {WAY_OUT}.", path=path)
            if decoder.returncode or said:
                raise ValueError(said)
        finally:
            decoder.kill()


def _rows(
    batches: Iterator[Any], name: str, budget: Budget, arrow_error: type[Exception]
) -> Iterator[Row[dict[str, Any]] | Flaw]:
    import numpy as np

    number = 0
    try:
        for batch in batches:
            sizes = sum((decoded_sizes(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64))
            step = max(1, batch.num_rows) if sizes.sum() <= MAX_LINE else 1
            for at in range(0, batch.num_rows, step):
                budget.spend(int(sizes[at : at + step].sum()))
                if step == 1 and sizes[at] > MAX_LINE:
                    number += 1
                    yield Flaw(Place(name, number), f"The row is longer than {MAX_LINE:,} bytes. It was left out.")
                    continue
                for row in batch.slice(at, step).to_pylist():
                    number += 1
                    yield Row(plain(row), Place(name, number))
    except (arrow_error, OSError, ValueError) as error:
        raise InputError(f"The Parquet file is damaged after row {number} ({_reason(error)}).", path=name) from error


def decoded_sizes(values: Any) -> Any:
    """The bytes that each value of an Arrow array becomes, those inside of it included."""
    import numpy as np
    from pyarrow import ExtensionArray, compute, types  # type: ignore[attr-defined]

    kind, each = values.type, np.full(len(values), SCALAR, np.int64)
    if isinstance(values, ExtensionArray):
        each = decoded_sizes(values.storage)
    elif types.is_dictionary(kind):
        whole = np.append(decoded_sizes(values.dictionary), 0)
        each = whole[values.indices.fill_null(len(whole) - 1).to_numpy(zero_copy_only=False)]
    elif types.is_struct(kind):
        each = sum((decoded_sizes(values.field(at)) for at in range(kind.num_fields)), each)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        offsets = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        inside = decoded_sizes(values.values.slice(offsets[0], offsets[-1] - offsets[0]))
        each += np.diff(np.concatenate([[0], np.cumsum(inside)])[offsets - offsets[0]])
    elif types.is_fixed_size_list(kind):
        each += decoded_sizes(values.flatten()).sum() // max(1, len(values))
    elif types.is_fixed_size_binary(kind):
        each = np.full(len(values), kind.byte_width, np.int64)
    elif any(of(kind) for of in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        each += compute.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    return each


def _reason(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200]


# -- the footer --------------------------------------------------------------------------------------------------------
# pyarrow ends the whole process where it is asked for a column's number of values and the statistics beside it are
# damaged. So this one number is read here: out of Thrift's compact protocol, as parquet.thrift lays it out.

_PLACE = (4, 1, 3, 5)  # FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, ColumnMetaData.num_values
_BYTE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 3, 8, 9, 10, 11, 12
_LENGTHS = {1: 1, 2: 1, _BYTE: 1, 7: 8, 13: 16}  # true and false in a list, a byte, a double, a UUID
_DEEPEST, _LONGEST = 32, 64  # structs in structs; bits of a number
_UNKNOWN = 2**63


def most_elements(path: Path) -> int:
    """How many values a column has in a row group, where it has the most; very many where that is hard to tell."""
    length = _footer_length(path)
    if not 0 < length <= SHORT_FOOTER:
        return _UNKNOWN
    with path.open("rb") as opened:
        opened.seek(-8 - length, 2)
        footer = opened.read(length)
    try:
        return max(_Thrift(footer).numbers(_PLACE), default=_UNKNOWN)
    except (IndexError, RecursionError):
        return _UNKNOWN


def _footer_length(path: Path) -> int:
    """As the file's end says it; 0 where that is no Parquet's, as of one that was cut off."""
    with path.open("rb") as opened:
        end = opened.seek(-8, 2)
        length, mark = int.from_bytes(opened.read(4), "little"), opened.read(4)
    return length if mark == b"PAR1" and length <= end else 0


class _Thrift:
    """A reader of one struct that gives the whole numbers at one place of it and passes over all else."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at, self._found = content, 0, list[int]()

    def numbers(self, place: tuple[int, ...]) -> list[int]:
        self._struct(place, _DEEPEST)
        return self._found

    def _struct(self, place: tuple[int, ...], deep: int) -> None:
        """`place` is the way on to the number: the number of a field here, of one in it, and so on."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            if head & 15 >= _BYTE:  # what is less is true or false, and says nothing more
                self._value(head & 15, place[1:] if place[:1] == (field,) else None, deep)

    def _value(self, kind: int, place: tuple[int, ...] | None, deep: int) -> None:
        """`place` is None where the number is not in it, and () where it is the number."""
        if deep == 0:
            raise RecursionError
        if kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(self._number() if head >> 4 == 15 else head >> 4):
                self._value(head & 15, place, deep - 1)
        elif kind == _MAP:
            size = self._number()
            kinds = self._byte() if size else 0
            for at in range(2 * size):
                self._value(kinds & 15 if at % 2 else kinds >> 4, None, deep - 1)
        elif kind == _STRUCT:
            self._struct(place or (), deep - 1)
        elif kind in _LENGTHS or kind == _BINARY:
            self._skip(_LENGTHS.get(kind) or self._number())
        elif (number := self._signed()) and place == ():
            self._found.append(number)

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _skip(self, count: int) -> None:
        self._at += count
        if self._at > len(self._content):
            raise IndexError

    def _number(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) & 128 and shift < _LONGEST:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)
