"""Pages as a viewer gets them: what may not be done is not offered, and refused where it is asked for all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.errors import NotAllowed
from core.store import granting, roles
from core.store.engine import Store
from core.store.roles import EDITOR, JUDGE, VIEWER, RoleStore
from evals import kept_variants
from evals.evaluation import Wanted, made
from evals.references import variant_of
from evals.running import run_store
from evals.store import chain
from tests.app.corpus import NOTEBOOK
from workbench.access.rights import JUDGES
from workbench.behind.weights import taken
from workbench.book import desks
from workbench.book.desk import Desk
from workbench.book.shelf import FOLDER, shelf
from workbench.ui import may
from workbench.ui.outputs.grounds import opened

STORES: dict[str, RoleStore] = {}
PAGES = ("search", "notebook", "weights", "collections", "variants", "runs")


@pytest.fixture(scope="module", autouse=True)
def stores(store: Store) -> Iterator[dict[str, RoleStore]]:
    bridge.run(granting.set_up(store, JUDGES))
    STORES.update({role: bridge.run(roles.opened(store, role, [chain])) for role in roles.ROLES})
    yield STORES
    for each in STORES.values():
        bridge.run(each.close())
    STORES.clear()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "kettles.md").write_text(NOTEBOOK, encoding="utf-8")
    return tmp_path


def draw(page: str, role: str) -> None:
    import importlib

    from tests.app.test_serving_roles import STORES
    from workbench.ui import errors

    with errors.shown():
        importlib.import_module(f"workbench.views.{page}").render(STORES[role])


def seen(page: str, role: str, **address: str) -> AppTest:
    app = AppTest.from_function(draw, default_timeout=60, args=(page, role))
    app.query_params.update(address)
    app.run()
    assert not app.exception
    return app


def labels(app: AppTest) -> set[str]:
    return {button.label for button in app.button}


def words(app: AppTest) -> str:
    return " ".join(str(each.proto) for each in app.get("html"))


OFFERED = {
    "collections": ("Add a collection", {"collection": "kettles"}),
    "notebook": ("Begin", {"notebook": "kettles"}),
    "variants": ("Save", {}),
}


@pytest.mark.parametrize("page", OFFERED)
def test_what_changes_something_is_offered_to_editors_alone(page):
    button, address = OFFERED[page]
    assert button in labels(seen(page, EDITOR, **address))
    assert button not in labels(seen(page, VIEWER, **address))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_drawn_for_a_viewer_without_a_complaint(page):
    address = {"notebook": "kettles"} if page == "notebook" else {"collection": "kettles"}
    assert "rb-complaint" not in words(seen(page, VIEWER, **address))


@pytest.mark.parametrize("view", ["extend", "check", "out", "ask"])
def test_an_address_leads_no_viewer_to_a_form(view):
    app = seen("collections", VIEWER, collection="kettles", view=view)
    assert not {"Drop the collection", "Verify", "Chunk", "Export as BEIR"} & labels(app)
    app = seen("collections", VIEWER, add="upload")
    assert not app.get("file_uploader")


def test_a_viewer_opens_a_run_and_may_neither_pin_nor_delete_it():
    ground, _ = opened(STORES[EDITOR], "kettles", "default")
    (run,) = bridge.run(made(ground, [variant_of("local-rag")], ground.split("test"), Wanted()))
    assert {"Pin it", "Delete it"} <= labels(seen("runs", EDITOR, run=run.id))
    app = seen("runs", VIEWER, run=run.id)
    assert not {"Pin it", "Delete it", "Evaluate"} & labels(app)
    assert run.id[:8] in words(app) or "local-rag" in words(app)
    with pytest.raises(NotAllowed, match="as viewer"):
        bridge.run(run_store.pin(STORES[VIEWER], run.id, "best"))
    with pytest.raises(NotAllowed, match="as viewer"):
        bridge.run(run_store.remove(STORES[VIEWER], run.id))
    assert bridge.run(run_store.get(STORES[VIEWER], run.id))


def desk(role: str) -> Desk:
    return desks.at(STORES[role], shelf().find("kettles"))


@pytest.mark.parametrize("role", roles.READERS)
def test_a_notebooks_file_is_changed_by_editors_alone(role, folder):
    before = (folder / "kettles.md").read_text(encoding="utf-8")
    changes: list[Callable[[Desk], object]] = [
        lambda own: own.change("change", lambda book: book.insert("search", 'query = "x"\nvariants = ["bm25"]')),
        lambda own: own.undo(1),
        lambda own: own.read_again(),
        lambda own: own.copied(shelf(), "mine"),
    ]
    for change in changes:
        with pytest.raises(NotAllowed, match="only editors may change notebooks"):
            change(desk(role))
    with pytest.raises(NotAllowed, match="only editors"):
        taken.place(STORES[role], "", 'variants = ["bm25"]')
    assert [path.name for path in folder.iterdir()] == ["kettles.md"]
    assert (folder / "kettles.md").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("role", roles.READERS)
def test_a_variant_is_kept_by_editors_alone_whatever_a_page_offers(role, monkeypatch):
    with pytest.raises(NotAllowed, match="only editors may keep variants"):
        taken.keep(STORES[role], variant_of("bm25"), "mine")
    monkeypatch.setattr(may, "edit", lambda _: True)
    app = seen("variants", role, variant="local-rag")
    next(button for button in app.button if button.label == "Save").click().run()
    assert "only editors may keep variants" in words(app)
    assert kept_variants.listed() == []


def test_nobody_gets_at_another_roles_desk_or_its_work():
    own = {role: desk(role) for role in roles.ROLES}
    assert len({id(each) for each in own.values()}) == 3
    assert len({each.turns.key for each in own.values()}) == 3
    assert all(each.store.role == role for role, each in own.items())


def test_no_reader_lets_a_notebook_ask_what_costs_money():
    with pytest.raises(NotAllowed, match="may cost money"):
        desk(VIEWER).run(["scores"], allowed=True)


def test_a_viewer_runs_a_cell_and_nothing_of_it_is_kept(store):
    from sqlalchemy import text

    async def kept() -> tuple[int, ...]:
        async with store.begin() as connection:
            return tuple(
                [
                    await connection.scalar(text(f"SELECT count(*) FROM rankbook.{table}"))
                    for table in ("outputs", "runs", "ranking_batches")
                ]
            )

    before, own = bridge.run(kept()), desk(VIEWER)
    own.run([cell.id for cell in own.notebook.cells])
    assert own.job
    assert own.job.wait(120)
    shown = [own.standing(cell) for cell in own.notebook.cells]
    assert [standing.result.problem for standing in shown if standing.result.problem] == []
    assert any(standing.result.output for standing in shown)
    assert bridge.run(kept()) == before


def test_what_may_be_done_follows_from_the_store(store):
    assert [may.edit(each) for each in (store, *(STORES[role] for role in roles.ROLES))] == [True, False, False, True]
    assert [may.judge(each) for each in (store, *(STORES[role] for role in roles.ROLES))] == [True, False, True, True]
    assert STORES[JUDGE].role == JUDGE
