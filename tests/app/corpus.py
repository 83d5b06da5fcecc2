"""A small labelled collection, and one whose texts try everything that a page could take for markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from core.embedding import backends
from core.types import Item, Place, Query, Row, T
from evals.sources import Source
from evals.types import Label
from tests.fakes import HashingEmbedder

MODEL = "hashing:16"


@backends.register("hashing")
class Hashing(HashingEmbedder):
    """The fake embedder, under a model id by which the page finds it like any other."""

    def __init__(self, name: str, _number_format: str = "") -> None:
        super().__init__(int(name))
        self.model = f"hashing:{name}"


class Listed(Source):
    """Documents, queries and labels written down in a test."""

    kind: ClassVar[str] = "listed"
    documents: tuple[Item, ...]
    asked: tuple[Query, ...] = ()
    judged: tuple[Label, ...] = ()

    def items(self) -> Iterator[Row[Item]]:
        return _rows(self.documents)

    def queries(self) -> Iterator[Row[Query]]:
        return _rows(self.asked)

    def labels(self) -> Iterator[Row[Label]]:
        return _rows(self.judged)


def _rows(values: Sequence[T]) -> Iterator[Row[T]]:
    return (Row(value, Place("written in a test", line)) for line, value in enumerate(values, start=1))


KETTLES = Listed(
    documents=(
        Item(
            "descale",
            "# Descale the kettle\n\nFill it with vinegar and water. Boil, wait an hour, rinse twice.",
            "Descale the kettle",
            {"type": "guide", "date": "2025-01-02"},
        ),
        Item(
            "e42",
            "# Error E-42\n\nThe kettle switches off at once: the lid is open or the sensor is wet.",
            "Error E-42",
            {"type": "troubleshooting", "date": "2024-05-06"},
        ),
        Item(
            "warranty",
            "# Warranty\n\nTwo years on every kettle. Keep the receipt.\fScale is not covered.",
            "Warranty",
            {"type": "policy"},
        ),
        Item("teapot", "# The teapot\n\nNo electricity here. Warm the pot before you brew.", "The teapot"),
    ),
    asked=(
        Query("q1", "remove scale from the kettle", "question"),
        Query("q2", "E-42", "identifier"),
        Query("q3", "ketle warrenty", "misspelling"),
    ),
    judged=(
        Label("q1", "descale", 3),
        Label("q1", "warranty", 1),
        Label("q1", "teapot", 0),
        Label("q2", "e42", 3),
        Label("q3", "warranty", 2, "train"),
    ),
)

NOTEBOOK = """# Kettles

```notebook
collection = "kettles"
```

```search words
query = "kettle"
variants = ["bm25"]
```

Between the two.

```search scale
query = "scale"
variants = ["fulltext"]
```
"""

SCRIPT = "<script>window.harmed = true</script><img src=x onerror='window.harmed = true'>"
MARKUP = "**bold** $x^2$ :red[red] :smile: [link](javascript:alert(1)) `code` &amp; <b>b</b>"
HOSTILE = Listed(
    documents=(
        Item(
            "<i>id</i>",
            f"# Trap\n\ntrap {SCRIPT} {MARKUP}",
            f"Trap {SCRIPT} {MARKUP}",
            {"type": f"{SCRIPT}", "note": MARKUP},
        ),
        Item("</style>", f"trap two </style></div> {SCRIPT}", "", {"type": "<b>bold</b>"}),
    ),
    asked=(Query("q", f"trap {SCRIPT} {MARKUP}", "<u>kind</u>"),),
    judged=(Label("q", "<i>id</i>", 1),),
)
