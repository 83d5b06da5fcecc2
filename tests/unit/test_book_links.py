"""Links in a notebook's prose: to another notebook, to elsewhere, and none that runs anything."""

from __future__ import annotations

import pytest

from workbench.notebooks import markdown


@pytest.mark.parametrize("address", ["other.md", "./other.md"])
def test_a_notebook_beside_this_one_opens_on_the_page_and_stays_a_file_elsewhere(address):
    prose = f"[Go on]({address})"
    assert 'href="?notebook=other"' in markdown.html(prose, lambda name: f"?notebook={name}")
    assert f'href="{address}"' in markdown.html(prose)


@pytest.mark.parametrize("address", ["../other.md", "sub/other.md", "/other.md", "https://example.org/other.md"])
def test_other_addresses_are_left_as_they_are(address):
    assert f'href="{address}"' in markdown.html(f"[Go on]({address})", lambda name: f"?notebook={name}")


def test_an_address_that_runs_something_is_no_link():
    assert "href" not in markdown.html("[Go on](javascript:alert(1))", lambda name: f"?notebook={name}")
