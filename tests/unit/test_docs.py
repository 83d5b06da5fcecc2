"""README and docs/: README is one reading, links lead somewhere, and docs/results.md is what its command writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench import results
from tests.bench.figures import Figure

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = [
    (page, link)
    for page in PAGES
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    if "://" not in link
]


def anchors(page: Path) -> set[str]:
    """Of its headings, as code hosts make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page.name}: {link}" for page, link in LINKS])
def test_a_link_leads_to_a_file_and_to_a_heading_of_it(page: Path, link: str) -> None:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    assert target.exists(), link
    assert not anchor or anchor in anchors(target), link


def test_the_readme_is_one_reading_with_a_picture_and_leads_to_every_page() -> None:
    assert len(README.splitlines()) <= 180
    assert re.search(r"!\[[^]]+\]\(docs/[^)]+\)", README)
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= set(re.findall(r"\((docs/[\w.]+)[#)]", README))


def test_the_readme_is_finished() -> None:
    assert not {"SETUP", "FIGURES", "BULK", "TODO", "TBD"} & set(README.split())


def test_the_readme_states_no_figure_that_the_page_of_results_does_not() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    assert [each for each in re.findall(r"\b0\.\d{3}\b", README) if each not in page] == []


def test_the_page_of_results_is_what_its_command_writes_from_the_figures_measured_last() -> None:
    assert (DOCS / "results.md").read_text(encoding="utf-8") == results.page(results.read())
    assert set(results.benchmarks()) <= set(bench.MODULES)


def test_a_figure_measured_anew_takes_the_place_of_the_old_one_and_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = results.read()
    monkeypatch.setattr(results, "KEPT", tmp_path / "results.json")
    results.KEPT.write_text((results.FOLDER / "results.json").read_text(encoding="utf-8"), encoding="utf-8")

    results.keep("start", [Figure("rankbook --help, seconds (best of 5)", "0.07")])
    results.keep("legs", [Figure("grown", "9", section="Growth", row=(("p50, ms", "bm25"), ("10,000 chunks", "6.5")))])

    new = results.read()
    assert len(new) == len(old)
    changed = {each.key: each.measured for each in new if each not in old}
    assert changed == {
        ("start", "rankbook --help, seconds (best of 5)"): "0.07",
        ("legs", "Growth", "p50, ms", "bm25"): "9",
    }
    assert "| `rankbook --help` | 0.07 s |" in results.page(new)


def test_a_figure_that_nobody_measured_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    without = [each for each in results.read() if each.what != "warm vector search, query embedded: p50, ms"]
    with pytest.raises(KeyError, match=r"nearest is 'warm vector search, query embedded: p95, ms'"):
        results.page(without)
