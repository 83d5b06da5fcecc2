"""What every registered reader of documents promises, whichever it is."""

from __future__ import annotations

import pytest

from core.errors import RankbookError
from evals.sources import readers as all_readers
from evals.sources.readers import ReadDocument, Reader, readers

NAMES = sorted(readers)
HOSTILE = (
    b"",
    b"\x00",
    b"\xff\xfe\x00",
    b"---\na: [\n---\n",
    b"<" * 5000,
    b"[" * 5000,
    b"= " * 5000,
    b"\r\n\x0c",
    b"PK\x03\x04",
)


def reading(name: str) -> Reader:
    if not readers[name].available():
        pytest.skip(f"{name} needs the extra {readers[name].extra!r}")
    return readers[name]()


def test_no_ending_belongs_to_two_readers():
    endings = [suffix for name in NAMES for suffix in readers[name].suffixes]
    assert len(endings) == len(set(endings))
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in endings)
    assert set(all_readers.suffixes(available=False)) == set(endings)


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_describes_itself_and_names_what_it_needs(name):
    reader = readers[name]
    assert issubclass(reader, Reader)
    assert reader.__doc__
    assert reader.suffixes
    assert reader.available() or reader.extra


HERE = [pytest.param(each, marks=[pytest.mark.slow] if readers[each].extra else []) for each in NAMES]


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("raw", HOSTILE, ids=range(len(HOSTILE)))
def test_any_bytes_give_a_document_or_a_sentence(name, raw):
    try:
        read = reading(name).read(raw)
    except RankbookError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert isinstance(read, ReadDocument)
        assert read.title != ""
        assert all("\n" not in note for note in read.notes)


def test_old_collections_are_read_by_the_first_reader():
    assert all_readers.FIRST == 1
    assert all_readers.FIRST_SUFFIXES == (".md", ".markdown", ".txt", ".html", ".htm")
