"""What Citus runs and what it refuses, as rules over the parse tree of a statement.

pglast is PostgreSQL's own parser: operators such as <=> and <%, FETCH WITH TIES and LATERAL mean to it what they mean
to the server, which no general SQL parser knows.

The rules are stricter than Citus, and are no stand-in for its planner. They look at one level of a statement at a time:
which tables stand in it, how these are joined, what is done to the rows. They do not know types, volatilities or plans;
a function in FROM is held against a short list. A materialised CTE is taken for what Citus makes of it: rows that are
sent to every node.
"""

# mypy: disable-error-code="union-attr, arg-type, index"

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pglast import ast, parse_sql
from pglast.enums import A_Expr_Kind, CTEMaterialize, LimitOption, OnConflictAction

IMMUTABLE = {"unnest"}  # functions that may stand beside distributed tables
LOCAL_BESIDE = {"seen"}  # a local table that is joined with distributed ones, and is sent to the workers each time
BIGINT = {"int8", "bigint", "bigserial"}
Places = Mapping[str, str | None]  # by table: the column that it is distributed by, None where it is on every node


def broken(statement: str, places: Places) -> list[str]:
    """The rules that a statement breaks."""
    parsed = parse_sql(_as_the_server_sees_it(statement))
    return [found for each in parsed for found in _Statement(places).check(each.stmt)]


def _as_the_server_sees_it(statement: str) -> str:
    """With numbered parameters, where the driver has named ones."""
    numbers: dict[str, int] = {}
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", statement)
    return numbered.replace("%%", "%")


def _nodes(node: Any, *, within: bool = True) -> Iterator[Any]:
    """The node and all below it; subqueries only if asked."""
    if isinstance(node, (list, tuple)):
        for each in node:
            yield from _nodes(each, within=within)
    elif isinstance(node, ast.Node):
        yield node
        for name in node:
            below = getattr(node, name)
            if within or not isinstance(below, ast.SelectStmt):
                yield from _nodes(below, within=within)


def _of(node: Any, kind: type[Any], *, within: bool = True) -> list[Any]:
    return [each for each in _nodes(node, within=within) if isinstance(each, kind)]


def _name(column: Any) -> tuple[str, str] | None:
    """Table and column of a reference, the table empty where it is not said."""
    if not isinstance(column, ast.ColumnRef) or not isinstance(column.fields[-1], ast.String):
        return None
    names = [each.sval for each in column.fields]
    return (names[-2] if len(names) > 1 else "", names[-1])


@dataclass
class _Level:
    """What stands in one FROM: distributed sources by alias with the column they are spread by, and the others."""

    spread: dict[str, str] = field(default_factory=dict)
    everywhere: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)  # CTEs, functions and what has been put together before
    wrong: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)  # what is wrong only beside distributed tables


class _Statement:
    def __init__(self, places: Places) -> None:
        self.places = places
        self.ctes: dict[str, Any] = {}

    def check(self, statement: Any) -> Iterator[str]:
        if isinstance(statement, ast.ExplainStmt):
            if _of(statement.query, ast.ParamRef):
                yield "an EXPLAIN with parameters, which do not reach the workers"
            yield from self.check(statement.query)
        elif isinstance(statement, (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt)):
            yield from self._query(statement)
        else:
            yield from self._definition(statement)

    # -- what is asked and changed -----------------------------------------------------------------------------------

    def _query(self, query: Any) -> Iterator[str]:
        if query.withClause:
            yield from self._with(query.withClause)
        if isinstance(query, ast.SelectStmt):
            yield from self._select(query)
        elif isinstance(query, ast.InsertStmt):
            yield from self._insert(query)
        else:
            yield from self._change(query)

    def _with(self, clause: Any) -> Iterator[str]:
        if clause.recursive:
            yield "a recursive CTE"
        for cte in clause.ctes:
            if not isinstance(cte.ctequery, ast.SelectStmt):
                yield f"the CTE {cte.ctename!r} changes rows"
            yield from self._query(cte.ctequery)
            if cte.ctematerialized == CTEMaterialize.CTEMaterializeAlways and _may_be_an_empty_tsquery(cte.ctequery):
                yield f"the CTE {cte.ctename!r} sends a tsquery that may be empty, which no worker can read"
            self.ctes[cte.ctename] = cte

    def _select(self, query: Any) -> Iterator[str]:
        if query.larg:
            yield from self._query(query.larg)
            yield from self._query(query.rarg)
            return
        level = self._level(query.fromClause)
        yield from level.wrong
        for below in self._subqueries(query):
            yield from self._query(below)
        yield from self._sublinks(query, level)
        if not level.spread:
            return
        yield from self._joined(query, level)
        yield from self._windows(query, level)
        if query.lockingClause:
            yield "rows of a distributed table are locked by SELECT"
        if query.limitOption == LimitOption.LIMIT_OPTION_WITH_TIES:
            yield "WITH TIES, which is lost on the way to the workers"
        if _of((query.limitCount, query.limitOffset), ast.SubLink):
            yield "a LIMIT that is asked for"
        if _of(query.groupClause, ast.GroupingSet):
            yield "GROUPING SETS"

    def _insert(self, query: Any) -> Iterator[str]:
        if query.selectStmt:
            yield from self._query(query.selectStmt)
        conflict = query.onConflictClause
        if self._place(query.relation) is _LOCAL or conflict is None:
            return
        if conflict.action == OnConflictAction.ONCONFLICT_UPDATE and _of(conflict.targetList, ast.FuncCall):
            yield "a function beside ON CONFLICT, which must be immutable"

    def _change(self, query: Any) -> Iterator[str]:
        place = self._place(query.relation)
        others = self._level(getattr(query, "fromClause", None) or getattr(query, "usingClause", None))
        yield from others.wrong
        for below in _of(query.whereClause, ast.SelectStmt):
            yield from self._query(below)
        if place is _LOCAL:
            return
        if others.spread or others.local:
            yield "a change that joins tables"
        read = [self._place(each) for each in _of((query.withClause, query.whereClause), ast.RangeVar)]
        if place is None and any(isinstance(each, str) for each in read):
            yield "a change of a reference table that reads distributed ones"
        changed = getattr(query, "targetList", None) if isinstance(query, ast.UpdateStmt) else None
        if _of(changed, ast.SubLink):
            yield "a value that an UPDATE looks up"
        if changed and place in {each.name for each in changed}:
            yield f"the column {place!r} that a table is distributed by is changed"

    # -- one level ---------------------------------------------------------------------------------------------------

    def _place(self, relation: Any) -> Any:
        name = relation.relname if relation.schemaname is None else f"{relation.schemaname}.{relation.relname}"
        return self.places.get(name, _LOCAL)

    def _level(self, sources: Any) -> _Level:
        level = _Level()
        for each in sources or ():
            self._source(each, level)
        if level.spread and level.local - LOCAL_BESIDE:
            level.wrong.append(f"local tables {sorted(level.local)} beside distributed ones {sorted(level.spread)}")
        if level.spread:
            level.wrong += level.beside
        return level

    def _source(self, source: Any, level: _Level) -> None:
        if isinstance(source, ast.JoinExpr):
            self._source(source.larg, level)
            self._source(source.rarg, level)
        elif isinstance(source, ast.RangeVar):
            self._table(source, level)
        elif isinstance(source, ast.RangeSubselect):
            self._below(source.alias.aliasname, source.subquery, level, lateral=source.lateral)
        elif isinstance(source, ast.RangeFunction):
            self._function(source, level)
        else:
            level.wrong.append(f"{type(source).__name__} in FROM")

    def _table(self, source: Any, level: _Level) -> None:
        alias = source.alias.aliasname if source.alias else source.relname
        if source.schemaname is None and source.relname in self.ctes:
            cte = self.ctes[source.relname]
            asks = isinstance(cte.ctequery, ast.SelectStmt)
            if not asks or cte.ctematerialized == CTEMaterialize.CTEMaterializeAlways:
                level.sent.add(alias)
            else:
                self._below(alias, cte.ctequery, level)
            return
        place = self._place(source)
        if place is _LOCAL:
            level.local.add(alias)
        elif place is None:
            level.everywhere.add(alias)
        else:
            level.spread[alias] = place

    def _below(self, alias: str, query: Any, level: _Level, *, lateral: bool = False) -> None:
        """A subquery: still distributed by the column that it hands on, unless its rows must be put together first."""
        if not (query.targetList or query.larg or query.valuesLists):
            level.wrong.append(f"the subquery {alias!r} has no columns")
        inner = self._level(query.fromClause)
        if lateral and inner.spread:
            level.wrong.append(f"the lateral subquery {alias!r} asks a distributed table")
        handed_on = self._handed_on(query, inner)
        if inner.spread and handed_on and not self._put_together(query, inner):
            level.spread[alias] = handed_on
        else:
            level.sent.add(alias)

    def _handed_on(self, query: Any, inner: _Level) -> str | None:
        for target in query.targetList or ():
            name = _name(target.val)
            if name and self._is_key(name, inner):
                return str(target.name or name[1])
            if isinstance(target.val, ast.ColumnRef) and isinstance(target.val.fields[-1], ast.A_Star):
                return next(iter(inner.spread.values()), None)
        return None

    def _put_together(self, query: Any, inner: _Level) -> bool:
        if query.limitCount or query.limitOffset or query.larg:
            return True
        grouped = [name for each in query.groupClause or () if (name := _name(each))]
        if query.groupClause:
            return not any(self._is_key(name, inner) for name in grouped)
        return any(_calls(each.val) & AGGREGATES for each in query.targetList or ())

    @staticmethod
    def _is_key(name: tuple[str, str], level: _Level) -> bool:
        alias, column = name
        return level.spread.get(alias) == column or (not alias and column in level.spread.values())

    def _function(self, source: Any, level: _Level) -> None:
        calls = [each[0] for each in source.functions]
        names = {call.funcname[-1].sval for call in calls if isinstance(call, ast.FuncCall)}
        reads = [name for name in map(_name, _of(calls, ast.ColumnRef)) if name]
        alias = source.alias.aliasname if source.alias else "function"
        if names - IMMUTABLE:
            level.beside.append(f"the function {sorted(names)} beside distributed tables")
        several = len(calls) > 1 or any(len(call.args or ()) > 1 for call in calls)
        if several and not reads and not source.ordinality and names == {"unnest"}:
            level.beside.append(f"{alias!r} are arrays side by side that are not numbered")
        level.sent.add(alias)

    # -- how things are joined ---------------------------------------------------------------------------------------

    def _joined(self, query: Any, level: _Level) -> Iterator[str]:
        """Distributed sources of one level hang together by the columns they are distributed by."""
        groups = {alias: {alias} for alias in level.spread}
        conditions = [query.whereClause, *(each.quals for each in _joins(query.fromClause))]
        for left, right in _equal(conditions):
            if all(level.spread.get(alias) == column for alias, column in (left, right)):
                merged = groups[left[0]] | groups[right[0]]
                groups.update(dict.fromkeys(merged, merged))
        for each in _joins(query.fromClause):
            shared = {column.sval for column in each.usingClause or ()} & set(level.spread.values())
            if shared:
                merged = {alias for alias, column in level.spread.items() if column in shared}
                groups.update(dict.fromkeys(merged, merged))
        if len({frozenset(group) for group in groups.values()}) > 1:
            yield f"{sorted(level.spread)} are not joined by the document"
        for each in _joins(query.fromClause):
            outer = each.jointype.name in {"JOIN_LEFT", "JOIN_FULL"}
            if outer and not self._level([each.larg]).spread and self._level([each.rarg]).spread:
                yield "an outer join that keeps rows which every node has"

    def _windows(self, query: Any, level: _Level) -> Iterator[str]:
        windows = _of([target.val for target in query.targetList or ()], ast.WindowDef)
        if windows and (query.limitCount or query.limitOffset):
            yield "a window and a LIMIT in one query"
        for window in windows:
            names = [name for each in window.partitionClause or () if (name := _name(each))]
            if not any(self._is_key(name, level) for name in names):
                yield "a window that is not partitioned by the document"

    # -- subqueries in conditions ------------------------------------------------------------------------------------

    def _subqueries(self, query: Any) -> Iterator[Any]:
        """Those in FROM, each to be checked as a query of its own."""
        for source in _of(query.fromClause, ast.RangeSubselect, within=False):
            yield source.subquery

    def _sublinks(self, query: Any, level: _Level) -> Iterator[str]:
        targets = [target.val for target in query.targetList or ()]
        if level.spread and any(self._touches(link.subselect) for link in _of(targets, ast.SubLink, within=False)):
            yield "a subquery among the columns of a query of distributed tables"
        for link in _of((targets, query.whereClause, query.havingClause), ast.SubLink, within=False):
            yield from self._query(link.subselect)
            yield from self._sublink(link, level)

    def _touches(self, query: Any) -> bool:
        return any(not (each.schemaname is None and each.relname in self.ctes) for each in _of(query, ast.RangeVar))

    def _sublink(self, link: Any, level: _Level) -> Iterator[str]:
        inner = self._level(link.subselect.fromClause)
        known = inner.spread.keys() | inner.everywhere | inner.local | inner.sent
        outer = {name[0] for name in map(_name, _of(link.subselect, ast.ColumnRef)) if name and name[0]} - known
        outer &= level.spread.keys() | level.everywhere | level.local | level.sent
        if not outer or not (inner.spread or inner.local):
            return
        pairs = [pair for both in _equal([link.subselect.whereClause]) for pair in (both, both[::-1])]
        if not any(self._is_key(within, inner) and self._is_key(around, level) for within, around in pairs):
            yield f"a correlated subquery that is not tied to {sorted(outer)} by the document"

    # -- definitions -------------------------------------------------------------------------------------------------

    def _definition(self, statement: Any) -> Iterator[str]:
        if isinstance(statement, ast.CreateTableAsStmt):
            yield "CREATE TABLE AS"
        if isinstance(statement, (ast.CreateTrigStmt, ast.RuleStmt)):
            yield "a trigger or a rule"
        if isinstance(statement, ast.IndexStmt) and statement.unique:
            place = self._place(statement.relation)
            if isinstance(place, str) and place not in {each.name for each in statement.indexParams}:
                yield f"a unique index without {place!r}"
        if isinstance(statement, ast.CreateStmt):
            yield from self._new_table(statement)

    def _new_table(self, statement: Any) -> Iterator[str]:
        place = self._place(statement.relation)
        if place is _LOCAL:
            return
        for constraint in _of(statement.tableElts, ast.Constraint):
            kind = constraint.contype.name
            if kind in {"CONSTR_EXCLUSION", "CONSTR_FOREIGN", "CONSTR_IDENTITY"}:
                yield f"{kind} in {statement.relation.relname!r}"


_LOCAL: Any = object()
AGGREGATES = {"count", "sum", "min", "max", "avg", "bool_or", "array_agg", "string_agg"}


MAKE_TSQUERY = {"to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery"}


def _may_be_an_empty_tsquery(query: Any) -> bool:
    targets = [each.val for each in getattr(query, "targetList", None) or ()]
    casts = {each.typeName.names[-1].sval for each in targets if isinstance(each, ast.TypeCast)}
    made = any(_calls(each) & MAKE_TSQUERY for each in targets) or "tsquery" in casts
    return made and "numnode" not in _calls(query.whereClause)


def _calls(node: Any) -> set[str]:
    return {each.funcname[-1].sval for each in _of(node, ast.FuncCall, within=False) if each.over is None}


def _joins(sources: Any) -> list[Any]:
    return _of(sources, ast.JoinExpr, within=False)


def _equal(conditions: Any) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Pairs of columns that are said to be equal, at this level; of `a IN (SELECT b ...)` too."""
    for each in _of(conditions, ast.A_Expr, within=False):
        if each.kind == A_Expr_Kind.AEXPR_OP and each.name[-1].sval == "=":
            left, right = _name(each.lexpr), _name(each.rexpr)
            if left and right:
                yield left, right
