"""What is fuzzed: a function of bytes that succeeds, or fails with an error of the project's own tree.

Owns the form of a target and what counts as a finding. It runs nothing by itself.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from core.errors import RankbookError

SECONDS: Final = 5.0  # of the processor, for one input: a crowded machine finds nothing that is not there
LONGEST: Final = 4096  # bytes of an input, unless the target says otherwise
HOUSE: Final = Path(__file__).parents[3]
OURS: Final = tuple(str(HOUSE / name) for name in ("core", "evals", "workbench", "tests"))

Take = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A parser with small sound inputs to begin from, and words of its language to put into them."""

    name: str
    take: Take
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    longest: int = LONGEST


@dataclass
class Family:
    """Targets of one kind, in the order in which they are written down."""

    targets: list[Target] = field(default_factory=list)

    def target(
        self, *seeds: bytes, words: Sequence[bytes] = (), longest: int = LONGEST, name: str = ""
    ) -> Callable[[Take], Take]:
        """Registers a function under its own name."""

        def keep(take: Take) -> Take:
            self.targets.append(Target(name or take.__name__, take, seeds, tuple(words), longest))
            return take

        return keep


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that did something else than succeed or be refused in a sentence. Equal signs are one finding."""

    sign: str
    told: str
    content: bytes


class TooLong(Exception):
    """An input took more of the processor than one may."""


def outcome(target: Target, content: bytes) -> Finding | None:
    """Take the input; None where all is well."""
    try:
        with limited():
            target.take(content)
    except RankbookError:
        return None
    except Exception as error:
        return Finding(sign_of(error), "".join(traceback.format_exception(error, limit=-8)), content)
    return None


def sign_of(error: BaseException) -> str:
    """The kind of error, and the innermost place of ours that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(OURS)]
    inner = (ours or frames)[-1]
    return f"{type(error).__name__} in {Path(inner.filename).name}:{inner.lineno}"


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """TooLong after that much of the processor's time, where the platform can tell and this is the main thread."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def over(_number: int, _frame: Any) -> None:
        raise TooLong(f"more than {seconds:g} s of the processor")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
