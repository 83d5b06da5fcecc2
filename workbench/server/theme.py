"""Streamlit's theme, as settings of the server."""

from __future__ import annotations

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
