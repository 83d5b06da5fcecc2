"""Processes to be killed, a fraction of a second each: forked from one that has loaded everything already.

Run as a program it is that process: it reads orders, a line of JSON each, forks, and says how the child ended.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

REPOSITORY = Path(__file__).parents[3]
PATIENCE = 120.0  # seconds


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit code, negative for a signal, and what it wrote."""

    code: int
    out: str
    said: str
    seconds: float

    @property
    def well(self) -> bool:
        return self.code == 0

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Nursery:
    """Starts children, one at a time. `environment` is that of all of them, over this process's own."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rankbook-nursery-", dir="/tmp")
        self.folder = Path(self._folder.name)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.drills.faults.nursery"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "RANKBOOK_DEBUG": "", **(environment or {})},
        )
        assert self._read() == "ready"
        self.child = 0
        self._begun = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()

    def start(self, work: str, *given: Any, **named: Any) -> int:
        """Fork a child that calls `module:function`; its process id."""
        order = {"work": work, "given": given, "named": named, "folder": str(self.folder)}
        assert self._process.stdin is not None
        self._begun = time.monotonic()
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self.child = int(self._read())
        return self.child

    def kill(self) -> None:
        """It cannot be another process by now: it is not waited for before this."""
        os.kill(self.child, signal.SIGKILL)

    def end(self, patience: float = PATIENCE) -> Ended:
        """Wait until the child has ended. One that hangs is killed after so many seconds, and has not ended well."""
        assert self._process.stdin is not None
        give_up = threading.Timer(patience, self.kill)
        give_up.start()
        try:
            self._process.stdin.write("wait\n")
            self._process.stdin.flush()
            code = int(self._read())
        finally:
            give_up.cancel()
        out, said = ((self.folder / name).read_text(errors="replace") for name in ("out", "said"))
        return Ended(code, out, said, time.monotonic() - self._begun)

    def run(self, work: str, *given: Any, **named: Any) -> Ended:
        self.start(work, *given, **named)
        return self.end()

    def killed_after(self, seconds: float, work: str, *given: Any, **named: Any) -> Ended:
        """Killed at a moment that somebody chose; it may have ended by itself before."""
        self.start(work, *given, **named)
        time.sleep(seconds)
        self.kill()
        return self.end()

    def command(self, *arguments: str) -> Ended:
        """`rankbook` with these arguments."""
        return self.run("tests.drills.faults.nursery:rankbook", *arguments)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


# -- the other side ----------------------------------------------------------------------------------------------------

LOADED = ("tests.drills.faults.chores", "workbench.cli", "alembic.command", "workbench.commands.serve")


def rankbook(*arguments: str) -> None:
    from workbench.cli import main

    sys.argv = ["rankbook", *arguments]
    main()


def _serve() -> None:
    for module in LOADED:
        importlib.import_module(module)
    _tell("ready")
    child = 0
    for line in sys.stdin:
        if line.strip() == "wait":
            _, status = os.waitpid(child, 0)
            _tell(str(os.waitstatus_to_exitcode(status)))
            continue
        order = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_carried_out(order))
        _tell(str(child))


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _carried_out(order: dict[str, Any]) -> int:
    """As a command would: a sentence for what the project knows of, a traceback for what it does not."""
    for descriptor, name in ((0, "/dev/null"), (1, f"{order['folder']}/out"), (2, f"{order['folder']}/said")):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - else the child would read its parent's orders
    module, function = order["work"].split(":")
    work: Callable[..., object] = getattr(importlib.import_module(module), function)
    code = 2
    try:
        work(*order["given"], **order["named"])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except Exception as error:
        code = _complained(error)
    finally:
        _let_go()
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError):
                stream.flush()
    return code


def _complained(error: Exception) -> int:
    from core.errors import RankbookError

    if isinstance(error, RankbookError):
        sys.stderr.write(f"{error}\n")
        return 1
    traceback.print_exception(error)
    return 2


def _let_go() -> None:
    from workbench import session

    session.close()


if __name__ == "__main__":
    _serve()
