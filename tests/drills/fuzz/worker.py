"""One target, fuzzed for some seconds in a process that is its own.

The folder gets every finding, and how many inputs were tried, again and again: whatever ends this process, somebody
else can read how far it came. What is imported by `load` is watched for coverage, so nothing of ours is at the top.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.effort import SEED

if TYPE_CHECKING:
    from tests.drills.fuzz.target import Target

WATCHED: Final = ["core", "evals", "workbench", "tomllib", "tarfile", "zipfile", "html", "yaml", "markdown_it", "csv"]
MORE_MEMORY: Final = 2**30  # bytes that inputs of a few KiB may make of themselves
HARD_SECONDS: Final = 60  # after which a process is ended that does not even hear its alarm
EVERY: Final = 0.5  # seconds between two notes of how far it is
NOTE, ENGINE = "progress.json", "atheris"
UNGUIDED: Final = "RANKBOOK_FUZZ_UNGUIDED"  # set, nothing is watched
INPUTS: Final = "RANKBOOK_FUZZ_INPUTS"  # how many a target gets at the most; without it, time alone decides


class Tried:
    """Counts inputs, keeps each kind of finding once, and writes both down."""

    def __init__(self, target: Target, folder: Path, seconds: float) -> None:
        self.target, self.folder = target, folder
        self.executions, self.signs = 0, set[str]()
        self.began = self.noted = time.monotonic()
        self.until = self.began + seconds
        self.most = int(os.environ.get(INPUTS, sys.maxsize))

    def take(self, content: bytes) -> None:
        from tests.drills.fuzz.target import outcome

        found = outcome(self.target, content)
        self.executions += 1
        if found is not None and found.sign not in self.signs:
            self.signs.add(found.sign)
            name = hashlib.sha256(found.sign.encode()).hexdigest()[:12]
            (self.folder / f"{name}.txt").write_text(f"{found.sign}\n\n{found.told}", "utf-8", "backslashreplace")
            (self.folder / f"{name}.input").write_bytes(found.content)
        if self.over or time.monotonic() - self.noted > EVERY:  # libFuzzer ends without a word
            self.note()

    def note(self) -> None:
        self.noted = time.monotonic()
        told = {"executions": self.executions, "findings": sorted(self.signs)}
        part = self.folder / f"{NOTE}.part"
        part.write_text(json.dumps(told), "utf-8")
        part.replace(self.folder / NOTE)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until or self.executions >= self.most


def work(name: str, seconds: float, folder: Path) -> None:
    """All of it. What libraries say on the way goes into the folder, too."""
    _silenced(folder / "log.txt")
    load()
    from tests.drills.fuzz.targets import TARGETS

    target = TARGETS[name]
    for seed in target.seeds:  # what is imported at first use is no memory of an input's
        Tried(target, folder, 0).take(seed)
    limit_memory()
    tried = Tried(target, folder, seconds)
    try:
        (with_atheris if _has_atheris() else with_hypothesis)(tried)
    finally:
        tried.note()


def _silenced(path: Path) -> None:
    sys.stdout.flush()
    with path.open("wb") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)


def _has_atheris() -> bool:
    return UNGUIDED not in os.environ and importlib.util.find_spec(ENGINE) is not None


def load() -> None:
    """Import all targets. Where atheris is, what they import is changed so that it sees which lines an input runs."""
    if "tests.drills.fuzz.targets" in sys.modules or not _has_atheris():
        return
    import atheris

    with atheris.instrument_imports(include=WATCHED, enable_loader_override=False):
        importlib.import_module("tests.drills.fuzz.targets")


def with_atheris(tried: Tried) -> None:
    """Coverage-guided. Ends the process when the time is over."""
    import atheris

    def take(content: bytes) -> None:
        if not tried.over:
            tried.take(content)

    atexit.register(tried.note)
    atheris.Setup(arguments(tried), take)
    atheris.Fuzz()


def arguments(tried: Tried) -> list[str]:
    """As libFuzzer wants to be told."""
    corpus = tried.folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for at, seed in enumerate(tried.target.seeds):
        (corpus / f"seed-{at}").write_bytes(seed)
    words = tried.folder / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in tried.target.words or (b"0",)))
    left = max(1, round(tried.until - time.monotonic()))
    return [
        tried.target.name,
        str(corpus),
        f"-dict={words}",
        f"-max_len={tried.target.longest}",
        f"-max_total_time={left}",
        f"-runs={min(tried.most, 2**31 - 1)}",
        f"-seed={SEED % 2**31}",
        f"-timeout={HARD_SECONDS}",
        f"-artifact_prefix={tried.folder}/",
        "-rss_limit_mb=0",  # `limit_memory` counts from what the libraries take
        "-verbosity=0",
        "-print_final_stats=0",
    ]


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def with_hypothesis(tried: Tried) -> None:
    """The same targets, with inputs that nothing guides."""
    while not tried.over:
        some_by_hypothesis(tried)


def some_by_hypothesis(tried: Tried) -> None:
    from hypothesis import HealthCheck, given, seed, settings

    from tests.drills.fuzz.bytes_made import inputs

    quiet = settings(max_examples=200, database=None, deadline=None, suppress_health_check=list(HealthCheck))

    @seed(SEED + tried.executions)
    @quiet
    @given(inputs(tried.target))
    def some(content: bytes) -> None:
        if not tried.over:
            tried.take(content)

    some()


def limit_memory() -> None:
    """A gigabyte more than now, after which Python says MemoryError: a finding like any other."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    status = Path("/proc/self/status")
    if status.exists():
        held = next(line for line in status.read_text().splitlines() if line.startswith("VmData:"))
        most = int(held.split()[1]) * 1024 + MORE_MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def state(folder: Path) -> dict[str, Any]:
    """How far a worker came that wrote there."""
    try:
        told: dict[str, Any] = json.loads((folder / NOTE).read_text("utf-8"))
    except OSError:
        return {"executions": 0, "findings": []}
    return told
