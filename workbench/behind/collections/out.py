"""A collection as one BEIR archive, for a browser to download. Written by `evals.collections.export_beir`, then
packed."""

from __future__ import annotations

import asyncio
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.home import home
from core.progress import Listener, Step
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.collections import export_beir
from evals.types import DEFAULT_QUERY_SET
from workbench.behind.collections import transient

LARGEST: Final = 512 * 2**20  # bytes; a download goes through memory


@dataclass(frozen=True, slots=True)
class Zipped:
    """The archive, and what is in it."""

    path: Path
    documents: int
    queries: int
    labels: int
    bytes: int


async def zipped(store: Store, view: CollectionView, listener: Listener, query_set: str = DEFAULT_QUERY_SET) -> Zipped:
    """The archive in a folder of its own; nothing is left of it where something went wrong."""
    folder = home() / "exports"
    await asyncio.to_thread(transient.sweep, folder)
    made = transient.new_in(folder)
    try:
        listener(Step("Writing documents, queries and labels", 0, None, "files"))
        name = file_name(view.name)
        exported = await export_beir.export_beir(store, view, made / name, query_set=query_set)
        listener(Step("Packing", 0, None, "files"))
        packed = Path(await asyncio.to_thread(shutil.make_archive, str(made / name), "zip", made, name))
        await asyncio.to_thread(shutil.rmtree, made / name)
        return Zipped(
            packed,
            exported.documents,
            exported.queries,
            exported.labels,
            (await asyncio.to_thread(packed.stat)).st_size,
        )
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def file_name(collection: str) -> str:
    """A name for its archive that any system bears."""
    return re.sub(r"[^\w-]+", "-", collection).strip("-")[:60] or "collection"


def discard(archive: Zipped) -> None:
    shutil.rmtree(archive.path.parent, ignore_errors=True)
