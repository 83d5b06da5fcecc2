"""The examples of CONTRIBUTING.md, installed as it says, in a copy of the repository: one file and one line each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "CONTRIBUTING.md"
COPIED = ("core", "evals", "workbench", "tests", "datasets", "docs", "docker", ".ci")
SECTION = re.compile(r"^### An? ([a-z ]+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(
    r"Save it as\s+`(?P<file>[^`]+)`:\n\n```python\n(?P<code>.*?)```\n\n"
    r"and register it in\s+`(?P<registry>[^`]+)`[^`]*:\n\n```(?:python)?\n(?P<line>[^\n]+)\n```",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Example:
    """What somebody adds: the new file, and the one line in the file that registers it."""

    what: str
    file: str
    code: str
    registry: str
    line: str


def examples() -> dict[str, Example]:
    found = {}
    for what, text in SECTION.findall(GUIDE.read_text(encoding="utf-8")):
        for example in EXAMPLE.finditer(text):
            found[what] = Example(what, **example.groupdict())
    return found


def installed(folder: Path) -> Path:
    """A copy of the repository in which every example is installed."""
    copy = folder / "rankbook"
    copy.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, copy)
    for example in examples().values():
        assert not (copy / example.file).exists(), example.file
        (copy / example.file).write_text(example.code, encoding="utf-8")
        registry = copy / example.registry
        lines = registry.read_text(encoding="utf-8").splitlines()
        first = next(at for at, line in enumerate(lines) if line.startswith("from ") and "__future__" not in line)
        at = lines.index(")") if example.line.startswith(" ") else first  # a tuple's last line, or an import
        registry.write_text("\n".join([*lines[:at], example.line, *lines[at:]]) + "\n", encoding="utf-8")
    run(copy, "-m", "ruff", "check", "--fix-only", "--quiet", *{each.registry for each in examples().values()})
    run(copy, "-m", "ruff", "format", "--quiet", *{each.registry for each in examples().values()})
    run(copy, "-m", "tests.docs_pages")
    return copy


def run(copy: Path, *arguments: str, **environment: str) -> str:
    """What a Python program prints in the copy; a failure is an error with all it said."""
    settings = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, check=False, cwd=copy, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout
