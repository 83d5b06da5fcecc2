"""A cell's output on a page by itself: really run, drawn by its own view, and what that changes written down."""

from __future__ import annotations

import time
import uuid
from typing import Any

from streamlit.testing.v1 import AppTest

from core import bridge
from core.store.engine import Store
from workbench.notebooks.document import Notebook
from workbench.notebooks.runner import Runner
from workbench.screens.notebook.cell_views import CellView

CELL = "mine"


class Stage:
    """What the page shows now. `changes` are the options that its controls set."""

    def __init__(self) -> None:
        self.shown: CellView | None = None
        self.changes: list[dict[str, Any]] = []

    def play(
        self, store: Store, kind: str, source: str, *, collection: str = "kettles", split: str = "test"
    ) -> CellView:
        header = f'```notebook\ncollection = "{collection}"\nsplit = "{split}"\n```\n\n'
        notebook = Notebook.parse(f"{header}```{kind} {CELL}\n{source}\n```\n")
        runner = Runner(store, notebook, key=uuid.uuid4().hex)
        (result,) = bridge.run(runner.run())
        assert result.spec
        assert result.output, result.problem
        self.changes = []
        self.shown = CellView(
            result.cell, result.spec, result.output, runner.context, (), self.changes.append, lambda kind, source: None
        )
        return self.shown


STAGE = Stage()


def draw() -> None:
    from tests.app.showing import STAGE
    from workbench.components import feedback
    from workbench.screens.notebook.cell_views import VIEWS

    with feedback.draw_errors():
        assert STAGE.shown
        VIEWS[STAGE.shown.cell.kind](STAGE.shown)


def page(**address: str) -> AppTest:
    """The page at an address, drawn."""
    app = AppTest.from_function(draw, default_timeout=60)
    app.query_params.update(address)
    return settled(app)


def settled(app: AppTest) -> AppTest:
    """Drawn as often as it asks for answers that were still on their way: a browser would look again by itself."""
    app.run()
    deadline = time.monotonic() + 30
    while any(button.label == "Stop" for button in app.button):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)
        app.run()
    assert not app.exception
    return app
