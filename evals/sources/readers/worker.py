"""Third-party parsers in a process with limits of memory and time, without network and without child processes.

One process serves one pass over a folder. A file that kills it is refused, and the next file gets a new process.
Answers are JSON: a process that a file has taken over can give a wrong answer, and do nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, BinaryIO, Self

from core.errors import InputError
from evals.sources.readers.base import ReadDocument

SECONDS = 60.0  # for one file
MEMORY = 3 * 2**30  # bytes of addresses, what the libraries themselves take included
LONGEST_ANSWER = 256 * 2**20
_LENGTH = struct.Struct(">Q")
_REFUSED_EVENTS = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.spawn")


class IsolatedReaders:
    """Readers in a separate process, which starts with the first file and ends with the `with` block."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self.seconds, self._memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def read(self, reader: str, raw: bytes) -> ReadDocument:
        """The document as that reader reads it, or InputError."""
        process = self._process = self._process or self._start()
        expired: list[bool] = []

        def kill() -> None:
            expired.append(True)
            process.kill()

        timer = Timer(self.seconds, kill)
        timer.start()
        answer: object = None  # also where the process is gone, or answers with something else than JSON
        try:
            with contextlib.suppress(OSError, ValueError, RecursionError):
                _send(process.stdin, reader.encode())
                _send(process.stdin, raw)
                answer = json.loads(_receive(process.stdout) or b"null")
        finally:
            timer.cancel()
        if not isinstance(answer, dict):
            self._stop()
            if expired:
                raise InputError(f"Reading it took longer than {self.seconds:g} seconds. It was left out.")
            raise InputError("The library that reads it broke down over it. It was left out.")
        if "refused" in answer:
            raise InputError(str(answer["refused"]))
        return ReadDocument(
            str(answer.get("text", "")),
            None if answer.get("title") is None else str(answer["title"]),
            dict(answer.get("metadata") or {}),
            tuple(map(str, answer.get("notes") or ())),
        )

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        needed = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
        environment = {name: os.environ[name] for name in needed if name in os.environ}
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                [sys.executable, "-m", "evals.sources.readers.worker", str(self._memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise InputError(f"The process that would read it cannot be started: {error.strerror or error}.") from error

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()


def _send(stream: BinaryIO | Any, block: bytes) -> None:
    stream.write(_LENGTH.pack(len(block)))
    stream.write(block)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LONGEST_ANSWER:
        return None
    block: bytes = stream.read(length)
    return block if len(block) == length else None


# -- in the process ----------------------------------------------------------------------------------------------------


def restrict_process(memory: int) -> None:
    """Limit this process's memory, and refuse network and child processes from now on."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_refuse)


def _serve(memory: int) -> None:
    restrict_process(memory)
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    while (reader := _receive(incoming)) is not None and (raw := _receive(incoming)) is not None:
        _send(outgoing, json.dumps(_answer(reader.decode(), raw)).encode())


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"{event} is not for a reader of documents")


def _answer(reader: str, raw: bytes) -> dict[str, Any]:
    from evals.sources.readers import readers

    read: Callable[[bytes], ReadDocument] = readers[reader]().read
    try:
        document = read(raw)
    except InputError as error:
        return {"refused": error.message}
    except MemoryError:
        return {"refused": "Reading it takes more memory than one file may. It was left out."}
    except RecursionError:
        return {"refused": "It is nested too deeply to be read. It was left out."}
    return {
        "text": document.text,
        "title": document.title,
        "metadata": dict(document.metadata),
        "notes": list(document.notes),
    }


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
