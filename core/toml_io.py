"""TOML files, read with their limits and written as text.

The one place that parses TOML; a mistake is named with its file and line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core.errors import InputError
from core.small_files import read_small

LARGEST_FILE: Final = 4 * 2**20  # bytes: nobody wrote more than that by hand
LARGEST_INTEGER: Final = 2**1024  # beyond a few thousand digits Python refuses to write one out
_PLACE: Final = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


def read_toml(text: str, *, path: Path | str | None = None) -> dict[str, Any]:
    """The values. An InputError has the line, counted from 1, wherever the parser names one."""
    try:
        made = tomllib.loads(text)
        _refuse_endless(made)
    except RecursionError as error:
        raise InputError("This is nested too deeply to be read.", path=path, line=1) from error
    except ValueError as error:  # tomllib's own error is one, and so is that of a number without end
        message = str(error)
        found = _PLACE.search(message)
        line = int(found["line"]) if found and found["line"] else max(1, len(text.splitlines())) if found else 1
        column = f" in column {found['column']}" if found and found["column"] else ""
        why = _PLACE.sub("", message) if isinstance(error, tomllib.TOMLDecodeError) else "a number in it has no end"
        raise InputError(f"This is not TOML: {why}{column}.", path=path, line=line) from error
    return made


def _refuse_endless(value: Any) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            _refuse_endless(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_endless(inner)
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError


def file_text(path: Path, what: str) -> str:
    """The file's text. What is no plain file is refused: a device might never end."""
    try:
        return read_small(path, what, LARGEST_FILE).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} cannot be read (it is not UTF-8).", path=path) from error
    except FileNotFoundError as error:
        raise InputError(f"{what} cannot be read ({error.strerror}).", path=path) from error


def inline_text(value: Any) -> Any:
    """Tables within a line; TOML knows no null, so what is None is left out."""
    import tomlkit

    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for key, part in value.items():
            if part is not None:
                table.append(key, inline_text(part))
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        for part in value:
            array.append(inline_text(part))
        return array
    return value


def table_text(data: Mapping[str, Any]) -> Any:
    import tomlkit

    table = tomlkit.table()
    for key, value in data.items():
        if value is not None:
            table.append(key, inline_text(value))
    return table
