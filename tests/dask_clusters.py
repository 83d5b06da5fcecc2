"""Real Dask clusters on loopback: a scheduler and workers, each a process of its own, to be stopped and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parents[1]
QUIET = ("--dashboard-address", "127.0.0.1:0")
PATIENCE = 60.0


class Machine:
    """A scheduler at `address`, and the workers started on it, by name."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="rankbook-dask-", dir="/tmp")
        given = {name: value for name, value in os.environ.items() if name != "RANKBOOK_DASK"}
        self._environment = {**given, "PYTHONPATH": str(REPOSITORY), **(environment or {})}
        self.scheduler = self._started("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.address = self._said("scheduler", "Scheduler at:")

    def worker(self, threads: int = 1) -> str:
        """One more, once it is there. There is no nanny: what is killed stays dead."""
        name = f"worker-{len(self.workers)}"
        more = ["--nthreads", str(threads), "--no-nanny", "--name", name, "--local-directory", self._folder.name]
        more += ["--death-timeout", "30"]  # else it would outlive a test run that is killed
        self.workers[name] = self._started("worker", self.address, *more, log=name)
        self._said(name, "Registered to:")
        return name

    def grown_to(self, count: int) -> list[str]:
        """The names of so many living workers at least."""
        while len(self.living) < count:
            self.worker()
        return self.living

    @property
    def living(self) -> list[str]:
        return [name for name, process in self.workers.items() if process.poll() is None]

    def busiest(self) -> float:
        """The most processor time that any worker has taken so far, in seconds."""
        return max(sum(psutil.Process(self.workers[name].pid).cpu_times()[:2]) for name in self.living)

    def signal(self, name: str, what: signal.Signals) -> None:
        self.workers[name].send_signal(what)

    def kill(self, name: str) -> None:
        self.workers[name].kill()
        self.workers[name].wait()

    def close(self) -> None:
        for process in (*self.workers.values(), self.scheduler):
            process.kill()
            process.wait()
        self._folder.cleanup()

    def _started(self, what: str, *options: str, log: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options, *QUIET]
        with self._log(log or what).open("wb") as into:
            return subprocess.Popen(command, env=self._environment, cwd=self._folder.name, stdout=into, stderr=into)

    def _said(self, log: str, words: str) -> str:
        """What follows these words in its log, which it writes when it is ready."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            said = self._log(log).read_text(encoding="utf-8", errors="replace")
            for line in said.splitlines():
                if words in line:
                    return line.partition(words)[2].strip()
            time.sleep(0.05)
        raise AssertionError(f"{log} did not begin: {said}")

    def _log(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}.log"


@contextmanager
def machine(workers: int = 0, environment: Mapping[str, str] | None = None) -> Iterator[Machine]:
    made = Machine(environment)
    try:
        made.grown_to(workers)
        yield made
    finally:
        made.close()
