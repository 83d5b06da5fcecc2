"""How the code is built: its sizes, its names, and how many functions one query and one evaluation pass."""

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

from tests.bench.figures import Figure, below

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
    figures = []
    for package in (*PRODUCT, ""):
        sizes = sizes_of(*([package] if package else PRODUCT))
        figures.append(Figure(f"{package or 'all'}: lines in files", f"{sum(sizes.modules):,} in {len(sizes.modules)}"))
    twice = sorted(name for name, count in sizes.classes.items() if count > 1)
    ninth = statistics.quantiles(sizes.functions, n=10)[-1]
    figures += [
        Figure("a module's lines, median", f"{statistics.median(sizes.modules):.0f}"),
        Figure("a function's lines, median and 90%", f"{statistics.median(sizes.functions):.0f} / {ninth:.0f}"),
        below(
            "functions that are private and called once, %",
            100 * sizes.called_once / len(sizes.functions),
            12,
            "{:.0f}",
        ),
        below("lines that import, %", 100 * sizes.imports / sum(sizes.modules), 6, "{:.0f}"),
        Figure("class names that stand twice", str(len(twice)), "0", not twice),
    ]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        for what, passed in process.submit(_passed).result().items():
            figures.append(Figure(f"{what}: functions in modules", f"{passed[0]} in {passed[1]}"))
    return figures


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
