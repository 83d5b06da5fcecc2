"""Which variants a notebook shows, by their names, so that each has one colour and mark all over it.

Reads what cells gave, and nothing else: the page and the exported file, which show the same, get the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from evals.reports import palette
from workbench.notebooks.output import Hits, Output


def styles(outputs: Iterable[Output | None]) -> dict[str, int]:
    """The number of each variant's colour and mark, as the palette counts them."""
    return palette.styles(name for output in outputs if output is not None for name in variants(output))


def variants(output: Output) -> list[str]:
    """The names in one cell's output, of other engines' runs too."""
    values = output.values
    columns = [column.variant for block in output.blocks if isinstance(block, Hits) for column in block.columns]
    pair = [values[side] for side in ("system", "baseline") if isinstance(values.get(side), str)]
    several = values.get("names")
    named = [each for each in several if isinstance(each, str)] if isinstance(several, list | tuple) else []
    return list(dict.fromkeys([*columns, *named, *pair]))
