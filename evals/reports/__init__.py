"""Reports of boards: one HTML file that opens offline, Markdown, a table for LaTeX. It computes no scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core import atomic_files
from core.errors import InputError
from evals.evaluation.board import Board
from evals.reports.build import report
from evals.reports.html_page import render_html
from evals.reports.model import Limits, Part, Report
from evals.reports.query_details import documents
from evals.reports.text_formats import render_latex, render_markdown

__all__ = [
    "Limits",
    "Part",
    "Report",
    "documents",
    "render_html",
    "render_latex",
    "render_markdown",
    "report",
    "write",
]

FORMATS: dict[str, Callable[[Report], str]] = {".html": render_html, ".md": render_markdown, ".tex": render_latex}


def write(source: Report | Part | Board, path: Path) -> Path:
    """Write it as the file's ending says. A board, or a part, becomes a report of its own."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"A report ends in {', '.join(FORMATS)}, and not in {ending or 'nothing'}.", path=path)
    text = FORMATS[ending](source if isinstance(source, Report) else report([source]))
    try:
        atomic_files.write_whole(path, text)
    except OSError as error:
        raise InputError(f"The report cannot be written ({error.strerror}).", path=path) from error
    return path
