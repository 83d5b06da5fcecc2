"""Files that a person wrote, read whole: plain ones only, and up to a size. A pipe or a device might never end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from core.errors import InputError

# A pipe whose other end nobody holds would keep `open` waiting. Windows knows neither that nor such files.
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_small(path: Path, what: str, most: int) -> bytes:
    """The file's bytes. `what` begins the sentence of a refusal; FileNotFoundError is left to the caller."""
    try:
        handle = os.open(path, _OPEN)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # a ValueError is what a path with a NUL gives
        why = getattr(error, "strerror", None) or "no file can be called so"
        raise InputError(f"{what} cannot be read ({why}).", path=path) from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{what} cannot be read (it is not a plain file).", path=path)
        with os.fdopen(handle, "rb", closefd=False) as opened:
            content = b"" if found.st_size > most else opened.read(most + 1)
    except OSError as error:
        raise InputError(f"{what} cannot be read ({error.strerror}).", path=path) from error
    finally:
        os.close(handle)
    if max(found.st_size, len(content)) > most:
        raise InputError(f"{what} cannot be read (it has more than {most:,} bytes).", path=path)
    return content
