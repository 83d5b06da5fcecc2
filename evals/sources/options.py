"""Options as people type them: which source is meant, `a.b=c` for anything inside it, and a chunk set in one word.

Where an option holds several texts, they are typed with commas between them.
"""

from __future__ import annotations

from typing import Any

from core.errors import SpecError
from evals.sources import Source, guess, source_from, sources


def source_of(origin: str, kind: str | None, options: list[str]) -> Source:
    """The source of that kind, or the one that `origin` is taken for, with these options."""
    chosen = _nested(options)
    if kind is not None:
        first = next(iter(sources[kind].model_fields))
        return source_from({"kind": kind, **({} if first in chosen else {first: origin}), **chosen})
    suffixes = chosen.get("suffixes")
    guessed = guess(origin, suffixes=suffixes if isinstance(suffixes, str) else "")
    return source_from({**guessed.spec(), **chosen}) if chosen else guessed


def _nested(options: list[str]) -> dict[str, Any]:
    """`a.b=c` as {"a": {"b": "c"}}, so that every option of every source can be given."""
    made: dict[str, Any] = {}
    for option in options:
        path, equals, value = option.partition("=")
        if not equals:
            raise SpecError(f"The option {option!r} has no value. Write it as name=value, for instance columns.id=nr.")
        *parents, last = path.split(".")
        inside = made
        for parent in parents:
            inside = inside.setdefault(parent, {})
            if not isinstance(inside, dict):
                raise SpecError(f"The option {option!r} needs {parent!r} to hold options, and it was given a value.")
        if last in inside:
            raise SpecError(f"The option {path!r} is given twice. Keep the one that is meant.")
        inside[last] = value
    return made


def chunk_set_of(text: str) -> tuple[str, dict[str, Any]]:
    """`small=fixed,max_tokens=100` as a name and a chunker's spec."""
    name, equals, rest = text.partition("=")
    kind, *options = (rest if equals else name).split(",")
    return name.split(",")[0], {"kind": kind, **_nested(options)}
