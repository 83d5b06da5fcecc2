"""Pages as a viewer gets them: what may not be done is not offered, and refused where it is asked for all the same."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core import bridge
from core.context import Resources
from core.errors import NotAllowed
from core.progress import nobody
from core.store import collections, grants, roles
from core.store.engine import Store
from core.store.roles import EDITOR, JUDGE, VIEWER, RoleStore
from core.variant import Variant
from evals import trash
from evals import variants as evals_variants
from evals.collections import load
from evals.evaluation.context import open_eval
from evals.evaluation.evaluate import run_variants
from evals.labels import corrections
from evals.labels.revisions import Cause
from evals.runs import run_store
from evals.runs.plan import EvalOptions
from evals.schema import schema_chain
from evals.variants import resolve_variant
from tests.app.corpus import KETTLES, NOTEBOOK
from tests.app.showing import CELL, STAGE, page
from tests.app.test_search_page import handed
from tests.fakes import HashingEmbedder
from tests.unit.misbehaving import Endpoint, Reply, completion, serving
from workbench.notebooks import insert, session
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import FOLDER, own_folder
from workbench.notebooks.runner import Runner
from workbench.notebooks.session import NotebookSession
from workbench.server.access import JUDGES
from workbench.services import cost_notice as behind_sending
from workbench.services import jobs, permissions
from workbench.services import weights as weights_asked
from workbench.services.context import forget_opened, open_collection
from workbench.services.cost_notice import ConsentNeeded
from workbench.services.jobs import Job
from workbench.services.pool_request import JudgeState as JudgingAsked
from workbench.services.variants import keep
from workbench.services.weights import WeighedSurface, WeightsState

STORES: dict[str, RoleStore] = {}
PAGES = ("search", "notebook", "weights", "collections", "variants", "runs")


@pytest.fixture(scope="module", autouse=True)
def stores(store: Store) -> Iterator[dict[str, RoleStore]]:
    bridge.run(grants.set_up(store, JUDGES))
    STORES.update({role: bridge.run(roles.opened(store, role, [schema_chain])) for role in roles.ROLES})
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
    from workbench.components import feedback

    with feedback.draw_errors():
        importlib.import_module(f"workbench.screens.{page}.page").render(STORES[role])


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


def test_the_trash_is_shown_to_editors_alone(name):
    bridge.run(load.load_collection(STORES[EDITOR], name, KETTLES, load.LoadPlan(models=(), check=False)))
    entry = bridge.run(load.drop(STORES[EDITOR], name))
    assert "Empty the trash" in labels(seen("collections", EDITOR))
    assert "Empty the trash" not in labels(seen("collections", VIEWER))
    assert "Empty the trash" not in labels(seen("collections", JUDGE))
    bridge.run(trash.destroy(STORES[EDITOR], entry))


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


def test_labels_are_corrected_and_brought_back_by_editors_alone(store, name):
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=(), check=False)))
    view = bridge.run(collections.get(store, name))
    bridge.run(corrections.relabel(store, view, "q1", "descale", 2, cause=Cause("ada")))
    bridge.run(grants.refresh(store))
    st.cache_data.clear()  # the list of collections was drawn before this one came
    address = {"collection": name, "view": "queries", "query": "q1"}
    assert {"Correct the label", "Undo the last change"} <= labels(seen("collections", EDITOR, **address))
    for role in roles.READERS:
        app = seen("collections", role, **address)
        assert not {"Correct the label", "Undo the last change"} & labels(app)
        assert handed(app, "changes.list")["rows"][0]["cells"][1] == "ada"


def test_a_viewer_opens_a_run_and_may_neither_pin_nor_delete_it():
    ground, _ = open_collection(STORES[EDITOR], "kettles", "default")
    (run,) = bridge.run(run_variants(ground, [resolve_variant("local-rag")], ground.split("test"), EvalOptions()))
    assert {"Pin it", "Delete it"} <= labels(seen("runs", EDITOR, run=run.id))
    app = seen("runs", VIEWER, run=run.id)
    assert not {"Pin it", "Delete it", "Evaluate"} & labels(app)
    assert run.id[:8] in words(app) or "local-rag" in words(app)
    with pytest.raises(NotAllowed, match="as viewer"):
        bridge.run(run_store.pin(STORES[VIEWER], run.id, "best"))
    with pytest.raises(NotAllowed, match="as viewer"):
        bridge.run(run_store.remove(STORES[VIEWER], run.id))
    assert bridge.run(run_store.get(STORES[VIEWER], run.id))


def desk(role: str) -> NotebookSession:
    return session.session_for(STORES[role], own_folder().find("kettles"))


@pytest.mark.parametrize("role", roles.READERS)
def test_a_notebooks_file_is_changed_by_editors_alone(role, folder):
    before = (folder / "kettles.md").read_text(encoding="utf-8")
    changes: list[Callable[[NotebookSession], object]] = [
        lambda own: own.change("change", lambda book: book.insert("search", 'query = "x"\nvariants = ["bm25"]')),
        lambda own: own.undo(1),
        lambda own: own.read_again(),
        lambda own: own.copy(own_folder(), "mine"),
    ]
    for change in changes:
        with pytest.raises(NotAllowed, match="only editors may change notebooks"):
            change(desk(role))
    with pytest.raises(NotAllowed, match="only editors"):
        insert.place(STORES[role], "", 'variants = ["bm25"]')
    assert [path.name for path in folder.iterdir()] == ["kettles.md"]
    assert (folder / "kettles.md").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("role", roles.READERS)
def test_a_variant_is_kept_by_editors_alone_whatever_a_page_offers(role, monkeypatch):
    with pytest.raises(NotAllowed, match="only editors may keep variants"):
        keep(STORES[role], resolve_variant("bm25"), "mine")
    monkeypatch.setattr(permissions, "may_edit", lambda _: True)
    app = seen("variants", role, variant="local-rag")
    next(button for button in app.button if button.label == "Save").click().run()
    assert "only editors may keep variants" in words(app)
    assert evals_variants.listed() == []


def test_nobody_gets_at_another_roles_desk_or_its_work():
    own = {role: desk(role) for role in roles.ROLES}
    assert len({id(each) for each in own.values()}) == 3
    assert len({each.queue.key for each in own.values()}) == 3
    assert all(each.store.role == role for role, each in own.items())


def test_no_reader_lets_a_notebook_ask_what_costs_money():
    with pytest.raises(NotAllowed, match="may cost money"):
        desk(VIEWER).run(["scores"], allowed=True)


def why(role: str) -> AppTest:
    """An address that asks why a document is where a cell shows it, where the cell's variant asks a language model."""
    shown = STAGE.play(STORES[EDITOR], "search", 'query_id = "q1"\nvariants = ["asking"]\n')
    STAGE.shown = replace(shown, context=replace(shown.context, store=STORES[role], collections={}))
    return page(cell=CELL, document="descale", against="*")


def test_why_a_document_is_there_is_asked_of_a_language_model_by_editors_alone_and_after_a_question(endpoint):
    for role, said in ((VIEWER, "only editors may begin what asks"), (EDITOR, "The reranking asks small")):
        app = why(role)
        before = len(endpoint.asked)
        assert said in words(app)
        assert ("Send and begin" in labels(app)) is (role == EDITOR)
        app.run()
        assert len(endpoint.asked) == before
    app.button(key=f"cell.{CELL}.why.send").click().run()
    assert "is there" in words(settled(app))
    assert len(endpoint.asked) > before


def test_a_stage_that_is_not_set_up_hides_none_that_asks_before_it(endpoint):
    """The expansion would ask, long before the reranking turns out to be configured nowhere."""
    half = {"leg": [{"kind": "bm25"}], "expand": {"method": "llm"}, "rerank": {"method": "api"}}
    grounds = {role: bridge.run(open_eval(STORES[role], "kettles", resources=Resources())) for role in roles.ROLES}
    asked = [Variant.from_data(half)]
    with pytest.raises(NotAllowed, match="may cost money"):
        bridge.run(behind_sending.for_query(grounds[VIEWER], "descale", asked))
    sends = bridge.run(behind_sending.for_query(grounds[EDITOR], "descale", asked))
    assert sends is not None
    assert "The expansion asks small" in sends.sentences[0]
    assert endpoint.asked == []


# -- weights -----------------------------------------------------------------------------------------------------------


class Paid(HashingEmbedder):
    """Made by a server, as its name says; it keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.model = "openai:m[embed.example]"


@pytest.fixture
def paid(store: Store) -> Iterator[Paid]:
    """What embeds the collection `paid`, and its queries."""
    made = Paid()
    plan = load.LoadPlan(models=(made.model,))
    bridge.run(load.load_collection(store, "paid", KETTLES, plan, embedders={made.model: made}))
    bridge.run(grants.set_up(store, JUDGES))
    made.texts.clear()
    yield made
    bridge.run(load.drop(store, "paid"))


def weighed(role: str, paid: Paid, *, allowed: bool = False) -> WeighedSurface | ConsentNeeded:
    resources = Resources(embedder=lambda _: paid)
    ground = bridge.run(open_eval(STORES[role], "paid", resources=resources))
    asked = WeightsState(collection="paid", legs="vector,bm25", split="test")
    return bridge.run(weights_asked.weigh(ground, asked, nobody, asyncio.Event(), allowed=allowed))


def test_weights_that_have_queries_embedded_elsewhere_are_for_editors_and_after_a_question(paid):
    for role in roles.READERS:
        with pytest.raises(NotAllowed, match="only editors may begin what asks"):
            weighed(role, paid, allowed=True)
    asks = weighed(EDITOR, paid)
    assert isinstance(asks, ConsentNeeded)
    assert "The embedding sends the query to embed.example" in " ".join(asks.sentences)
    assert paid.texts == []
    assert isinstance(weighed(EDITOR, paid, allowed=True), WeighedSurface)
    assert sorted(paid.texts) == ["E-42", "remove scale from the kettle"]
    for role in roles.ROLES:  # what is kept sends nothing again
        assert isinstance(weighed(role, paid), WeighedSurface)
    assert len(paid.texts) == 2


def test_a_search_cell_has_no_more_embedded_elsewhere_than_its_query(paid):
    """A model that is loaded elsewhere needs no warming up."""
    cell = '```search\ncollection = "paid"\nquery = "kettle"\nvariants = ["vector"]\n```\n'
    resources = Resources(embedder=lambda _: paid)
    (result,) = bridge.run(Runner(STORES[EDITOR], Notebook.parse(cell), key="warm", resources=resources).run())
    assert result.output, result.problem
    assert paid.texts == ["kettle"]


def test_the_weights_page_asks_before_it_has_queries_embedded_elsewhere(paid):
    address = {"collection": "paid", "legs": "vector,bm25", "split": "test"}
    assert "only editors may begin what asks" in words(seen("weights", VIEWER, **address))
    app = seen("weights", EDITOR, **address)
    assert "sends the query to embed.example" in words(app)
    assert "Send and begin" in labels(app)


# -- judging ---------------------------------------------------------------------------------------------------------


def marks(body: dict[str, Any]) -> Reply:
    given = json.loads(body["messages"][1]["content"])["candidates"]
    mark = {"relevance_score": 2, "answerability": "no", "key_evidence": ""}
    return completion({"results": [{"chunk_id": each["id"], **mark} for each in given]})


@pytest.fixture
def endpoint(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A language model that is configured, and a kept variant that asks it for every query."""
    with serving(marks) as found:
        monkeypatch.setenv("RANKBOOK_LLM_URL", found.url)
        monkeypatch.setenv("RANKBOOK_LLM_MODEL", "small")
        forget_opened()  # what is opened knows the environment of then
        forget("sitting", "runs evaluated")
        asking = evals_variants.keep(
            'name = "asking"\n[[leg]]\nkind = "bm25"\n[rerank]\nmethod = "llm"\nuse_cache = false\n'
        )
        yield found
        evals_variants.drop(asking.name)
        for run in bridge.run(run_store.listed(store)):
            if run.name == asking.name:
                bridge.run(run_store.remove(store, run.id))
        forget_opened()
        forget("sitting", "runs evaluated")


def forget(*kinds: str) -> None:
    """Work of these kinds, as if this process had done none of it."""
    for key, _ in jobs.listed():
        if key[0] in kinds:
            jobs.forget(key)


def begun(kind: str) -> list[Job[Any]]:
    return [job for key, job in jobs.listed() if key[0] == kind]


def sitting(role: str, variants: str = "asking") -> AppTest:
    """The judging page of an address that begins at once, when it has come to something."""
    app = seen("judge", role, collection="kettles", judge="grace", variants=variants, split="test", begun="1")
    return settled(app)


def settled(app: AppTest) -> AppTest:
    until = time.monotonic() + 60
    while "Stop" in labels(app) and time.monotonic() < until:
        app.run()
    assert not app.exception
    return app


def test_a_sitting_that_costs_money_is_begun_by_editors_alone_and_after_a_question(endpoint):
    for _ in range(2):
        app = sitting(JUDGE)
        assert "only editors may begin what asks a language model" in words(app)
        assert "Send and begin" not in labels(app)
    app = sitting(EDITOR)
    assert "asking, for each of" in words(app)
    assert "The reranking asks small" in words(app)
    assert endpoint.asked == []
    app.button(key="judging.send").click().run()
    assert "grace judges" in words(settled(app))
    assert endpoint.asked
    before = len(endpoint.asked)
    forget("sitting")
    for role in (JUDGE, EDITOR):  # what is kept asks nobody again
        assert "grace judges" in words(sitting(role))
    assert len(endpoint.asked) == before


def test_a_question_that_is_open_twice_is_answered_once(endpoint):
    one, other = sitting(EDITOR), sitting(EDITOR)
    one.button(key="judging.send").click().run()
    (sent,) = begun("sitting")
    other.button(key="judging.send").click().run()
    assert begun("sitting") == [sent]
    assert "grace judges" in words(settled(other))


def test_a_link_to_an_evaluation_that_costs_money_asks_first_and_once(endpoint):
    address = {"new": "evaluate", "collection": "kettles", "split": "test", "variants": "asking"}
    app = settled(seen("runs", EDITOR, **address))
    assert "asking, for each of" in words(app)
    assert endpoint.asked == []
    app.button(key="runs.evaluated.send").click().run()
    settled(app)
    assert "Send and begin" not in labels(app)
    assert "ndcg@10" in words(app)
    sent = len(endpoint.asked)
    assert sent
    forget("runs evaluated")
    assert "ndcg@10" in words(settled(seen("runs", EDITOR, **address)))
    assert len(endpoint.asked) == sent


def test_what_is_all_done_here_is_begun_by_judges_without_a_question(endpoint):
    assert "grace judges" in words(sitting(JUDGE, "bm25"))
    assert endpoint.asked == []


def test_a_judge_opens_the_sitting_of_a_cell_whose_runs_nobody_keeps():
    cell = '```judge it\ncollection = "kettles"\nsplit = "test"\nvariants = ["fuzzy", "trigram"]\n```\n'
    for run in bridge.run(run_store.listed(STORES[EDITOR], collection="kettles")):
        if run.name in ("fuzzy", "trigram"):
            bridge.run(run_store.remove(STORES[EDITOR], run.id))
    for role, expected in ((JUDGE, "fuzzy\ntrigram"), (EDITOR, None)):
        (result,) = bridge.run(Runner(STORES[role], Notebook.parse(cell), key=f"link of {role}").run())
        assert result.output, result.problem
        asked = JudgingAsked.of(result.output.values["sitting"]).replace(judge="grace", begun="1")
        assert expected in (asked.variants, None)
        assert "grace judges" in words(settled(seen("judge", role, **asked.parameters())))


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_judge_cell_leads_to_the_page_whoever_has_one(role):
    shown = STAGE.play(STORES[EDITOR], "judge", 'variants = ["bm25"]\n')
    STAGE.shown = replace(shown, context=replace(shown.context, store=STORES[role], collections={}))
    app = page()
    assert "pairs in the top" in words(app)
    assert [link.proto.url.partition("?")[0] for link in app.get("link_button")] == ["judge"] * (role != VIEWER)


def test_a_models_suggestion_is_offered_to_editors_alone_and_refused_to_judges(endpoint):
    from workbench.screens.judge import side

    assert handed(sitting(EDITOR, "bm25"), "judging.desk")["suggests"]
    app = sitting(JUDGE, "bm25")
    assert handed(app, "judging.desk")["suggests"] == ""
    assert "Suggestions by a language model" not in {each.label for each in app.expander}
    found = next(job.result() for key, job in reversed(jobs.listed()) if key[0] == "sitting" and "as judge" in key[1])
    with pytest.raises(NotAllowed, match="only editors may ask a language model"):
        side.asking(found)(next(iter(found.tasks)))
    assert endpoint.asked == []


def test_labels_are_made_of_judgements_by_editors_alone():
    for role, offered in ((EDITOR, True), (JUDGE, False)):
        app = sitting(role, "bm25")
        until = time.monotonic() + 20
        while "Take the labels along" not in {each.label for each in app.expander} and time.monotonic() < until:
            app.run()
        assert ("Make them labels" in labels(app)) is offered


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
    shown = [own.state(cell) for cell in own.notebook.cells]
    assert [state.problem for state in shown if state.problem] == []
    assert any(state.output for state in shown)
    assert bridge.run(kept()) == before


def test_what_may_be_done_follows_from_the_store(store):
    assert [permissions.may_edit(each) for each in (store, *(STORES[role] for role in roles.ROLES))] == [
        True,
        False,
        False,
        True,
    ]
    assert [permissions.may_judge(each) for each in (store, *(STORES[role] for role in roles.ROLES))] == [
        True,
        False,
        True,
        True,
    ]
    assert STORES[JUDGE].role == JUDGE
