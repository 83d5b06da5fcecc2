"""Makes .venv ready: dependencies, the CPU build of PyTorch, ranx compiled. Needs Python only; costs little when done.

python .ci/set_up.py            what `make run` needs
python .ci/set_up.py --browser  and a Chromium for the browser tests, where one can be installed
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "rankbook-set-up"
CONSTRAINTS = ROOT / "constraints.txt"
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser")  # programs, and packages of that name
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this script is what tells a person so
        sys.exit(f"Rankbook needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    begun = time.monotonic()
    if not is_set_up():
        STAMP.unlink(missing_ok=True)
        make_environment()
        install_torch()
        say("Installing Rankbook and its dependencies")
        pip("--editable", f"{ROOT}[dev]", "--constraint", str(CONSTRAINTS))
        say("Compiling ranx's metrics, which happens once")
        run(str(PYTHON), "-m", "evals.metrics")
        STAMP.write_text(state())
        say(f"Set up in {time.monotonic() - begun:.0f} s")
    if "--browser" in sys.argv:
        find_browser()


def is_set_up() -> bool:
    return STAMP.exists() and STAMP.read_text() == state()


def state() -> str:
    """Changes whenever what would be installed does."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), CONSTRAINTS.read_bytes(), sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def make_environment() -> None:
    if PYTHON.exists():
        return
    say(f"Making {VENV.name} with Python {sys.version.split()[0]}")
    try:
        venv.create(VENV, with_pip=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit("This Python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv")


def install_torch() -> None:
    """A wheel at hand, else PyTorch's own index of CPU builds, else the registry, whose Linux build brings CUDA."""
    wanted = next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch=="))
    if installed_torch() == wanted.partition("==")[2]:
        return
    say(f"Installing {wanted} for the CPU")
    dependencies = ("--constraint", str(CONSTRAINTS))
    if tried_pip("--no-index", "--no-deps", wanted):
        return
    if sys.platform != "darwin" and tried_pip(
        wanted, "--index-url", PYTORCH_CPU_INDEX, "--timeout", "15", "--retries", "0", "--no-deps"
    ):
        return
    if sys.platform == "linux":
        say("The CPU build of PyTorch is out of reach; the registry's build brings several GB of GPU packages.")
        say("Starting that in 5 s. Press Ctrl-C to stop, and put a CPU wheel where pip's find-links looks.")
        time.sleep(5)
    pip(wanted, *dependencies)


def installed_torch() -> str | None:
    """Its version without what tells the builds apart, such as +cpu; None where it cannot be imported."""
    question = "import torch; print(torch.__version__)"
    found = subprocess.run([str(PYTHON), "-c", question], check=False, capture_output=True, text=True)
    return found.stdout.strip().partition("+")[0] if found.returncode == 0 else None


def find_browser() -> None:
    """Browser tests drive a Chromium of the system's, or what Playwright brings; without either they are skipped."""
    if chromium() or installed_by_apt() or installed_by_playwright():
        return
    say("There is no Chromium and none can be installed here: the browser tests will be skipped.")


def chromium() -> str | None:
    return os.environ.get("RANKBOOK_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)


def installed_by_apt() -> bool:
    if not shutil.which("apt-get"):
        return False
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if as_root and not shutil.which("sudo"):
        return False
    say("Installing Chromium for the browser tests")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], *(["install", "-y", name] for name in CHROMIUMS)):
        subprocess.run([*as_root, "apt-get", "-qq", *command], check=False, capture_output=True, env=environment)
        if found := chromium():
            break
    return found is not None


def installed_by_playwright(patience: float = 300) -> bool:
    command = [str(PYTHON), "-m", "playwright", "install", "chromium"]
    try:
        return subprocess.run(command, check=False, capture_output=True, timeout=patience).returncode == 0
    except subprocess.TimeoutExpired:  # a download that hangs
        return False


def pip(*arguments: str) -> None:
    run(str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def tried_pip(*arguments: str) -> bool:
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def run(*command: str) -> None:
    finished = subprocess.run(command, check=False, cwd=ROOT)
    if finished.returncode:
        sys.exit(f"This failed: {' '.join(command)}\nMend what it says above, and run the same command again.")


def say(text: str) -> None:
    print(f"- {text}", flush=True)


if __name__ == "__main__":
    main()
