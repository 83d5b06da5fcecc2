"""Numbered parameters of an exported statement, the compiler that writes them, and the layout of its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final

from pgvector.sqlalchemy import VECTOR
from psycopg.types.json import Jsonb
from sqlalchemy import ARRAY, BindParameter, ClauseElement, Integer, String, Text, bindparam
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGDialect
from sqlalchemy.types import TypeEngine

from core.store.schema import HERE

TEXT: Final[BindParameter[str]] = bindparam("query_text", type_=Text())
VECTOR_OF_QUERY: Final[BindParameter[Any]] = bindparam("query_vector", type_=VECTOR())
OF_QUERY: Final = {
    TEXT.key: "the query as it was typed",
    VECTOR_OF_QUERY.key: "its embedding, such as [0.1, 0.2]",
}
# Texts of Rankbook's own SQL. Any other text may be a person's, and becomes a parameter.
OWN_TEXTS: Final = frozenset(
    {"'", "''", "\\", "\\\\", " | ", " ", "parent", "passage", "string", "number", "array", "null"}
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `value` is what psycopg is given; None for those that come with each query."""

    number: int
    name: str
    type: str
    meaning: str
    value: Any = None

    @property
    def of_query(self) -> bool:
        return self.name in OF_QUERY


class Parameters:
    """Numbers parameters in the order in which a statement uses them; equal values share a number."""

    def __init__(self, filtering: Collection[str] = ()) -> None:
        self._filtering = frozenset(filtering)
        self._known: dict[object, Parameter] = {}
        self.tables: set[str] = set()

    def in_order(self) -> Parameters:
        """The same, numbered anew with what comes with each query first, for writing the statement a second time."""
        place = {name: at for at, name in enumerate(OF_QUERY)}
        marks = sorted(self._known, key=lambda mark: place.get(self._known[mark].name, len(place)))
        ordered = Parameters(self._filtering)
        for at, mark in enumerate(marks, start=1):
            known = self._known[mark]
            name = known.name if known.of_query else f"{known.name.partition('_')[0]}_{at}"
            ordered._known[mark] = replace(known, number=at, name=name)
        return ordered

    @property
    def all(self) -> tuple[Parameter, ...]:
        return tuple(self._known.values())

    def written(self, bound: BindParameter[Any], dialect: PGDialect) -> str:
        value, of_query, of_filter = bound.value, bound.key in OF_QUERY, bound.key in self._filtering
        plain = None if of_query or (of_filter and not _is_of_the_code(bound)) else _plain(value)
        if plain is not None:
            return plain
        type_name = _type_name(bound.type, dialect)
        mark: object = bound.key if of_query or of_filter else (type_name, repr(value))
        if mark not in self._known:
            number = len(self._known) + 1
            if of_query:
                self._known[mark] = Parameter(number, bound.key, type_name, OF_QUERY[bound.key])
            else:
                given, origin = value, "filter" if of_filter else "constant"
                if isinstance(bound.type, JSONB):
                    given = Jsonb(value)
                elif isinstance(bound.type, ARRAY) and isinstance(bound.type.item_type, JSONB):
                    given = [Jsonb(each) for each in value or ()]
                meaning = f"from the filter: {_shown(given)}" if of_filter else _shown(given)
                self._known[mark] = Parameter(number, f"{origin}_{number}", type_name, meaning, given)
        return f"${self._known[mark].number}::{type_name}"


class _Compiler(PGCompiler):
    """PostgreSQL's compiler with our parameters, and with ORDER BY and GROUP BY on lines of their own."""

    dialect: _Dialect

    def visit_bindparam(self, bindparam: BindParameter[Any], *_: Any, literal_binds: bool = False, **__: Any) -> str:
        if literal_binds:  # in the statement that makes an index
            return str(self.render_literal_value(bindparam.value, bindparam.type))  # type: ignore[no-untyped-call]
        return self.dialect.parameters.written(bindparam, self.dialect)

    def visit_table(self, table: Any, *args: Any, **options: Any) -> Any:
        self.dialect.parameters.tables.add(table.name)
        return super().visit_table(table, *args, **options)  # type: ignore[no-untyped-call]

    def order_by_clause(self, select: Any, **options: Any) -> str:
        return _on_a_line(super().order_by_clause(select, **options))  # type: ignore[no-untyped-call]

    def group_by_clause(self, select: Any, **options: Any) -> str:
        return _on_a_line(super().group_by_clause(select, **options))  # type: ignore[no-untyped-call]


class _Dialect(PGDialect):
    """Carries the parameters of the statement that is being compiled."""

    statement_compiler = _Compiler
    supports_statement_cache = False

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(paramstyle="named")  # type: ignore[no-untyped-call] # in others, percent signs are doubled
        self.parameters = parameters


def compiled(clause: ClauseElement, namespace: str | None, parameters: Parameters) -> str:
    """The clause as text, in that schema, its parameters numbered."""
    dialect = _Dialect(parameters)
    made = clause.compile(dialect=dialect, schema_translate_map={HERE: namespace}, render_schema_translate=True)
    return str(made)


def number(value: float) -> str:
    """A number as SQL that reads back as the same double."""
    return f"{value!r}::float8" if value >= 0 else f"({value!r})::float8"


def _on_a_line(clause: str) -> str:
    return f"\n{clause.strip()}" if clause.strip() and not clause.startswith("\n") else clause


def _plain(value: Any) -> str | None:
    """The value as SQL text, for values that cannot hold a text that a person wrote."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str) and value in OWN_TEXTS:
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
        return f"'{{{', '.join(map(repr, value))}}}'::real[]"
    return None


def _is_of_the_code(bound: BindParameter[Any]) -> bool:
    """Whether a filter's own code binds it, not its user: the names of jsonb's types, and 0 for a place in a text."""
    if isinstance(bound.value, str):
        return bound.value in {"string", "number", "array", "null"} and not isinstance(bound.type, Text | JSONB)
    return bound.value == 0 and type(bound.type) is Integer


def _type_name(kind: TypeEngine[Any], dialect: PGDialect) -> str:
    if isinstance(kind, ARRAY):
        return f"{_type_name(kind.item_type, dialect)}[]"
    if isinstance(kind, String):
        return "text"
    if isinstance(kind, VECTOR):
        return "vector"  # of any dimension: the operator compares them
    return str(dialect.type_compiler_instance.process(kind)).lower()


def _shown(value: Any) -> str:
    """A value as a comment gives it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    plain = value.obj if isinstance(value, Jsonb) else value
    return json.dumps(plain, ensure_ascii=False, default=str)


MARGIN: Final = 4  # blanks before every line
LONG: Final = 88  # characters, after which a line ends at the next comma of its own list
STEP: Final = 2


_PIECES: Final = re.compile(r"""'[^']*'?|"[^"]*"?|[(),\n]| +|[^'"(),\n ]+""")


def laid_out(text: str) -> str:
    """The text with each line indented by its brackets, and long lists broken at their commas."""
    lines: list[str] = []
    depth = own = 0  # how many brackets are open; the depth of the list that the line is part of
    line, begun = " " * MARGIN, False
    for piece in _PIECES.findall(text):
        if piece == "\n":
            lines.append(line.rstrip(" "))
            line, begun, own = " " * (MARGIN + STEP * depth), False, depth
        elif begun or piece.strip(" "):
            depth += {"(": 1, ")": -1}.get(piece, 0)
            own, begun = (depth, False) if piece == "(" and not begun else (own, True)
            line += piece
            if piece == "," and depth == own and len(line) > LONG:
                lines.append(line)
                line, begun = " " * (MARGIN + STEP * (depth + 1)), False
    lines.append(line.rstrip(" "))
    return "\n".join(filter(str.strip, lines))
