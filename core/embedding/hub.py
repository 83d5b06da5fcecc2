"""The hub of models: is one here already, and if not, does the hub have it? Answers in seconds, once, and quietly."""

from __future__ import annotations

from core.embedding import minilm
from core.errors import EmbeddingError

PATIENCE = 5.0  # seconds; the library itself tries again and again, for more than a minute
WAY_OUT = f"Give a folder that holds the model, or use the default, {minilm.NAME}, which needs no download."


def is_here(name: str) -> bool:
    """Whether some of the model was downloaded before. A part that is missing shows when it is loaded."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return any(isinstance(try_to_load_from_cache(each, "config.json"), str) for each in _full_names(name))
    except HFValidationError:
        return False


def check(name: str) -> None:
    """Refuse in a sentence what cannot be downloaded, before anything heavy is begun."""
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
    """What is wrong is said in our sentence; the library would say it many times over before."""
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def _full_names(name: str) -> tuple[str, ...]:
    """sentence-transformers looks a name without an owner up among its own models first."""
    return (name,) if "/" in name else (f"sentence-transformers/{name}", name)
