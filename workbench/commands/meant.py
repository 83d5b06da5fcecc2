"""What people mean by the words of `rankbook eval`, `sweep` and `compare`: variants, legs, files of runs, fusions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from core.fusion import Fusion
    from core.store.collections import View
    from core.variant import Variant

Collection = Annotated[str, typer.Argument(help="The collection's name.")]
Queries = Annotated[str, typer.Option("--queries", help="The query set.")]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", "-m", help="A metric, such as ndcg@10; several, the first decides.")
]
Chunks = Annotated[str | None, typer.Option(help="For bare legs: a chunk set, or 'items'; by default the first.")]
Model = Annotated[str | None, typer.Option(help="For bare legs: the embedding model, where there are several.")]
Seed = Annotated[int, typer.Option(min=0, help="Of intervals, permutations and folds: the same gives the same.")]


def runs_and_variants(
    view: View, names: Sequence[str], chunks: str | None, model: str | None
) -> tuple[list[Path], list[Variant]]:
    """Files of other engines' runs, and variants. Names of presets and legs come before files."""
    files = [name for name in names if _is_run(name)]
    return [Path(name).expanduser() for name in files], [
        variant(view, name, chunks, model) for name in names if name not in files
    ]


def _is_run(name: str) -> bool:
    from evals.references import every_name

    path = Path(name).expanduser()
    return name not in every_name() and path.suffix != ".toml" and path.is_file()


def variant(view: View, name: str, chunks: str | None = None, model: str | None = None) -> Variant:
    """A bare leg over the collection's first chunk set, or over what was named; else what the name stands for."""
    from evals.references import variant_of

    return variant_of(name, chunks=chunks or view.finest, model=model)


def base(view: View, names: Sequence[str], chunks: str | None, model: str | None) -> Variant:
    """The variant whose legs get weights: one that is there, or one made of bare legs."""
    from core.errors import UnknownName
    from core.legs import legs
    from core.variant import Variant

    if len(names) == 1:
        return variant(view, names[0], chunks, model)
    for name in names:
        if name not in legs:
            raise UnknownName("leg", name, legs, way_out="Give one variant, or two to four legs.")
    made = tuple(legs[name]() for name in names)
    return Variant(name=" + ".join(names), legs=made, chunks=chunks or view.finest, model=model)


def fusions(given: Sequence[str] | None) -> tuple[Fusion, ...]:
    """`rrf,k=10` as a fusion; several to choose among."""
    from core.errors import SpecError
    from core.fusion.spec import fusion_from

    made = []
    for text in given or ("rrf", "linear"):
        method, *options = text.split(",")
        if bare := [option for option in options if "=" not in option]:
            raise SpecError(f"The option {bare[0]!r} of {method!r} has no value. Write it as in rrf,k=10.")
        made.append(fusion_from({"method": method, **dict(option.split("=", 1) for option in options)}))
    return tuple(made)
