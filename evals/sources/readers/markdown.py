"""Markdown and plain text as they stand, without their front matter."""

from __future__ import annotations

from evals.sources.front_matter import split_front_matter
from evals.sources.readers.base import ReadDocument, Reader, decoded, first_title, readers, titled


@readers.register("markdown")
class MarkdownReader(Reader):
    """Markdown and plain text. Files of any other ending that somebody asks for are read so too."""

    suffixes = (".md", ".markdown", ".txt")

    def read(self, raw: bytes) -> ReadDocument:
        text, notes = decoded(raw)
        metadata, body, problem = split_front_matter(text)
        title, metadata = titled(metadata, first_title(body))
        if problem:
            notes = (*notes, f"The front matter is not valid YAML and was left out: {problem}.")
        return ReadDocument(body, title, metadata, notes)
