"""A new cell's source to begin with: the kind's example, with what the notebook's own collection can answer."""

from __future__ import annotations

from typing import Any

from evals.evaluation import Opened
from workbench.behind.toml_edit import put, read
from workbench.book.cells import kinds
from workbench.book.parts import NOTE

TEXT = "Write what you want to remember: a question, what you expect, what you found.\n"


def example(kind: str, ground: Opened | None = None) -> str:
    """Of that kind of cell. Without a collection it is about the demo."""
    if kind == NOTE:
        return TEXT
    source = kinds[kind].example
    if ground is None:
        return source
    options = read(source)
    changes: dict[tuple[str | int, ...], Any] = {
        (name,): value for name, value in _fitting(options, ground).items() if value != options.get(name)
    }
    return put(source, changes) if changes else source


def _fitting(options: dict[str, Any], ground: Opened) -> dict[str, Any]:
    """What of the example this collection would refuse, or not know, otherwise."""
    made = dict(options)
    labelled, embedded = ground.labelled, bool(ground.view.embedding_sets)
    if "query" in made and labelled.queries and ground.view.name != "handbook":
        made["query"] = labelled.queries[0].text
    if made.get("looked_on") not in (None, *labelled.splits) and labelled.splits:
        made["looked_on"] = next(iter(labelled.splits))
    if embedded:
        return made
    for name in ("variants", "legs"):
        if name in made:
            made[name] = list(dict.fromkeys(_wordly(each) for each in made[name]))
    for name in ("variant", "one", "other"):
        if name in made:
            made[name] = _wordly(made[name])
    if made.get("one") is not None and made.get("one") == made.get("other"):
        made["one"] = "fulltext"
    return made


def _wordly(name: str) -> str:
    """A leg that needs no vectors, in the place of what does."""
    return {"vector": "fulltext", "hybrid-retriever": "bm25"}.get(name, name)
