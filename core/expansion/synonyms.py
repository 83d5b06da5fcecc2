"""Expansion by synonyms: files of synonyms, and those that a query calls for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.context import RequestContext
from core.errors import InputError
from core.expansion.base import Expansion, Proposal, contains, expansions, folded, words_in
from core.store.search_target import SearchTarget
from core.toml_io import read_toml

LARGEST_FILE = 5_000_000  # bytes
LONGEST_PHRASE = 10  # words
LARGEST_GROUP = 100  # a line of n words that stand for each other makes n * n pairs

_COMMA = re.compile(r"(?<!\\),")
_WANTED = 'Write two_way = [["a", "b"]] and one_way = [{ from = ["a"], to = ["b"] }], all of them texts.'
Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thesaurus:
    """What each phrase calls for, by the phrase's words as they are compared."""

    entries: dict[Phrase, list[str]] = field(default_factory=dict)

    def called_for(self, words: Sequence[str]) -> Iterator[str]:
        """The synonyms of every phrase that the words hold; where several begin at one word, of all of them."""
        for at in range(len(words)):
            for size in range(min(LONGEST_PHRASE, len(words) - at), 0, -1):
                yield from self.entries.get(tuple(words[at : at + size]), ())

    def add(self, phrases: Iterable[str], called_for: Iterable[str]) -> None:
        called_for = list(called_for)
        for phrase in phrases:
            entry = self.entries.setdefault(tuple(words_in(phrase)), [])
            entry += [each for each in called_for if each != phrase and each not in entry]


class _OneWay(BaseModel):
    model_config = ConfigDict(extra="forbid")

    given: list[str] = Field(alias="from")
    to: list[str]


class _Tables(BaseModel):
    model_config = ConfigDict(extra="forbid")

    two_way: list[list[str]] = []
    one_way: list[_OneWay] = []


def from_path(path: str) -> Thesaurus:
    """The file's synonyms. It is read again only after it changed."""
    try:
        file = Path(path).expanduser()
        if not file.is_file():  # nor a device, which never ends
            raise InputError("there is no such file; name a file of synonyms", path=path)
        facts = file.stat()
        if facts.st_size > LARGEST_FILE:
            size = f"{facts.st_size:,}"
            raise InputError(f"the file has {size} bytes, and at most {LARGEST_FILE:,} are read", path=path)
        return _read(path, facts.st_mtime_ns, facts.st_size)
    except (OSError, ValueError) as error:  # a ValueError is what a path with a NUL gives
        raise InputError("the file cannot be read; check its name and that you may read it", path=path) from error


@lru_cache(maxsize=16)
def _read(path: str, changed: int, size: int) -> Thesaurus:  # noqa: ARG001 - they tell one state of the file from another
    with Path(path).expanduser().open("rb") as opened:
        content = opened.read(LARGEST_FILE + 1)[:LARGEST_FILE]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("this is not UTF-8; save the file as UTF-8", path=path, line=line) from error
    return _from_toml(text, path) if path.lower().endswith(".toml") else from_lines(tuple(text.splitlines()), path)


@lru_cache(maxsize=64)
def from_lines(lines: tuple[str, ...], called: str) -> Thesaurus:
    """Lines such as `a, b` and `a, b => c`. What follows a # is a remark; a backslash makes a comma part of a word."""
    thesaurus = Thesaurus()
    for number, line in enumerate(lines, start=1):
        rule = re.split(r"(?<!\S)#", line, maxsplit=1)[0].strip()
        if not rule:
            continue
        try:
            thesaurus.add(*_sides(rule))
        except ValueError as error:
            raise InputError(str(error), path=called, line=number) from None
    return thesaurus


def _sides(rule: str) -> tuple[list[str], list[str]]:
    """The phrases before and after the arrow; without one, the same on both sides."""
    sides = [_phrases(_COMMA.split(side)) for side in rule.split("=>")]
    if len(sides) > 2:
        raise ValueError("there is more than one => in it; write a, b => c, d")
    if len(sides) == 1 and len(sides[0]) < 2:
        raise ValueError("a word alone has no synonym; write a, b or a => b")
    return sides[0], sides[-1]


def _phrases(parts: Iterable[str]) -> list[str]:
    phrases = [" ".join(part.replace("\\,", ",").split()) for part in parts]
    if len(phrases) > LARGEST_GROUP:
        raise ValueError(f"it has {len(phrases)} words beside each other, and at most {LARGEST_GROUP} are read")
    for phrase in phrases:
        count = len(words_in(phrase))
        if not count:
            raise ValueError("there is nothing between two of its commas, or on one side; write a, b => c")
        if count > LONGEST_PHRASE:
            raise ValueError(f"a phrase in it has {count} words, and at most {LONGEST_PHRASE} are compared")
    return phrases


def _from_toml(text: str, path: str) -> Thesaurus:
    try:
        tables = _Tables.model_validate(read_toml(text))
    except InputError as error:
        raise InputError(f"this is not TOML. {_WANTED}", path=path, line=error.line) from error
    except ValidationError as error:
        raise InputError(_WANTED, path=path, field=_place(error.errors(include_url=False)[0]["loc"])) from error
    thesaurus = Thesaurus()
    for kind, rules in (
        ("two_way", [(group, group) for group in tables.two_way]),
        ("one_way", [(rule.given, rule.to) for rule in tables.one_way]),
    ):
        for number, (given, called_for) in enumerate(rules):
            try:
                thesaurus.add(_phrases(given), _phrases(called_for))
            except ValueError as error:
                raise InputError(str(error), path=path, field=_place((kind, number))) from None
    return thesaurus


def _place(parts: Iterable[int | str]) -> str:
    """`two_way[1]`: what stands for a line where the parser gives none."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


@expansions.register("synonyms")
class SynonymExpansion(Expansion):
    """Asks also for the synonyms of the query's words and phrases. Whole words match, in capitals or not.

    A line `wifi, wireless network` says that each stands for the other; `wifi => wireless network` that the first calls
    for the second and not the other way. The file has such lines, or is TOML: two_way = [["wifi", "wireless network"]]
    and one_way = [{ from = ["wifi"], to = ["wireless network"] }].
    """

    reads_files = True

    path: str | None = Field(None, min_length=1, description="The file: such lines, or TOML where it ends in .toml.")
    lines: tuple[str, ...] = Field((), max_length=1_000, description="Such lines in the spec itself, beside the file.")
    most: int = Field(20, ge=1, le=200, description="At most how many synonyms are added to one query.")
    embed: bool = Field(False, description="Whether the synonyms are embedded with the query.")

    @model_validator(mode="after")
    def _has_some(self) -> SynonymExpansion:
        if self.path is None and not self.lines:
            raise ValueError("name a file of synonyms in `path`, or give `lines` such as 'wifi, wireless network'")
        return self

    async def propose(self, context: RequestContext, target: SearchTarget, query: str) -> Proposal:  # noqa: ARG002
        thesauri = [from_lines(self.lines, "the option lines")]
        if self.path is not None:
            thesauri.append(await asyncio.to_thread(from_path, self.path))
        words = words_in(query)
        called_for = [synonym for thesaurus in thesauri for synonym in thesaurus.called_for(words)]
        # Each once, in the order of the query's words, as the first file writes it; without those in the query already.
        once = {folded(synonym): synonym for synonym in reversed(called_for)}
        in_order = [once[key] for key in dict.fromkeys(map(folded, called_for))]
        synonyms = [synonym for synonym in in_order if not contains(words, words_in(synonym))]
        notes = (f"{len(synonyms) - self.most} more synonyms were left out.",) if len(synonyms) > self.most else ()
        added = tuple(synonyms[: self.most])
        return Proposal(added, " ".join([query, *added]) if self.embed and added else None, notes)
