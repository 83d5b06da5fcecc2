"""What people call a variant by, resolved: a preset, a bare leg, a kept one, a file, plain data, or the thing itself.

The one place that knows the ways, for the command line, suites and Python alike. It must not run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import presets
from core.errors import SpecError, UnknownName
from core.legs import Leg, legs
from core.variant import LEGS, Variant
from evals import kept_variants

Reference = Variant | Leg | Path | str | Mapping[str, Any]
HERE = Path()


def variant_of(
    reference: Reference, *, chunks: str | None = None, model: str | None = None, folder: Path = HERE
) -> Variant:
    """The variant that is meant. `chunks` and `model` are for bare legs; a path that is not absolute is from `folder`.

    Names come before files, so that a name means the same in every folder: a file called bm25 is "./bm25". Data is a
    leg, by its kind; a variant as it stands; or a preset, a kept one or a file with changes:
    {"preset": "local-rag", "top_k": 5}.
    """
    leg = leg_of(reference)
    if leg is not None:
        searched = {"chunks": chunks, "model": model}
        made = Variant.of_leg(leg, **{key: value for key, value in searched.items() if value is not None})
        return made.but(name=leg.label) if leg.label else made
    match reference:
        case Variant():
            return reference
        case Mapping():
            return _of_data(reference, folder)
        case Path():
            return Variant.from_file(folder / reference.expanduser())
        case str():
            return _of_name(reference, folder)
    raise SpecError(
        f"{reference!r:.80} is no variant. Give a Variant, a leg, the name of a preset or a leg, the path of a TOML "
        "file, or a dictionary."
    )


def leg_of(reference: object) -> Leg | None:
    """The bare leg that is meant, by itself, its kind's name or its options; None where it is something else."""
    if isinstance(reference, Leg):
        return reference
    if isinstance(reference, str) and reference in legs:
        return legs[reference]()
    if isinstance(reference, Mapping) and "kind" in reference:
        return LEGS.read(reference)
    return None


def known_names() -> list[str]:
    """What a string may say beside a path, and means the same on every machine."""
    return [*presets.names(), *legs]


def every_name() -> list[str]:
    """The same, and what is kept on this one."""
    return [*known_names(), *kept_variants.names()]


def _of_name(name: str, folder: Path) -> Variant:
    named = _named(name)
    if named is not None:
        return named
    path = folder / Path(name).expanduser()
    if path.suffix == ".toml" or path.is_file():
        return Variant.from_file(path)
    raise UnknownName(
        "variant, preset or leg", name, every_name(), way_out="Or give the path of a variant's TOML file."
    )


def _named(name: str) -> Variant | None:
    """A preset, or what is kept under that name."""
    if name in presets.names():
        return presets.preset(name)
    kept = kept_variants.find(name)
    return kept.valid() if kept else None


def _of_data(data: Mapping[str, Any], folder: Path) -> Variant:
    if "preset" in data and "file" in data:
        raise SpecError("A variant names a preset and a file. Keep one of them.")
    changes = {key: value for key, value in data.items() if key not in ("preset", "file")}
    if len(changes) == len(data):
        return Variant.from_data(data)
    if "preset" in data:
        base = _named(str(data["preset"])) or presets.preset(str(data["preset"]))
    else:
        base = Variant.from_file(folder / Path(str(data["file"])).expanduser())
    return Variant.from_data({**base.to_data(), **changes}) if changes else base
