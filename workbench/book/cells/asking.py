"""Which query a cell is about: a typed or a labelled one. Shared by the kinds of cells that ask a single one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import SpecError, UnknownName
from core.expansion.words import FUNCTION_WORDS, words_in
from evals.evaluation import Opened
from evals.splits import ALL, Split


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with what its labels say, which is nothing for one that was typed."""

    text: str
    id: str | None = None
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Whether a document is known to answer it."""
        return any(grade > 0 for grade in self.grades.values())

    @property
    def keywords(self) -> list[str]:
        """The words to be marked in what was found."""
        return [word for word in words_in(self.text) if word not in FUNCTION_WORDS]


def asked(ground: Opened, query: str | None, query_id: str | None) -> Asked:
    """The one that is meant; typed text that is a labelled query's is that query."""
    every = Split.of(ground.labelled, ALL)
    if query_id is not None:
        known = {each.id: each for each in ground.labelled.queries}
        if query_id not in known:
            raise UnknownName("query", query_id, known)
        return Asked(known[query_id].text, query_id, every.grades.get(query_id, {}))
    text = query or ""
    same = next((each for each in every.queries.values() if each.text == text), None)
    return Asked(text) if same is None else Asked(text, same.id, every.grades.get(same.id, {}))


def exactly_one(**given: object) -> None:
    """Refuse none and several."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        choices = ", ".join(given)
        said = f"{' and '.join(named)} are there" if named else "none is there"
        raise SpecError(f"Give one of {choices}: {said}.")
