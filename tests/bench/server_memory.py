"""What the embedded server's processes hold while something is measured: each page counted once, shared ones too."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

EVERY = 5.0  # seconds: adding up gigabytes of pages takes a while itself


class ServerMemory:
    """`with ServerMemory(store) as held: ...` and then `held.most`, in bytes. Linux only; elsewhere it stays 0."""

    def __init__(self, data: Path) -> None:
        self.data, self.most = data, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ServerMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self.most = max(self.most, sum(map(self._held, Path("/proc").glob("[0-9]*"))))

    def _held(self, process: Path) -> int:
        """A server's processes work in its data folder. One that ends meanwhile holds nothing."""
        with suppress(OSError):
            if (process / "cwd").readlink() == self.data:
                found = re.search(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE)
                return int(found[1]) * 1024 if found else 0
        return 0
