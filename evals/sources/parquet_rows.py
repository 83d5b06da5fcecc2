"""Rows of a Parquet file, decoded in small batches. Owns the memory limits: a few kilobytes can become gigabytes.

A value that is stored once in a dictionary can be the value of every row, and the list of one row can have billions of
elements. So a batch has fewer rows where values may be long, lists that may be long are decoded in a process with
limited memory, and the decoded size of each row is charged to a budget before Python objects are made of it.
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
MOST_COLUMNS: Final = 10_000  # of a table: each column is a name in every row
FEWEST: Final = 16  # rows of a batch in which each value may be as long as the whole row group
DECODED: Final = 256 * 2**20  # bytes that a batch may become in pyarrow
LARGEST_FOOTER: Final = 8 * 2**20  # bytes
SHORT_FOOTER: Final = 2**20  # bytes; parsing that many takes Python a second
ROOM: Final = 2**30  # bytes for the process that decodes lists, where one row may have any length
SCALAR: Final = 8  # bytes charged for a number, a date and other values of fixed size
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
SMALL_POOLS: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}  # reserved memory counts as used


@contextmanager
def open_parquet(path: Path) -> Iterator[tuple[tuple[str, ...], Iterator[Row[dict[str, Any]] | Flaw]]]:
    """The columns, and the rows; the line of a row is its number, from 1."""
    from pyarrow import lib, parquet

    try:
        if _footer_length(path) > LARGEST_FOOTER:  # pyarrow needs hundreds of times its length
            raise InputError(f"Its footer is longer than {LARGEST_FOOTER:,} bytes. {WAY_OUT}.", path=path)
        file = parquet.ParquetFile(path)  # type: ignore[no-untyped-call]
        if not (columns := file.metadata.num_columns):  # pyarrow makes as many rows as the file claims
            raise InputError("The Parquet file has no columns, and so no rows that could be read.", path=path)
        if columns > MOST_COLUMNS:
            raise InputError(f"The file has {columns:,} columns, and {MOST_COLUMNS:,} are allowed.", path=path)
        names = tuple(file.schema_arrow.names)
        # The stated bytes of each row group unpacked: where statistics are damaged, asking pyarrow for those of a
        # single column ends the whole process.
        groups = (file.metadata.row_group(at) for at in range(file.metadata.num_row_groups))
        sizes = [max(0, group.total_byte_size) for group in groups]
    except (lib.ArrowException, OSError, ValueError) as error:
        raise InputError(f"This is not a readable Parquet file ({_reason(error)}).", path=path) from error
    with file:
        packed = path.stat().st_size
        Budget(str(path), packed, ArchiveLimits(), way_out=WAY_OUT).spend(sum(sizes))
        budget = Budget(str(path), packed, ArchiveLimits(), way_out=WAY_OUT)
        rows = max(FEWEST, min(BATCH, DECODED // max(1, *sizes, 1)))
        # Only Linux enforces the limit; and starting a process takes far longer than reading a small file.
        lists = sys.platform == "linux" and any(
            file.schema.column(at).max_repetition_level for at in range(len(file.schema))
        )
        apart = lists and most_elements(path) * max(sizes, default=0) > DECODED
        batches: Any = _decoded_apart(path, rows) if apart else file.iter_batches(batch_size=rows)  # type: ignore[no-untyped-call]
        with closing(batches):
            yield names, _rows(batches, str(path), budget, lib.ArrowException)


def number_of_rows(path: Path) -> int | None:
    from pyarrow import lib, parquet

    try:
        return int(parquet.read_metadata(path).num_rows)  # type: ignore[no-untyped-call]
    except (lib.ArrowException, OSError, ValueError):
        return None  # the error is raised when the rows are read


def _decoded_apart(path: Path, rows: int) -> Iterator[Any]:
    """The batches, decoded by a process that ends if they do not fit into its memory."""
    from pyarrow import ipc, lib  # type: ignore[attr-defined]

    command = [sys.executable, "-P", "-c", DECODE, str(path), str(rows)]
    environment, pipe, problem = {**os.environ, **SMALL_POOLS}, subprocess.PIPE, ""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment) as decoder:  # noqa: S603
        out, err = cast("BinaryIO", decoder.stdout), cast("BinaryIO", decoder.stderr)
        try:
            try:
                yield from ipc.open_stream(out)  # type: ignore[no-untyped-call]
            except (lib.ArrowException, OSError, EOFError) as error:
                problem = str(error)
            out.close()
            problem = err.read().decode("utf-8", "replace").strip() or problem
            if decoder.wait() == NO_ROOM or decoder.returncode < 0 or "MemoryError" in problem:
                raise InputError(f"A few of its rows need more than {ROOM:,} bytes of memory. {WAY_OUT}.", path=path)
            if decoder.returncode or problem:
                raise ValueError(problem)
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
    """The decoded bytes of each value of an Arrow array, with the values nested in it."""
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
# Where a column's statistics are damaged, asking pyarrow for its number of values ends the whole process. So this one
# number is read here, from Thrift's compact protocol in the layout of parquet.thrift.

_PLACE = (4, 1, 3, 5)  # FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, ColumnMetaData.num_values
_BYTE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 3, 8, 9, 10, 11, 12
_LENGTHS = {1: 1, 2: 1, _BYTE: 1, 7: 8, 13: 16}  # true and false in a list, a byte, a double, a UUID
_DEEPEST, _LONGEST = 32, 64  # structs in structs; bits of a number
_UNKNOWN = 2**63


def most_elements(path: Path) -> int:
    """The largest number of values that a column has in a row group; a very large number if that cannot be read."""
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
    """The length stated at the file's end; 0 if that is not the end of a Parquet file, but of one cut off, say."""
    with path.open("rb") as opened:
        end = opened.seek(-8, 2)
        length, mark = int.from_bytes(opened.read(4), "little"), opened.read(4)
    return length if mark == b"PAR1" and length <= end else 0


class _Thrift:
    """Reads the whole numbers at one place of a struct, and skips everything else."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at, self._numbers = content, 0, list[int]()

    def numbers(self, place: tuple[int, ...]) -> list[int]:
        self._struct(place, _DEEPEST)
        return self._numbers

    def _struct(self, place: tuple[int, ...], deep: int) -> None:
        """`place` is the path to the number: the id of a field of this struct, of a field in that one, and so on."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            if head & 15 >= _BYTE:  # lower kinds are true and false, which have no further bytes
                self._value(head & 15, place[1:] if place[:1] == (field,) else None, deep)

    def _value(self, kind: int, place: tuple[int, ...] | None, deep: int) -> None:
        """`place` is None if the number is not inside this value, and () if this value is the number."""
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
            length = _LENGTHS.get(kind) or self._number()
            self._at += length
            if self._at > len(self._content):
                raise IndexError
        elif (number := self._signed()) and place == ():
            self._numbers.append(number)

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _number(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) & 128 and shift < _LONGEST:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)
