"""Style sheets, scripts and pages that lie beside this file, and come along in a wheel."""

from __future__ import annotations

from pathlib import Path


def beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
