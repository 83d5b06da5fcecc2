"""HTML by the standard library's element tree, so that a text can only ever become text. Knows no report."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from typing import Any
from xml.etree import ElementTree as ET

Child = ET.Element | str | None
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def el(name: str, *children: Child, **attributes: Any) -> ET.Element:
    """An element. `class_` is class, `data_value` data-value; an attribute that is None or False is left out."""
    given = {
        key.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    made = ET.Element(name, given)
    for child in children:
        _append(made, child)
    return made


def _append(parent: ET.Element, child: Child) -> None:
    if isinstance(child, ET.Element):
        parent.append(child)
    elif child and len(parent):
        parent[-1].tail = (parent[-1].tail or "") + child
    elif child:
        parent.text = (parent.text or "") + child


def written(element: ET.Element) -> str:
    """As HTML. What no HTML may hold is replaced, and what would turn the words around it back to front."""
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", ET.tostring(element, encoding="unicode", method="html"))


def embedded(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plotly_script() -> str:
    """plotly.js, all of it."""
    from plotly import offline

    return str(offline.get_plotlyjs())  # type: ignore[attr-defined, no-untyped-call]


def script_hash(script: str) -> str:
    """What a content security policy calls a script."""
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
