"""How the code is built: its sizes, its names, and how many functions one query and one evaluation pass.

`make bench ARGS="house --markdown"` prints the sizes as one table, a row for each package and one for all of them.
"""

from __future__ import annotations

import ast
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType

from tests.bench.figures import Figure, at_least, below

ROOT = Path(__file__).parents[2]
PRODUCT = ("core", "evals", "workbench")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Sizes:
    """What is counted of the modules of some packages."""

    modules: list[int] = field(default_factory=list)  # lines
    functions: list[int] = field(default_factory=list)  # lines
    called_once: int = 0  # private functions and methods that their module names once, besides where they are defined
    imports: int = 0  # lines
    classes: Counter[str] = field(default_factory=Counter)  # of the top level, by name

    @property
    def helpers(self) -> float:
        """The percentage of all functions that are private and called once."""
        return 100 * self.called_once / len(self.functions)

    @property
    def import_lines(self) -> float:
        """The percentage of all lines that belong to an import."""
        return 100 * self.imports / sum(self.modules)

    def add(self, source: str) -> None:
        tree = ast.parse(source)
        self.modules.append(len(source.splitlines()))
        self.classes.update(each.name for each in tree.body if isinstance(each, ast.ClassDef))
        named = Counter(each.id for each in ast.walk(tree) if isinstance(each, ast.Name))
        named.update(each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports += _lines(node)
            elif isinstance(node, Function):
                self.functions.append(_lines(node))
                private = node.name.startswith("_") and not node.name.endswith("__") and not node.decorator_list
                self.called_once += private and named[node.name] == 1


def measure() -> list[Figure]:
    figures = [_row(name, sizes_of(name)) for name in PRODUCT]
    sizes = sizes_of(*PRODUCT)
    twice = sorted(name for name, count in sizes.classes.items() if count > 1)
    figures += [
        _row("all", sizes),
        at_least("a module's lines, median", statistics.median(sizes.modules), 140, "{:.0f}"),
        below("private helpers called once, % of all functions", sizes.helpers, 12),
        below("import lines, %", sizes.import_lines, 6),
        Figure("class names that stand twice", ", ".join(twice) or "0", "0", not twice),
    ]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        for what, passed in process.submit(_passed).result().items():
            figures.append(Figure(f"{what}: functions in modules", f"{passed[0]} in {passed[1]}"))
    return figures


def _row(name: str, sizes: Sizes) -> Figure:
    """A row as other projects were counted, so that they can be compared."""
    ninth = statistics.quantiles(sizes.functions, n=10)[-1]
    row = {
        "package": name,
        "lines": f"{sum(sizes.modules):,}",
        "files": f"{len(sizes.modules):,}",
        "module median": f"{statistics.median(sizes.modules):.0f}",
        "function median / 90%": f"{statistics.median(sizes.functions):.0f} / {ninth:.0f}",
        "private helpers called once": f"{sizes.helpers:.0f}%",
        "import lines": f"{sizes.import_lines:.0f}%",
    }
    measured = "; ".join(f"{head} {cell}" for head, cell in row.items() if head != "package")
    return Figure(name, measured, section="Sizes", row=tuple(row.items()))


def sizes_of(*packages: str) -> Sizes:
    sizes = Sizes()
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            sizes.add(path.read_text())
    return sizes


def _lines(node: ast.Import | ast.ImportFrom | Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


# -- what one query and one evaluation pass ----------------------------------------------------------------------------


class Recorder:
    """Which functions of the product are called in any thread that starts after this, while it records."""

    def __init__(self) -> None:
        self.called: set[CodeType] = set()
        self.recording = False
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self.recording:
            self.called.add(frame.f_code)

    def passed(self, work: Callable[[], object]) -> tuple[int, int]:
        """How many functions, in how many modules."""
        self.called.clear()
        self.recording = True
        work()
        self.recording = False
        ours = [code for code in self.called if _package(code) in PRODUCT and not code.co_name.startswith("<")]
        return len(ours), len({code.co_filename for code in ours})


def _package(code: CodeType) -> str:
    path = Path(code.co_filename)
    return path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else ""


def _passed() -> dict[str, tuple[int, int]]:
    """Each is done once before, so that nothing is counted that only a first time needs."""
    recorder = Recorder()
    return {what: recorder.passed(work) for what, work in _works()}


def _works() -> Iterator[tuple[str, Callable[[], object]]]:
    from streamlit.testing.v1 import AppTest
    from typer.testing import CliRunner

    from core import bridge
    from evals.collections import load
    from tests.app.corpus import KETTLES, MODEL
    from workbench import session
    from workbench.cli import app

    name = "kettles"
    bridge.run(load.load_collection(session.store(), name, KETTLES, load.LoadPlan(models=(MODEL,))))

    page = AppTest.from_file(str(ROOT / "workbench" / "app.py"), default_timeout=60)
    page.query_params["collection"] = name
    page.run()
    page.text_input[0].set_value("a kettle that boils").run()
    yield "a typed query on the page Search", lambda: page.text_input[0].set_value("descale a kettle").run()

    words = ["eval", name, "bm25", "--again"]
    CliRunner().invoke(app, words, catch_exceptions=False)
    yield "`rankbook eval` of one variant", lambda: CliRunner().invoke(app, words, catch_exceptions=False)
