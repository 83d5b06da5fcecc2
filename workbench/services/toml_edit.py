"""TOML text changed here and there: comments, order and spacing of all the rest stay as somebody wrote them.

A place is a path of keys and, in arrays, positions: ("leg", 0, "weight"). What a changed text means is checked, so that
no change does more or less than was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, MutableSequence
from difflib import SequenceMatcher
from typing import Any, Final

from core.errors import InputError, SpecError
from core.toml_io import read_toml

Place = tuple[str | int, ...]
_NOWHERE: Final = "\N{REPLACEMENT CHARACTER} nowhere else"


def read(source: str) -> dict[str, Any]:
    """What the text says, as plain values. A mistake is told with its line."""
    return read_toml(source)


def value_at(plain: Any, place: Place) -> Any:
    """What stands there; None where nothing does."""
    for step in place:
        try:
            plain = plain[step]
        except (KeyError, IndexError, TypeError):
            return None
    return plain


def line_of(source: str, place: Place) -> int:
    """The line on which the value there is written; of what is not there, the line of what should hold it."""
    plain = read(source)
    while place and value_at(plain, place) is None:
        place = place[:-1]
    if not place:
        return 1
    while isinstance(value := value_at(plain, place), dict) or _tables(value):  # a table's line is its first key's
        if not value:
            break
        place = (*place, 0 if isinstance(value, list) else next(iter(value)))
    try:
        other = put(source, {place: _NOWHERE})
    except SpecError:  # written in a way that cannot be changed, so nobody can say where
        return 1
    same = next((at for at, (one, two) in enumerate(zip(source, other, strict=False)) if one != two), 0)
    return source.count("\n", 0, same) + 1


def put(source: str, changes: Mapping[Place, Any]) -> str:
    """The text with other values at these places; None takes a key, or an entry of an array, out."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    wanted = read(source)
    try:
        document = tomlkit.parse(source)
        for place, value in changes.items():
            _set(wanted, place, value)
            _write(document, place, value)
        made = tomlkit.dumps(document)
    except (TOMLKitError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise _beyond(changes) from error
    made = _same_line_ends(made, source)
    if not _says(made, wanted):
        raise _beyond(changes)
    return made


def _says(made: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return read_toml(made) == wanted
    except InputError:
        return False


def _beyond(changes: Mapping[Place, Any]) -> SpecError:
    named = ", ".join(".".join(map(str, place)) for place in changes)
    return SpecError(f"A form cannot change {named!r} in this text. Edit it in the source view.")


def _same_line_ends(made: str, source: str) -> str:
    if "\r\n" not in source or re.search(r"(?<!\r)\n", source):
        return made
    return re.sub(r"(?<!\r)\n", "\r\n", made)


# -- the same change, of plain values and of the written text ----------------------------------------------------------


def _set(root: Any, place: Place, value: Any) -> None:
    *path, last = place
    for step in path:
        if isinstance(root, dict) and step not in root:
            if value is None:
                return
            root[step] = {}
        root = root[step]
    if value is not None:
        if isinstance(root, list) and last == len(root):
            root.append(value)
        else:
            root[last] = value
    elif isinstance(root, list):
        del root[int(last)]
    else:
        root.pop(last, None)


def _write(root: Any, place: Place, value: Any) -> None:
    *path, last = place
    for step in path:
        if isinstance(root, MutableMapping) and step not in root:
            if value is None:
                return
            _add(root, str(step), {})
        root = root[step]
    if isinstance(root, MutableSequence):
        _write_entry(root, int(last), value)
    elif value is None:
        if last in root:
            del root[last]
    elif last not in root:
        _add(root, str(last), value)
    elif isinstance(value, list) and isinstance(root[last], MutableSequence) and not _tables(value):
        _become(root[last], value)
    else:
        root[last] = _item(value)


def _write_entry(array: Any, at: int, value: Any) -> None:
    """An entry of an array, or of an array of tables, changed, added or taken out."""
    from tomlkit.items import AoT, Table

    if not isinstance(array, AoT):
        if value is None:
            del array[at]
        elif at == len(array):
            array.append(_item(value))
        else:
            array[at] = _item(value)
        return
    if value is None:
        after: Table | None = array[at + 1] if at + 1 < len(array) else None
        said = "".join(item.as_string() for _, item in _tail(array[at]))
        del array[at]
        if after is not None and said.strip():
            after.trivia.indent = said  # what stood above the next table is about that one
        return
    table = _table(value)
    if at == len(array):
        table.trivia.indent = "\n"
        array.append(table)
    else:
        table.trivia.indent = array[at].trivia.indent
        array[at] = table


def _add(table: Any, key: str, value: Any) -> None:
    """A new key, below the last one there and above the comments that lead to the next table."""
    from tomlkit.items import Table

    if not isinstance(table, Table):
        table[key] = _item(value)
        return
    tail = _tail(table)
    table.append(key, _item(value))
    table.value.body.extend(tail)


def _tail(table: Any) -> list[Any]:
    """The comments and blank lines at the end of a table, taken off."""
    body, tail = table.value.body, list[Any]()
    while body and body[-1][0] is None:
        tail.insert(0, body.pop())
    return tail


def _become(array: Any, wanted: list[Any]) -> None:
    """Entry by entry, so that comments beside the others stay."""
    there = list(array.unwrap())
    steps = SequenceMatcher(a=list(map(repr, there)), b=list(map(repr, wanted)), autojunk=False).get_opcodes()
    for what, a, b, c, d in reversed(steps):
        if what == "equal":
            continue
        for at in reversed(range(a, b)):
            del array[at]
        for offset, value in enumerate(wanted[c:d]):
            array.insert(a + offset, _item(value))


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _item(value: Any) -> Any:
    """As it is written within a line."""
    import tomlkit

    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for key, part in value.items():
            table.append(key, _item(part))
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        for part in value:
            array.append(_item(part))
        return array
    return tomlkit.item(value)


def _table(value: Mapping[str, Any]) -> Any:
    import tomlkit

    table = tomlkit.table()
    for key, part in value.items():
        table.append(key, _item(part))
    return table
