"""Files that become far more than they are: each is read in bounded memory, or refused in a sentence."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from core.errors import InputError
from core.types import Flaw, Place, Query, Row
from evals.runs import exchange
from evals.runs.types import RunSubject
from evals.sources import ItemColumns, TabularSource
from evals.sources.json_lines import MOST_PARTS, parse_object
from evals.sources.parquet_rows import LARGEST_FOOTER, MOST_COLUMNS, decoded_sizes, most_elements
from evals.sources.table_files import _Feed, opened_table
from evals.types import QuerySplit

PROJECT = Path(__file__).parents[2]
SUBJECT = RunSubject("docs", 3, "default", b"digest", "test")
MEMORY = 1_500 * 2**20  # bytes that a reader may have beyond what its imports take
READ = """
import resource, sys
from pathlib import Path
import pyarrow.parquet, numpy
from core.errors import InputError
from evals.sources.table_files import opened_table
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]),) * 2)
count = 0
try:
    with opened_table(Path(sys.argv[1])) as table:
        for row in table.rows:
            count += 1
except InputError as error:
    print(count, error.message)
"""


def output_in_little_memory(file: Path) -> str:
    """How many rows came, and why no more did, of a process that gets no more memory than that."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is not counted so here")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ, str(file), str(MEMORY)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def write_parquet(path: Path, **columns: Any) -> Path:
    """As a writer of another kind makes it: what was a dictionary is read as texts."""
    options = {"compression": "zstd", "use_dictionary": True, "dictionary_pagesize_limit": 64 * 2**20}
    parquet.write_table(pa.table(columns), path, store_schema=False, **options)
    return path


def often(value: str, count: int) -> Any:
    """One value, that many times: in the file it stands once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))


# -- Parquet -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dictionarys_entry_is_not_decoded_for_all_rows_at_once(tmp_path):
    file = write_parquet(tmp_path / "bomb.parquet", id=pa.array(range(4000)), text=often("x" * 15_000_000, 4000))
    assert file.stat().st_size < 32_000
    said = output_in_little_memory(file)
    assert said.startswith("1 Unpacking was stopped: more came out than")
    assert "write it as JSONL" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is not limited so here")
@pytest.mark.parametrize(
    ("count", "said"), [(100, "Unpacking was stopped"), (1500, "A few of its rows need more than 1,073,741,824 bytes")]
)
def test_a_list_of_one_row_takes_no_more_memory_than_there_is_for_it(tmp_path, count, said):
    texts = often("x" * 1_000_000, count)
    file = write_parquet(tmp_path / "bomb.parquet", id=pa.array([1]), tags=pa.ListArray.from_arrays([0, count], texts))
    assert file.stat().st_size < 32_000
    with pytest.raises(InputError, match=said) as caught:
        list(TabularSource(path=file, columns=ItemColumns(id="id", text="id")).items())
    assert "write it as JSONL" in str(caught.value)


@pytest.mark.slow
def test_a_row_that_is_too_long_is_left_out_alone(tmp_path):
    long = np.random.default_rng(1).integers(97, 123, 33 * 2**20, np.uint8).tobytes().decode()
    file = write_parquet(tmp_path / "d.parquet", _id=["a", "b", "c"], text=["one", long, "three"])
    rows = list(TabularSource(path=file).items())
    assert [row.value.id for row in rows if isinstance(row, Row)] == ["a", "c"]
    (flaw,) = (row for row in rows if isinstance(row, Flaw))
    assert (flaw.place.line, "longer than 33,554,432 bytes" in flaw.message) == (2, True)


@pytest.mark.slow
def test_texts_in_lists_come_back_as_they_were(tmp_path):
    tags = [["a", None, "b"], [], None, ["\N{SNOWMAN}"]] * 700
    maps = [{"k": "v"}, {}, None, {"l": "w", "m": ""}] * 700
    nested = [[{"t": ["x", "y"]}], [], None, [{"t": None}]] * 700
    table = pa.table(
        {
            "tags": pa.array(tags, pa.list_(pa.string())),
            "maps": pa.array(
                [None if each is None else list(each.items()) for each in maps], pa.map_("string", "string")
            ),
            "nested": pa.array(nested, pa.list_(pa.struct([("t", pa.list_(pa.string()))]))),
            "when": pa.array([dt.date(2024, 1, 2), None] * 1400),
        }
    )
    parquet.write_table(table, tmp_path / "d.parquet", row_group_size=1000)
    with opened_table(tmp_path / "d.parquet") as opened:
        rows = [row.value for row in opened.rows if isinstance(row, Row)]
    assert [row["tags"] for row in rows] == tags
    assert [row["nested"] for row in rows] == nested
    assert [dict(row["maps"] or {}) for row in rows] == [each or {} for each in maps]
    assert [row["when"] for row in rows] == ["2024-01-02", None] * 1400


@pytest.mark.slow
def test_lists_of_a_damaged_file_are_told_as_such(tmp_path):
    rng = np.random.default_rng(1)
    tags = [[rng.bytes(30).hex()] for _ in range(20_000)]
    file = write_parquet(tmp_path / "d.parquet", id=pa.array(range(len(tags))), tags=pa.array(tags))
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40_000] = bytes(40_000)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged after row \d+ \("):
        list(TabularSource(path=file, columns=ItemColumns(id="id", text="id")).items())


CLAIMED = """
    15 02 19 1c 48 06 73 63 68 65 6d 61 15 00 00  version 1, and a schema of no columns
    16 80 80 b4 cc d4 df c6 03                    10^15 rows
    19 1c 19 0c 16 00 16 80 80 b4 cc d4 df c6 03  a row group of no columns and as many rows
    00 00
"""


@pytest.mark.slow
def test_rows_without_a_column_are_not_made_as_many_as_a_file_claims(tmp_path):
    """pyarrow would take memory for all of them, and end this very process."""
    footer = bytes.fromhex("".join(line[:48].strip() for line in CLAIMED.splitlines()))
    file = tmp_path / "bomb.parquet"
    file.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert parquet.read_metadata(file).num_rows == 10**15
    assert "has no columns" in output_in_little_memory(file)


def test_a_parquet_file_has_no_more_columns_than_any_table(tmp_path):
    names = [f"c{number}" for number in range(MOST_COLUMNS + 1)]
    parquet.write_table(pa.table([pa.array([], pa.int8())] * len(names), names), tmp_path / "d.parquet")
    with pytest.raises(InputError, match=f"has {MOST_COLUMNS + 1:,} columns"):
        list(TabularSource(path=tmp_path / "d.parquet").items())


def test_a_footer_that_is_longer_than_any_is_not_read(tmp_path):
    content = bytes(LARGEST_FOOTER + 1) + (LARGEST_FOOTER + 1).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "d.parquet").write_bytes(b"PAR1" + content)
    with pytest.raises(InputError, match="footer is longer than 8,388,608 bytes"):
        list(TabularSource(path=tmp_path / "d.parquet").items())


@pytest.mark.parametrize("groups", [1, 7])
def test_the_footer_tells_how_many_elements_a_column_has(tmp_path, groups):
    tags = pa.array([list(range(number % 5)) for number in range(1000)])
    table = pa.table({"a": pa.array(["x"] * 1000), "tags": tags})
    parquet.write_table(table, tmp_path / "d.parquet", row_group_size=1000 // groups + 1)
    metadata = parquet.read_metadata(tmp_path / "d.parquet")
    groups_and_columns = ((group, at) for group in range(groups) for at in range(metadata.num_columns))
    expected = max(metadata.row_group(group).column(at).num_values for group, at in groups_and_columns)
    assert metadata.num_row_groups == groups
    assert most_elements(tmp_path / "d.parquet") == expected


@pytest.mark.parametrize("length", [0, 1, 5, 200, 2**31])
def test_a_footer_that_says_nothing_of_it_leaves_room_for_very_many(tmp_path, length):
    (tmp_path / "d.parquet").write_bytes(b"\x19\xff" * 100 + length.to_bytes(4, "little") + b"PAR1")
    assert most_elements(tmp_path / "d.parquet") > 2**60


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        (pa.array(["a", None, "\N{SNOWMAN}"]), [9, 8, 11]),
        (pa.array([b"abc"], pa.large_binary()), [11]),
        (pa.array([1, None]), [8, 8]),
        (pa.array(["abc", None, "abc"]).dictionary_encode(), [11, 0, 11]),
        (pa.array([["a", "b"], [], None]), [8 + 18, 8, 8]),
        (pa.array([["z"], ["a", "b"], ["c"]]).slice(1, 2), [8 + 18, 8 + 9]),
        (pa.array([{"a": "x", "b": 1}]), [8 + 9 + 8]),
        (pa.array([[("k", "vv")]], pa.map_("string", "string")), [8 + 8 + 9 + 10]),
        (pa.array([b"12345678901234567890"], pa.binary(20)), [20]),
        (pa.array([[1, 2, 3]], pa.list_(pa.int64(), 3)), [8 + 24]),
        (pa.array([], pa.list_(pa.string())), []),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values_are_charged_with_what_they_become(values, sizes):
    assert decoded_sizes(values).tolist() == sizes


# -- lines -------------------------------------------------------------------------------------------------------------


def test_a_record_of_many_lines_ends_where_one_line_would_have_to():
    """A quote that stays open makes one record of all that follows, however short its fields are."""
    rows = [Row(text, Place("d.csv", line)) for line, text in enumerate(['"a\n', *['","b\n'] * 100, "c,d\n"], 1)]
    feed = _Feed(iter(rows), longest=50)
    reader = csv.reader(feed)
    with pytest.raises(csv.Error, match="longer than 50 characters"):
        next(reader)
    assert feed.count < 20


def test_a_header_names_no_more_columns_than_any_table_has(tmp_path):
    (tmp_path / "d.csv").write_text(",".join(f"c{number}" for number in range(MOST_COLUMNS + 1)) + "\n")
    with pytest.raises(InputError, match=f"names {MOST_COLUMNS + 1:,} columns"):
        list(TabularSource(path=tmp_path / "d.csv").items())


def test_a_line_of_json_holds_so_many_values_and_as_much_text_as_there_is_room_for():
    many = parse_object(Row('{"a": [' + "1," * MOST_PARTS + "1]}", Place("d.jsonl", 3)))
    assert isinstance(many, Flaw)
    assert f"{MOST_PARTS:,} are allowed" in many.message
    text = json.dumps({"text": 'a, [b] \\ " {' * (MOST_PARTS // 2)})
    assert isinstance(parse_object(Row(text, Place("d.jsonl", 3))), Row)


@pytest.mark.slow
def test_rows_that_tell_the_columns_are_few_where_they_are_long(tmp_path):
    with (tmp_path / "d.jsonl").open("w") as file:
        for number in range(5):
            file.write(json.dumps({f"c{number}": "x" * 10 * 2**20}) + "\n")
    with opened_table(tmp_path / "d.jsonl") as table:
        assert table.columns == ("c0", "c1", "c2", "c3")
        assert len(list(table.rows)) == 5


@pytest.mark.parametrize("name", ["x.run", "x.csv"])
def test_a_run_that_has_no_room_in_memory_is_refused_with_a_way_out(tmp_path, name):
    separator, header = (" ", "") if name.endswith("run") else (",", "query,q0,item,rank,score,tag\n")
    lines = (separator.join(("q1", "Q0", f"d{rank}", str(rank), str(-rank), "tag")) for rank in range(200))
    (tmp_path / name).write_text(header + "\n".join(lines))
    split = QuerySplit("test", {"q1": Query("q1", "q1")})
    with pytest.raises(InputError, match=r"more than 20,000 bytes in memory.*Cut its rankings") as caught:
        exchange.read_run(tmp_path / name, SUBJECT, split, largest=20_000)
    assert caught.value.line
    assert exchange.read_run(tmp_path / name, SUBJECT, split).run.rankings["q1"].length == 200
