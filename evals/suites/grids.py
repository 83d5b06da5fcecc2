"""Variants that differ from one another in some fields: a grid over any of them. Pure data, in a fixed order."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from core.errors import SpecError, UnknownName
from core.expansion.spec import EXPANSIONS
from core.fusion.spec import FUSIONS
from core.rerank.base import RERANKERS
from core.specs import Tagged
from core.variant import Variant

STAGES: Mapping[str, Tagged[Any]] = {"expand": EXPANSIONS, "fusion": FUSIONS, "rerank": RERANKERS}
LARGEST = 10_000  # variants: more is a slip, and would not be looked at anyway


def varied(base: Variant, fields: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """The base with every combination of the values, the last field changing quickest.

    A field is written as in TOML, with dots: `top_k`, `fusion.k`, `rerank.depth`; for a leg `leg.<its name>.weight`.
    Another method, as of `fusion.method`, begins with its own defaults, and options that it lacks are not varied for
    it. Each variant is named after what it was given: "hybrid, fusion.k=10".
    """
    for field, values in fields.items():
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise SpecError(f"The grid's field {field!r} needs a list of values, and has {values!r:.80}.")
    count = 1
    for values in fields.values():
        count *= len(values)
    if count > LARGEST:
        raise SpecError(f"The grid over {', '.join(fields)} has {count:,} variants; at most {LARGEST:,} are made.")
    points: dict[str, dict[str, Any]] = {}
    for chosen in product(*fields.values()):
        point = _without_strange_options(dict(zip(fields, chosen, strict=True)), fields)
        points.setdefault(json.dumps(point, default=str), point)
    return [_with(base, point) for point in points.values()]


def _without_strange_options(chosen: Mapping[str, Any], fields: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The point without the options that only other methods of the same grid have: `fusion.k` where it is linear."""
    left = dict(chosen)
    for stage, tagged in STAGES.items():
        method = f"{stage}.{tagged.tag}"
        if method not in chosen:
            continue
        known = tagged.options(str(chosen[method]))
        others = {option for each in fields[method] for option in tagged.options(str(each))}
        for field in chosen:
            option = field.removeprefix(f"{stage}.").partition(".")[0]
            if field.startswith(f"{stage}.") and option not in known and option in others:
                del left[field]
    return left


def _with(base: Variant, chosen: Mapping[str, Any]) -> Variant:
    changed = copy.deepcopy(base.to_data())
    methods = [f"{stage}.{tagged.tag}" for stage, tagged in STAGES.items()]
    for field in sorted(chosen, key=lambda field: field not in methods):  # which decide what else there is to vary
        _put(base, changed, field, chosen[field])
    told = ", ".join(f"{field.removeprefix('leg.')}={value}" for field, value in chosen.items())
    changed["name"] = f"{base.name}, {told}" if told else base.name
    return Variant.from_data(changed)


def _put(base: Variant, changed: dict[str, Any], field: str, value: Any) -> None:
    """Set what stands at the end of the dots; tables on the way that the base leaves to their defaults are made."""
    first, *path = field.split(".")
    place: Any = changed
    if first in STAGES and path == [STAGES[first].tag]:
        _choose(base, changed, first, value)
        return
    if first == "leg":
        if len(path) < 2:
            raise SpecError(f"The grid's field {field!r} does not say what of which leg: leg.<name>.<option>.")
        leg, *path = path
        if leg not in base.leg_names:
            raise UnknownName(f"leg of {base.name!r}", leg, base.leg_names)
        place = changed["leg"][base.leg_names.index(leg)]
    else:
        path = [first, *path]
    for part in path[:-1]:
        place = _table(base, place, part, field)
    place[path[-1]] = value


def _choose(base: Variant, changed: dict[str, Any], stage: str, method: Any) -> None:
    """The stage by that method; by the base's own, with the base's options."""
    own, tag = getattr(base, stage), STAGES[stage].tag
    written = {} if own is None else STAGES[stage].write(own)
    changed[stage] = written if written.get(tag) == method else {tag: method}


def _table(base: Variant, place: dict[str, Any], part: str, field: str) -> dict[str, Any]:
    """The table of that name; where the base leaves it to its default, the default as it would be written."""
    if part not in place:
        written = base.model_dump(mode="json", by_alias=True)
        if not isinstance(written.get(part), dict):
            raise SpecError(f"The grid's field {field!r} is within {part!r}, which {base.name!r} does not have.")
        place[part] = {key: value for key, value in written[part].items() if value is not None}
    inner = place[part]
    if not isinstance(inner, dict):
        raise SpecError(f"The grid's field {field!r} is within {part!r}, which is no table in {base.name!r}.")
    return inner
