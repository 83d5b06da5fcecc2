"""A passage as it is shown below its headings: without the one that it begins with."""

from __future__ import annotations

from core.types import Hit


def passage_of(hit: Hit) -> str:
    """The passage without the heading it begins with, where that stands above it already."""
    first, _, rest = hit.text.lstrip().partition("\n")
    said = first.startswith("#") and first.lstrip("#").strip() in hit.heading_path
    return rest if said and rest.strip() else hit.text
