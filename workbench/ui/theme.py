"""How things look: Streamlit's theme, the frame's style sheet, and files that lie here. Knows no Streamlit."""

from __future__ import annotations

from pathlib import Path

_LIGHT = {
    "primaryColor": "#33475F",
    "backgroundColor": "#FBFBF9",
    "secondaryBackgroundColor": "#F1F2EE",
    "textColor": "#1E242B",
    "borderColor": "#DFE1DB",
    "linkColor": "#2F5D8A",
}
_DARK = {
    "primaryColor": "#A9BDD6",
    "backgroundColor": "#14171B",
    "secondaryBackgroundColor": "#1D2127",
    "textColor": "#E6E8EA",
    "borderColor": "#30363E",
    "linkColor": "#8DBBE8",
}
OPTIONS = {
    **{f"theme.light.{name}": value for name, value in _LIGHT.items()},
    **{f"theme.dark.{name}": value for name, value in _DARK.items()},
    "theme.baseRadius": "8px",
    "theme.showWidgetBorder": True,
}

MARK = Path(__file__).with_name("mark.svg")


def stylesheet() -> str:
    """The frame's rules, and the legs' colours as variables that reach into components too."""
    from core.legs import leg_descriptions  # which takes its time: whoever starts the server wants the options alone
    from evals.reports import palette

    legs = leg_descriptions()
    pairs = {kind: palette.STYLES[(about.slot or 0) % len(palette.STYLES)] for kind, about in legs.items()}
    colours = "".join(f"--leg-{kind}: light-dark({light}, {dark});" for kind, (light, dark) in pairs.items())
    headings = "".join(f".rb-leg-{kind} {{ --leg: var(--leg-{kind}); }}" for kind in legs)
    return f"<style>:root {{ {colours} }} {headings} {read('frame.css')}</style>"


def read(name: str) -> str:
    """A style sheet or script that lies beside this file, and comes along in a wheel."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
