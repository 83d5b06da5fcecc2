"""Token offsets without loading a model: enough for chunkers and budgets, and quick to import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import EmbeddingError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def from_file(file: Path) -> Tokenizer:
    try:
        return from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddingError(f"The tokenizer {file} cannot be read: {error}") from error


def from_json(definition: str) -> Tokenizer:
    """A tokenizer that neither cuts nor pads: both are the model's business, not the counter's."""
    from tokenizers import Tokenizer

    try:
        made = Tokenizer.from_str(definition)
    except Exception as error:  # the library raises a bare Exception
        raise EmbeddingError(f"The tokenizer cannot be understood: {error}") from error
    made.no_truncation()
    made.no_padding()
    return made


def offsets(tokenizer: Tokenizer, text: str) -> Sequence[tuple[int, int]]:
    """Character ranges of the text's tokens, the special ones left out."""
    return tokenizer.encode(text, add_special_tokens=False).offsets
