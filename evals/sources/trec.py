"""TREC collections: documents and topics in SGML or tab-separated, and qrels. Files are scanned in a sliding window."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

from pydantic import Field, field_validator

from core.errors import InputError
from core.types import Flaw, Item, Place, Query, Row
from evals.sources.base import Source, Texts, sources
from evals.sources.files import exists, open_file, walk
from evals.sources.folder import require_folder
from evals.sources.rows import SAMPLE, extrapolate, item_rows, read_lines, read_qrels, shown
from evals.types import Label

MAX_DOCUMENT = 32 * 2**20
MAX_TAG = 4096  # bytes of a tag that may be cut by the edge of the window
_READ = 256 * 1024
_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]{0,63})(?:\s[^<>]*)?/?>")
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|<[!?][^<>]*>")
_BLANKS = re.compile(r"[ \t\r\f\v]+")


@dataclass
class _Scanner:
    """A window over the stream that counts the lines it drops."""

    stream: BinaryIO
    window: bytes = b""
    line: int = 1
    ended: bool = False

    def more(self) -> bool:
        block = self.stream.read(_READ)
        self.ended = not block
        self.window += block
        return bool(block)

    def drop(self, count: int) -> None:
        self.line += self.window.count(b"\n", 0, count)
        self.window = self.window[count:]

    def seek(self, mark: re.Pattern[bytes]) -> bool:
        """Drop everything before the next opening tag; False where there is none."""
        while True:
            if hit := next((hit for hit in mark.finditer(self.window) if not hit[1]), None):
                self.drop(hit.start())
                return True
            # A tag may be cut by the window's edge, so what follows the last "<" is kept, unless it is too long.
            edge = self.window.rfind(b"<")
            self.drop(edge if 0 <= edge > len(self.window) - MAX_TAG else len(self.window))
            if not self.more():
                return False

    def block_end(self, mark: re.Pattern[bytes]) -> int | str:
        """Where the block at the window's start ends; or what is wrong with it, in which case it is dropped."""
        start = 1
        while True:
            hit = mark.search(self.window, start)
            if hit and hit[1]:
                return hit.end()
            if hit:
                self.drop(hit.start())
                return "is not closed before the next one"
            start = max(start, len(self.window) - MAX_TAG)
            if len(self.window) > MAX_DOCUMENT:
                self.drop(len(self.window))
                return f"is longer than {MAX_DOCUMENT:,} bytes"
            if not self.more():
                self.drop(len(self.window))
                return "is not closed before the end of the file"


def read_blocks(stream: BinaryIO, file: str, tag: str) -> Iterator[Row[bytes] | Flaw]:
    """The bytes from each `<tag>` to its `</tag>`, both included, with the line of the opening tag."""
    scanner = _Scanner(stream)
    mark = re.compile(rb"<(/?)" + re.escape(tag.encode()) + rb"(?:\s[^<>]*)?>", re.IGNORECASE)
    while scanner.seek(mark):
        place = Place(file, scanner.line)
        end = scanner.block_end(mark)
        if isinstance(end, str):
            yield Flaw(place, f"The <{tag}> that begins here {end}. It was left out.")
        else:
            yield Row(scanner.window[:end], place)
            scanner.drop(end)


def fields_of(block: str) -> dict[str, list[str]]:
    """The texts of the outermost elements inside a block, by lower-case name."""
    inner = block[block.find(">") + 1 : block.rfind("<")]
    last_close = {hit[2].lower(): hit.start() for hit in _TAG.finditer(inner) if hit[1]}
    fields: dict[str, list[str]] = defaultdict(list)
    name, start = "", 0
    for hit in _TAG.finditer(inner):
        tag = hit[2].lower()
        if not name and not hit[1] and last_close.get(tag, -1) > hit.start():
            name, start = tag, hit.end()
        elif name == tag and hit[1]:
            fields[name].append(flat_text(inner[start : hit.start()]))
            name = ""
    return dict(fields)


def loose_fields_of(block: str) -> dict[str, list[str]]:
    """The same for classic topics, where a tag's content runs to the next tag, closed or not."""
    fields: dict[str, list[str]] = defaultdict(list)
    hits = list(_TAG.finditer(block))
    for hit, following in pairwise(hits):
        if not hit[1]:
            fields[hit[2].lower()].append(flat_text(block[hit.end() : following.start()]))
    return dict(fields)


def flat_text(markup: str) -> str:
    """Text without tags and entities. Line breaks are kept, as they may end paragraphs."""
    bare = _MARKUP.sub(" ", markup.replace("<![CDATA[", " ").replace("]]>", " "))
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in html.unescape(bare).split("\n")).strip()


_LABEL = re.compile(r"^\s*(?:Number|Topic|Description|Narrative|Title)\s*:\s*", re.IGNORECASE)
_SNIFF = 64 * 1024
_NAME = r"^[A-Za-z][\w.:-]{0,63}$"


@sources.register("trec")
class TrecSource(Source):
    """Documents in TREC's SGML (valid XML or not), XML or TSV; topics; qrels for each split."""

    kind: ClassVar[str] = "trec"
    documents: Path = Field(description="A file, or a folder that is read with all folders below it; .gz is unpacked.")
    document_format: Literal["auto", "sgml", "tsv"] = Field(
        default="auto",
        description="sgml (XML too), tsv (id, text or id, title, text), or auto: by what the file begins with.",
    )
    document_tag: str = Field(default="doc", pattern=_NAME, description="The element that is a document.")
    id_tag: str = Field(default="docno", pattern=_NAME, description="The element inside it that is the id.")
    title_tags: Texts = Field(
        default=("title", "headline", "hl", "ti"), description="Elements that can be the title; the first one there is."
    )
    text_tags: Texts = Field(
        default=("text",), description="Elements that are the text; where there are none, all that is not id or title."
    )
    topics: Path | None = Field(
        default=None, description="Topics: <top> with <num> and <title>, <topic> in XML, or TSV id, text."
    )
    topic_fields: Texts = Field(
        default=("title",), min_length=1, description="The topic's parts that make up the query: title, desc, narr."
    )
    qrels: dict[str, Path] = Field(
        default={}, description="A qrels file for each split; one path alone is the split test."
    )

    @field_validator("qrels", mode="before")
    @classmethod
    def _one_file_is_test(cls, value: object) -> object:
        return {"test": value} if isinstance(value, (str, Path)) else value or {}

    @field_validator("title_tags", "text_tags", "topic_fields")
    @classmethod
    def _lower(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.lower() for name in value)

    def items(self) -> Iterator[Row[Item] | Flaw]:
        if not exists(self.documents):
            message = (
                "There is nothing here; a file of TREC documents or a folder of them was expected. Check the path."
            )
            raise InputError(message, path=self.documents)
        for path in self._files():
            if isinstance(path, Flaw):
                yield path
                continue
            with open_file(path) as stream:
                read = self._tsv_items if self._is_tsv(stream) else self._sgml_items
                yield from read(stream, str(path))

    def size(self) -> int | None:
        """An estimate from the beginning of the files, if none is packed."""
        with suppress(InputError, OSError):
            paths = [path for path in self._files() if isinstance(path, Path)]
            if any(path.name.endswith(".gz") for path in paths):
                return None
            documents = read = 0
            for path in paths:
                if read >= SAMPLE:
                    break
                with open_file(path) as stream:
                    mark = rb"\n" if self._is_tsv(stream) else self._opening
                    sample = stream.read(SAMPLE - read)
                documents, read = documents + len(re.findall(mark, sample, re.IGNORECASE)), read + len(sample)
            return extrapolate(documents, read, sum(path.stat().st_size for path in paths))
        return None  # errors are raised when the rows are read

    @property
    def _opening(self) -> bytes:
        return rb"<" + re.escape(self.document_tag.encode()) + rb"[\s>]"

    def _files(self) -> Iterator[Path | Flaw]:
        if not self.documents.is_dir():
            return iter((self.documents,))
        require_folder(self.documents, "a folder of TREC documents")
        return walk(self.documents, ("",))

    def _is_tsv(self, stream: BinaryIO) -> bool:
        if self.document_format != "auto":
            return self.document_format == "tsv"
        ahead: bytes = stream.peek(_SNIFF)  # type: ignore[attr-defined]
        return not starts_with_tag(stream) and not re.search(
            rb"^\s*" + self._opening, ahead, re.IGNORECASE | re.MULTILINE
        )

    def _tsv_items(self, stream: BinaryIO, file: str) -> Iterator[Row[Item] | Flaw]:
        for row in _tsv(stream, file):
            if isinstance(row, Flaw):
                yield row
            else:
                identity, *title, text = row.value
                yield from item_rows(Row({"_id": identity, "title": " ".join(title), "text": text}, row.place))

    def _sgml_items(self, stream: BinaryIO, file: str) -> Iterator[Row[Item] | Flaw]:
        for block in read_blocks(stream, file, self.document_tag):
            if isinstance(block, Flaw):
                yield block
                continue
            source, problem = _decode(block.value)
            parts = fields_of(source)
            identity = " ".join(parts.pop(self.id_tag.lower(), [])) or None
            titles = [" ".join(parts.pop(tag)) for tag in self.title_tags if tag in parts]
            fields: dict[str, Any] = {"_id": identity, "title": " ".join(titles[:1]).replace("\n", " ")}
            if texts := [text for tag in self.text_tags for text in parts.pop(tag, [])]:
                fields["text"] = "\n\n".join(texts)
                fields["metadata"] = {name: " ".join(part) for name, part in parts.items() if any(part)}
            else:
                fields["text"] = "\n".join(text for part in parts.values() for text in part)
            yield from item_rows(Row(fields, block.place))
            if problem:
                yield Flaw(block.place, problem, "cleaned", identity or "")

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        if self.topics is None:
            return
        with open_file(self.topics) as stream:
            if not starts_with_tag(stream):
                for row in _tsv(stream, str(self.topics)):
                    if isinstance(row, Flaw):
                        yield row
                    elif identity := row.value[0].strip():
                        yield Row(Query(identity, " ".join(row.value[1:])), row.place)
                    else:
                        yield Flaw(row.place, "The topic has no id before the tab.")
                return
            # Classic files have <top>, XML ones <topic> (and <topics> around all of them).
            tag = "top" if re.search(rb"<top[\s>]", stream.peek(_SNIFF), re.IGNORECASE) else "topic"
            for block in read_blocks(stream, str(self.topics), tag):
                if isinstance(block, Flaw):
                    yield block
                    continue
                source, problem = _decode(block.value)
                yield self._topic(Row(source, block.place))
                if problem:
                    yield Flaw(block.place, problem, "cleaned")

    def _topic(self, block: Row[str]) -> Row[Query] | Flaw:
        parts = {
            name: _LABEL.sub("", " ".join(" ".join(part).split()))
            for name, part in loose_fields_of(block.value).items()
        }
        attribute = re.match(r"<[^<>]{0,500}?\b(?:number|id|num)\s*=\s*[\"']?([^\"'<>\s]{1,200})", block.value)
        identity = topic_number(parts.pop("num", "") or (attribute[1] if attribute else ""))
        if not identity:
            return Flaw(block.place, "The topic has no number: neither <num> nor an attribute `number` or `id`.")
        known = {"title", "desc", "narr", *self.topic_fields}
        text = " ".join(parts[name] for name in self.topic_fields if parts.get(name))
        text = text or next((part for name, part in parts.items() if part and name not in ("top", "topic")), "")
        return Row(Query(identity, text, metadata={name: parts[name] for name in parts if name in known}), block.place)

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        for split, path in self.qrels.items():
            with open_file(path) as stream:
                yield from read_qrels(stream, str(path), split)


def topic_number(text: str) -> str:
    """The number without leading zeros: old topics have 051 where their qrels have 51."""
    number = text.strip()
    return number.lstrip("0") or "0" if number.isascii() and number.isdigit() else number


def starts_with_tag(stream: BinaryIO) -> bool:
    """Whether the first character of the stream is `<`; nothing is read."""
    ahead: bytes = stream.peek(_SNIFF)  # type: ignore[attr-defined]
    return ahead.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def _decode(raw: bytes) -> tuple[str, str]:
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError:
        # The newswire discs are Latin-1 where they are not ASCII, and Latin-1 never fails.
        return raw.decode("latin-1"), "The document is not UTF-8; it was read as Latin-1."


def _tsv(stream: BinaryIO, file: str) -> Iterator[Row[list[str]] | Flaw]:
    for line in read_lines(stream, file):
        if isinstance(line, Flaw):
            yield line
        elif line.value.strip():
            cells = line.value.strip("\r\n").split("\t", 2)
            if len(cells) > 1:
                yield Row(cells, line.place)
            else:
                yield Flaw(line.place, f"An id, a tab and a text were expected: {shown(cells[0])}.")
