"""The gate: whatever comes in, what goes out can be stored, and is the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.store import sanitize
from core.types import Item, Place

HERE = Place("file", 1)
anything = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(["\x00", "\ud800", "a\udfffb", ""])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything | st.dates() | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
    max_leaves=20,
)


@given(anything, anything, anything, st.dictionaries(anything, values, max_size=4))
def test_whatever_comes_in_is_turned_away_or_can_be_stored(
    identifier: str, title: str, text: str, metadata: dict[str, Any]
) -> None:
    item, flaws = sanitize.sanitize_item(Item(identifier, text, title, metadata), HERE)
    for flaw in flaws:
        flaw.subject.encode()
        flaw.message.encode()
    if item is None:
        assert [flaw.outcome for flaw in flaws] == ["quarantined"]
        return
    whole = json.dumps([item.id, item.title, item.text, item.metadata], allow_nan=False, ensure_ascii=False)
    assert "\x00" not in item.id + item.title + item.text
    assert "\\u0000" not in whole.replace("\\\\", "")
    whole.encode()
    assert sanitize.sanitize_item(item, HERE)[0] == item
    assert len(sanitize.digest(item)) == 16


@given(values)
def test_the_size_of_a_value_is_never_underrated(value: Any) -> None:
    item, _ = sanitize.sanitize_item(Item("a", "b", metadata={"v": value}), HERE)
    if item is not None:
        stored = item.metadata["v"]
        least = (
            len(json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode())
            if isinstance(stored, str)
            else 0
        )
        assert sanitize._bytes_as_jsonb(stored) >= least


def test_a_digest_sees_every_part_and_where_it_stands() -> None:
    items = [
        Item("a", "b", "c"),
        Item("a", "c", "b"),
        Item("ab", "", "c"),
        Item("a", "b", "c", {"d": 1}),
        Item("a", "b", "c", {"d": "1"}),
        Item("a", "b", "c", {"d": [1]}),
        Item("a", "b", "c", {"e": 1}),
    ]
    assert len({sanitize.digest(item) for item in items}) == len(items)
    assert sanitize.digest(Item("a", "b", metadata={"x": 1, "y": 2})) == sanitize.digest(
        Item("a", "b", metadata={"y": 2, "x": 1})
    )


def test_a_digest_is_the_same_in_every_process() -> None:
    """Sets come in another order under another hash seed; the item has not changed for that."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from core.store import sanitize as gate\nfrom core.types import Item, Place\n"
        "item, _ = gate.sanitize_item(Item('a', 'b', metadata={'s': {'x', 'y', 'z', 'w', 1, (2, 3)}}), Place('f'))\n"
        "print(gate.digest(item).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True
        ).stdout
        for seed in range(4)
    }
    assert len(seen) == 1


def test_an_endless_text_is_turned_away_with_its_length() -> None:
    item, flaws = sanitize.sanitize_item(Item("a", "x" * (sanitize.LONGEST_TEXT + 1)), HERE)
    assert item is None
    assert "67,108,865 characters" in flaws[0].message
