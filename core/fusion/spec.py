"""Fusions as plain data and back: `{"method": "rrf", "k": 60}`. Knows no fusion by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from core.errors import SpecError, UnknownName
from core.fusion.base import Fusion, fusions


def fusion_from(spec: Mapping[str, Any]) -> Fusion:
    """The fusion that a spec describes; options left out take their defaults."""
    method = spec.get("method")
    if not isinstance(method, str):
        given = f"it is {method!r}" if "method" in spec else "it has none"
        raise SpecError(f"A fusion's spec needs a method, and {given}. There is: {', '.join(sorted(fusions))}.")
    fusion = fusions[method]
    options = {name: value for name, value in spec.items() if name != "method"}
    for name in options:
        if name not in fusion.model_fields:
            raise UnknownName(f"option of the fusion {method!r}", str(name), fusion.model_fields)
    try:
        return fusion(**options)
    except pydantic.ValidationError as error:
        raise SpecError.from_pydantic(f"The fusion {method!r}", error) from error


def spec_of(fusion: Fusion) -> dict[str, Any]:
    """Method and every option, defaults included, in a fixed order: equal fusions give equal specs, also as JSON."""
    return {"method": fusions.name_of(type(fusion)), **fusion.model_dump(mode="json")}
