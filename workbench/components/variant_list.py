"""Variants to choose from, and a pipeline drawn as coloured stages: a component that sets every name as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import streamlit as st

from core import presets
from core.variant import Variant
from evals.variants import SavedVariant
from workbench.components.theme import asset
from workbench.services import variants as variant_stages

EMPTY = "None yet. Open a preset, change it, and save it as new; or keep weights from the Weights page."
_component = st.components.v2.component(
    "rankbook.variants",
    html='<div class="variants"></div>',
    css=f"{asset('components/assets/shared.css')}\n{asset('components/assets/variant_list.css')}",
    js=asset("components/assets/variant_list.js"),
)


def draw(key: str, own: Sequence[SavedVariant], selected: str, chosen: Callable[[str], None]) -> None:
    """All there are; `chosen` hears the name of one."""
    groups = [
        {"title": "Your own", "items": [_of_kept(each) for each in own], "empty": EMPTY},
        {"title": "Published systems", "items": [_item(presets.preset(each)) for each in presets.names()], "empty": ""},
    ]

    def hear() -> None:
        if (name := st.session_state[key].get("choose")) is not None:
            chosen(str(name))

    _component(key=key, data={"groups": groups, "selected": selected}, on_choose_change=hear)


def pipeline(key: str, variant: Variant) -> None:
    """One pipeline by itself."""
    _component(key=key, data={"steps": _steps(variant)})


def _of_kept(kept: SavedVariant) -> dict[str, Any]:
    if kept.variant is not None:
        return _item(kept.variant)
    return {"name": kept.name, "description": "", "steps": [], "problem": kept.problem}


def _item(variant: Variant) -> dict[str, Any]:
    return {"name": variant.name, "description": variant.description, "steps": _steps(variant), "problem": ""}


def _steps(variant: Variant) -> list[list[dict[str, str]]]:
    return [[asdict(stage) for stage in step] for step in variant_stages.pipeline_steps(variant)]
