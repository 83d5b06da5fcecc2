"""Chunkers as plain data and back: `{"kind": "fixed", "max_tokens": 120}`. Knows no chunker by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from core.chunking.base import Chunker, chunkers
from core.errors import SpecError, UnknownName


def chunker_from(spec: Mapping[str, Any]) -> Chunker:
    """The chunker that a spec describes; options left out take their defaults."""
    kind = spec.get("kind")
    if not isinstance(kind, str):
        given = f"it is {kind!r}" if "kind" in spec else "it has none"
        raise SpecError(f"A chunker's spec needs a kind, and {given}. There is: {', '.join(sorted(chunkers))}.")
    chunker = chunkers[kind]
    options = {name: value for name, value in spec.items() if name != "kind"}
    for name in options:
        if name not in chunker.model_fields:
            raise UnknownName(f"option of the chunker {kind!r}", str(name), chunker.model_fields)
    try:
        return chunker(**options)
    except pydantic.ValidationError as error:
        raise SpecError.from_pydantic(f"The chunker {kind!r}", error) from error


def spec_of(chunker: Chunker) -> dict[str, Any]:
    """Kind and every option, defaults included, in a fixed order: equal chunkers give equal specs, also as JSON."""
    kind = next(name for name in chunkers if chunkers[name] is type(chunker))
    return {"kind": kind, **chunker.model_dump(mode="json")}
