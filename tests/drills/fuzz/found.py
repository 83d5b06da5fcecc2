"""Inputs that once were findings, each with what it did, so that none comes back."""

from __future__ import annotations

from typing import Final

from tests.drills.fuzz.scratch import packed
from tests.drills.fuzz.targets.backups import bent_directory
from tests.drills.fuzz.targets.sources import parquet_seed

LEG: Final = b'\n[[leg]]\nkind = "bm25"\n'

FOUND: Final[dict[str, tuple[bytes, ...]]] = {
    # Nesting in the file of wishes was more than Python's JSON bears.
    "beir_files": (b"[" * 60_000,),
    # A header of very many columns was looked through once for each of them.
    "table_tsv": (b"\t" * 60_000, b"".join(b"c%d\t" % at for at in range(12_000))),
    # An entry without a name was asked for its last letter.
    "beir_zip": (packed("", {"": b"x", "corpus.jsonl": b"{}"}),),
    # The scanner of lines looked at the line after the last one, and there was none at all.
    "asciidoc": (b"",),
    # Control characters are read by the HTML parser, and not taken back as a text, literal or as references.
    "html_file": (b"<main><pre>\x01\x00<b>x</b></pre><li><p>&#1;</p></li><p>text</p></main>",),
    # A column's name that is not UTF-8 was an error of Python's.
    "table_parquet": (parquet_seed().replace(b"text", b"te\x80t"),),
    # A way of packing, or a need of a password, that zipfile knows of and has not got.
    "run_rankings_inside": (bent_directory(8, 1), bent_directory(10, 99)),
    # Damaged statistics of a column ended the whole process, inside pyarrow, when the column was asked for its size.
    "table_parquet_bent": (bytes.fromhex("f8ac16"),),
    # Nesting and numbers without end made tomllib raise what is none of its own errors.
    "variant": (b"a = " + b"[" * 5_000, b"top_k = " + b"9" * 5_000 + LEG, b"top_k = 0x" + b"f" * 5_000 + LEG),
    "suite": (b"a = " + b"{a = " * 2_000, b"seed = " + b"9" * 5_000, b"seed = 0x" + b"f" * 5_000),
    "notebook": (b"```search\nquery = " + b"9" * 5_000 + b"\n```\n", b"```search\nx = 0x" + b"f" * 5_000 + b"\n```\n"),
    "synonym_tables": (b"two_way = " + b"9" * 5_000,),
    "toml_form": (b"a = " + b"9" * 5_000,),
}
