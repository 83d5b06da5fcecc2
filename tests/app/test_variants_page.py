"""The variants page as Streamlit would draw it, what is kept in the home, and the commands that do the same."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge, presets
from core.errors import InputError, SpecError, UnknownName
from core.variant import Variant
from evals import variants
from evals.collections import load
from evals.variants import every_name, resolve_variant
from tests.app.corpus import KETTLES
from tests.app.showing import settled
from tests.app.test_command_line import data, mistake, rankbook
from tests.app.test_search_page import handed, visit, written
from tests.fakes import HashingEmbedder
from tests.unit.misbehaving import Reply, serving
from workbench.screens.variants import editor as variant_edit

MINE = '# for codes\nname = "mine"\ntop_k = 5  # few\n\n[[leg]]\nkind = "bm25"\n'
HOSTILE = "<img src=x onerror=alert(1)> **bold** :red[red]"


@pytest.fixture(autouse=True)
def variants_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where variants are kept; the store was opened elsewhere, and stays there."""
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    return tmp_path


# -- kept --------------------------------------------------------------------------------------------------------------


def test_the_folder_is_made_when_the_first_is_kept_and_text_stays_as_it_was_written():
    assert variants.listed() == []
    kept = variants.keep(MINE)
    assert kept.path.read_text(encoding="utf-8") == MINE
    assert kept.path == variants.folder() / "mine.toml"
    assert resolve_variant("mine").top_k == 5
    assert resolve_variant({"preset": "mine", "top_k": 3}).top_k == 3
    assert "mine" in every_name()


def test_an_unknown_name_lists_kept_ones_too():
    variants.keep(MINE)
    with pytest.raises(UnknownName, match=r"Did you mean 'mine'.*bm25.*local-rag"):
        resolve_variant("mime")


@pytest.mark.parametrize("name", ["bm25", "local-rag", "unnamed", "  "])
def test_names_that_mean_something_else_or_nothing_are_refused(name):
    with pytest.raises(SpecError):
        variants.keep(MINE.replace('"mine"', f'"{name}"'))
    assert variants.names() == []


def test_a_name_is_kept_once_unless_it_is_to_be_overwritten():
    variants.keep(MINE)
    with pytest.raises(SpecError, match="kept already"):
        variants.keep(MINE)
    variants.keep(MINE.replace('"mine"', '"yours"'), over="mine")
    assert variants.names() == ["yours"]
    assert variants.free_name("yours") == "yours 2"


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", HOSTILE, "日本語", "x" * 200, "con.", "."])
def test_whatever_it_is_called_its_file_lies_in_the_folder(name):
    text = Variant.from_toml(MINE).but(name=name).to_toml()
    kept = variants.keep(text)
    assert kept.path.resolve().parent == variants.folder().resolve()
    assert resolve_variant(name) == kept.valid()


def test_what_was_dropped_can_be_put_back():
    variants.keep(MINE)
    gone = variants.drop("mine")
    assert variants.names() == []
    variants.put_back(gone)
    assert variants.get("mine").text == MINE


def test_files_that_are_wrong_or_share_a_name_stand_in_nobodys_way():
    variants.keep(MINE)
    folder = variants.folder()
    (folder / "broken.toml").write_text("top_k = ", encoding="utf-8")
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    (folder / "other.toml").write_text(MINE.replace("k = 5", "k = 6"), encoding="utf-8")
    (folder / "vector.toml").write_text('[[leg]]\nkind = "vector"\n', encoding="utf-8")
    found = {each.name: each for each in variants.listed()}
    assert set(found) == {"mine", "broken", "bytes", "other", "vector.toml"}
    assert (resolve_variant("mine").top_k, resolve_variant("other").top_k) == (5, 6)
    assert "not UTF-8" in found["bytes"].problem
    with pytest.raises(InputError, match="not TOML"):
        resolve_variant("broken")


# -- commands ----------------------------------------------------------------------------------------------------------


def test_variants_are_kept_shown_held_against_each_other_and_dropped(tmp_path):
    file = tmp_path / "some.toml"
    file.write_text(MINE, encoding="utf-8")
    assert data("variant", "keep", str(file))["name"] == "mine"
    assert rankbook("variant", "show", "mine").stdout == MINE
    piped = rankbook("variant", "show", "mine").stdout
    rankbook("variant", "keep", "-", "--name", "yours", typed=piped.replace("k = 5", "k = 7"))
    assert {"mine", "yours"} <= {each["name"] for each in data("variant", "list")}
    assert data("variant", "diff", "mine", "yours")["differences"][1] == {"where": "top_k", "one": "5", "other": "7"}
    assert "kept already" in mistake("variant", "keep", str(file))
    rankbook("variant", "keep", str(file), "--over", "yours", "--name", "yours")
    rankbook("variant", "drop", "yours", "--yes")
    assert variants.names() == ["mine"]
    assert "No kept variant" in mistake("variant", "drop", "yours", "--yes")


# -- the page ----------------------------------------------------------------------------------------------------------


def draw() -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.variants import page as variants_page

    with feedback.draw_errors():
        variants_page.render(session.store())


@pytest.fixture
def page(store) -> AppTest:
    return AppTest.from_function(draw, default_timeout=60)


def key(name: str, *more: str) -> str:
    return variant_edit.key_of(name, *more)


def listed(page: AppTest) -> dict[str, list[str]]:
    groups = handed(page, "variants.list")["groups"]
    return {group["title"]: [item["name"] for item in group["items"]] for group in groups}


def press(page: AppTest, label: str) -> None:
    next(button for button in page.button if button.label == label).click().run()
    assert not page.exception


def test_presets_are_listed_with_their_stages_and_none_of_ones_own_is_explained(page):
    visit(page)
    assert listed(page) == {"Your own": [], "Published systems": presets.names()}
    own, published = handed(page, "variants.list")["groups"]
    assert "save it as new" in own["empty"]
    hybrid = next(item for item in published["items"] if item["name"] == "hybrid-retriever")
    assert [stage["leg"] for stage in hybrid["steps"][0]] == ["vector", "fulltext"]
    assert "hybrid-retriever" in written(page)
    assert page.number_input(key=key("hybrid-retriever", "form.leg.0.weight")).value == 0.7


def test_a_preset_is_changed_in_the_form_and_saved_as_new(page):
    visit(page, variant="local-rag")
    page.number_input(key=key("local-rag", "form.top_k")).set_value(4).run()
    assert "not saved" in written(page)
    page.text_input(key=key("local-rag", "as")).input("mine").run()
    page.button(key=key("local-rag", "as.save")).click().run()
    assert not page.exception
    assert page.query_params["variant"] == "mine"
    assert listed(page)["Your own"] == ["mine"]
    assert resolve_variant("mine").top_k == 4
    assert presets.preset("local-rag").top_k == 10
    visit(page, variant="local-rag")
    assert "not saved" not in written(page)


def test_the_text_is_the_same_thing_and_keeps_its_comments(page):
    variants.keep(MINE)
    visit(page, variant="mine", view="toml")
    area = page.text_area(key=key("mine", "toml"))
    assert area.value == MINE
    area.input(MINE.replace("top_k = 5", "top_k = 9")).run()
    visit(page, variant="mine")
    assert page.number_input(key=key("mine", "form.top_k")).value == 9
    press(page, "Save")
    assert variants.get("mine").text == MINE.replace("top_k = 5", "top_k = 9")
    press(page, "Undo")
    assert variants.get("mine").text == MINE


def test_a_mistake_in_the_text_is_said_at_its_line_and_nothing_is_saved(page):
    variants.keep(MINE)
    visit(page, variant="mine", view="toml")
    page.text_area(key=key("mine", "toml")).input(MINE.replace("bm25", "<b>bm26</b>")).run()
    said = written(page)
    assert "line 6: No leg is called &#x27;&lt;b&gt;bm26&lt;/b&gt;&#x27;" in said
    assert '<span class="wrong"><i>6</i>kind = &quot;&lt;b&gt;bm26' in said
    assert page.button(key=key("mine", "save")).disabled
    visit(page, variant="mine", view="sql")
    assert "mistake above" in written(page)
    visit(page, variant="mine")
    press(page, "Discard changes")
    assert "bm26" not in written(page)


def test_a_deleted_one_comes_back_with_undo(page):
    variants.keep(MINE)
    visit(page, variant="mine")
    page.button(key=key("mine", "delete")).click().run()
    assert not page.exception
    assert variants.names() == []
    assert "mine was deleted." in written(page)
    press(page, "Undo")
    assert variants.get("mine").text == MINE
    assert page.query_params["variant"] == "mine"


def test_what_was_changed_elsewhere_meanwhile_is_not_overwritten(page):
    variants.keep(MINE)
    visit(page, variant="mine")
    page.number_input(key=key("mine", "form.top_k")).set_value(6).run()
    theirs = MINE.replace("top_k = 5", "top_k = 7")
    variants.keep(theirs, over="mine")
    press(page, "Save")
    assert "changed elsewhere" in written(page)
    assert variants.get("mine").text == theirs


def test_a_link_opens_the_difference_of_two(page):
    variants.keep(MINE)
    visit(page, variant="mine", beside="local-rag")
    said = written(page)
    assert "min_score" in said
    assert '<span class="new"><i>+</i>name = &quot;mine&quot;</span>' in said
    visit(page, variant="mine", beside="nobody")
    assert "No variant is called" in written(page)


def test_the_difference_of_what_is_changed_is_to_what_was_saved_unless_another_is_chosen(page):
    variants.keep(MINE)
    visit(page, variant="mine")
    page.number_input(key=key("mine", "form.top_k")).set_value(6).run()
    page.segmented_control[0].set_value("difference").run()
    assert not page.exception
    assert "TOML, from mine as it was saved" in written(page)
    assert '<span class="new"><i>+</i>top_k = 6  # few</span>' in written(page)


def test_the_statement_over_a_collection_is_ready_to_copy(page):
    visit(page, variant="local-rag", view="sql", collection="kettles")
    assert "WITH" in page.code[0].value
    assert "$1" in page.code[0].value
    visit(page, variant="local-rag", view="sql", collection="kettels")
    assert "Did you mean &#x27;kettles&#x27;?" in written(page)


@pytest.mark.parametrize("leg", ["bm25", "vector"])
def test_with_a_query_the_statement_is_filled_in(page, leg):
    variants.keep(MINE.replace("bm25", leg))
    page.query_params.update(variant="mine", view="sql", collection="kettles", query="it's scale")
    settled(page)
    assert "Send and begin" not in {button.label for button in page.button}
    assert "EXECUTE" in page.code[0].value
    assert ("it''s scale" in page.code[0].value) is (leg == "bm25")


def test_a_query_that_another_machine_embeds_is_sent_once_and_by_nobody_but_who_presses(page, store, monkeypatch):
    with serving(Reply({"data": [{"index": 0, "embedding": [0.5] * 16}]})) as endpoint:
        url = endpoint.url.replace("127.0.0.1", "0.0.0.0")  # which it answers at too, and counts as elsewhere
        monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", url)
        model = f"openai:m[{urlsplit(url).netloc}]"
        fake = HashingEmbedder(16)
        fake.model = model
        bridge.run(
            load.load_collection(store, "served", KETTLES, load.LoadPlan(models=(model,)), embedders={model: fake})
        )
        try:
            variants.keep(MINE.replace("bm25", "vector"))
            page.query_params.update(variant="mine", view="sql", collection="served", query="scale")
            settled(page)
            assert f"The embedding sends the query to {urlsplit(url).netloc}" in written(page)
            assert "$1" in page.code[0].value
            assert endpoint.asked == []
            page.button(key="variants.sql.send").click()
            settled(page)
            assert "EXECUTE" in page.code[0].value
            page.run()
            assert [each["input"] for each in endpoint.asked] == [["scale"]]
        finally:
            bridge.run(load.drop(store, "served"))


def test_a_file_that_is_broken_is_listed_and_can_be_mended(page):
    variants.keep(MINE)
    variants.get("mine").path.write_text("top_k = ", encoding="utf-8")
    visit(page, variant="mine", view="toml")
    (item,) = handed(page, "variants.list")["groups"][0]["items"]
    assert "not TOML" in item["problem"]
    page.text_area(key=key("mine", "toml")).input(MINE).run()
    press(page, "Save")
    assert variants.get("mine").variant is not None


def test_hostile_names_and_descriptions_are_text(page):
    variant = Variant.from_toml(MINE).but(name=HOSTILE, description=HOSTILE)
    variants.keep(variant.to_toml())
    visit(page, variant=HOSTILE)
    visit(page, variant=HOSTILE, beside="local-rag")
    assert "<img" not in written(page)
    assert "&lt;img src=x onerror=alert(1)&gt;" in written(page)
    assert not [text for text in page.markdown if "onerror" in text.value]
    page.button(key=key(HOSTILE, "delete")).click().run()
    assert "<img" not in written(page)


def test_a_name_that_is_not_there_is_told_with_what_is(page):
    visit(page, variant="local-rak")
    assert "Did you mean &#x27;local-rag&#x27;?" in written(page)
    assert listed(page)["Published systems"] == presets.names()
