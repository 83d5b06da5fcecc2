"""Long work on collections as background jobs, each found again by its collection and kind. Draws nothing.

One job of a kind and collection at a time: asked again while it is under way, it is the one that is under way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from core.context import RequestContext
from core.errors import InputError
from core.progress import Listener, Step
from core.store import names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import IngestReport
from core.store.resolve_target import search_target
from core.store.verify import IntegrityProblem, verify
from evals.collections import load
from evals.collections.load_labels import LoadReport
from evals.collections.overview import index_recall, query_texts
from evals.labels.query_generation import AddedQueries, KnownItems
from evals.types import DEFAULT_QUERY_SET
from workbench.services import attach as services_attach
from workbench.services import collections as collections_added
from workbench.services import collections as collections_out
from workbench.services import jobs
from workbench.services import queries as services_queries
from workbench.services.collections import ImportRequest, Zipped
from workbench.services.jobs import Job, Key, Work

What = Literal[
    "add",
    "resume",
    "chunk",
    "embed",
    "verify",
    "recall",
    "export",
    "attach",
    "aside",
    "refresh",
    "label",
    "write",
    "generate",
]
FORMS_KEPT: Final = 24
_FAMILY: Final = "collections"
_beginning = threading.Lock()
_forms: OrderedDict[Key, ImportRequest | services_attach.AttachRequest] = (
    OrderedDict()
)  # as they were filled in, for another try


@dataclass(frozen=True, slots=True)
class CollectionJob:
    """Work under way, or ended and not yet put away."""

    key: Key
    job: Job[Any]

    @property
    def what(self) -> str:
        return self.key[2]

    @property
    def name(self) -> str:
        """The collection's."""
        return self.key[3]

    @property
    def form(self) -> ImportRequest | services_attach.AttachRequest | None:
        return _forms.get(self.key)


@dataclass(frozen=True, slots=True)
class Recall:
    """What the vector index brought up of the true nearest, query by query."""

    chunks: str
    model: str
    index: str
    depth: int
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.shares) / len(self.shares)

    @property
    def perfect(self) -> int:
        return sum(each == 1 for each in self.shares)


def begun(store: Store) -> list[CollectionJob]:
    """All of this store, the latest first."""
    found = [CollectionJob(key, job) for key, job in jobs.begun() if key[:2] == (_FAMILY, store.where)]
    return found[::-1]


def key_of(store: Store, what: What, name: str) -> Key:
    return (_FAMILY, store.where, what, name)


def _begin(store: Store, what: What, name: str, title: str, work: Work[Any]) -> Job[Any]:
    key = key_of(store, what, name)
    with _beginning:  # two windows at once must not forget each other's
        last = jobs.find(key)
        if last is not None and last.ended:
            jobs.forget(key)
        return jobs.start(key, title, work)


def refuse_second(store: Store, what: What, name: str) -> None:
    """While the first is under way, it would be taken for that one and lost: said before anything is staged."""
    last = jobs.find(key_of(store, what, name))
    if last is not None and not last.ended:
        raise InputError(f"{last.title}: that is under way already. Wait until it is done, or stop it.")


def add(store: Store, wanted: ImportRequest, author: str = "") -> Job[Any]:
    """A collection out of a form. What is wrong with the form is told before anything begins."""
    wanted.checked()
    key = key_of(store, "add", wanted.name)
    _keep_form(key, wanted)
    return _begin(
        store,
        "add",
        wanted.name,
        f"Adding {wanted.name}",
        lambda listener, _: collections_added.add(store, wanted, listener, author),
    )


def _keep_form(key: Key, wanted: ImportRequest | services_attach.AttachRequest) -> None:
    _forms[key] = wanted
    while len(_forms) > FORMS_KEPT:
        _forms.popitem(last=False)


def resume(store: Store, name: str) -> Job[Any]:
    """A load that was interrupted."""
    title = f"Going on with {name}"
    return _begin(store, "resume", name, title, lambda listener, _: collections_added.resume(store, name, listener))


def chunk(store: Store, view: CollectionView, chunk_set: str, chunker: Mapping[str, Any]) -> Job[Any]:
    """One more chunk set."""

    async def work(listener: Listener, _: object) -> IngestReport:
        return await load.add_chunk_set(store, view, chunk_set, chunker, listener=listener)

    return _begin(store, "chunk", view.name, f"Making the chunk set {chunk_set} of {view.name}", work)


def embed(store: Store, view: CollectionView, model: str, over: tuple[str, ...]) -> Job[Any]:
    """One more model."""

    async def work(listener: Listener, _: object) -> IngestReport:
        return await load.add_model(store, view, model, over, listener=listener)

    return _begin(store, "embed", view.name, f"Embedding {view.name} with {model}", work)


def check(store: Store, view: CollectionView) -> Job[Any]:
    """Whether its tables hold what they should."""

    async def work(listener: Listener, _: object) -> list[IntegrityProblem]:
        listener(Step("Comparing tables", 0, None, "checks"))
        return await verify(store, view)

    return _begin(store, "verify", view.name, f"Verifying {view.name}", work)


def recall(store: Store, view: CollectionView, chunks: str, model: str | None, queries: int, depth: int) -> Job[Any]:
    """What the vector index misses."""
    where = search_target(store, view, chunks, model)
    where.column("vectors")  # says in a sentence why there are none

    async def work(listener: Listener, _: object) -> Recall:
        context = RequestContext(store, view)
        shares: list[float] = []
        texts = await query_texts(context, queries)
        for text in texts:
            shares += await index_recall(context, where, [text], depth)
            listener(Step("Asking index and exact search", len(shares), len(texts), "queries"))
        return Recall(chunks, where.model or "", where.index, depth, tuple(shares))

    return _begin(store, "recall", view.name, f"Measuring the vector index of {view.name}", work)


def export(store: Store, view: CollectionView, query_set: str = DEFAULT_QUERY_SET) -> Job[Any]:
    """The collection as a BEIR archive to download."""
    title = f"Writing {view.name} as BEIR"

    async def work(listener: Listener, _: object) -> Zipped:
        return await collections_out.zipped(store, view, listener, query_set)

    return _begin(store, "export", view.name, title, work)


# -- somebody's table ----------------------------------------------------------------------------------------------


def attach(store: Store, wanted: services_attach.AttachRequest) -> Job[Any]:
    """A collection over somebody's table."""
    names.schema_of(wanted.name)
    key = key_of(store, "attach", wanted.name)
    _keep_form(key, wanted)
    title = f"Attaching {wanted.name}"
    return _begin(
        store, "attach", wanted.name, title, lambda listener, _: services_attach.attach(store, wanted, listener)
    )


def aside(store: Store, name: str) -> Job[Any]:
    """What their table lacks, beside it."""
    title = f"Building aside for {name}"
    return _begin(store, "aside", name, title, lambda listener, _: services_attach.aside(store, name, listener))


def refresh(store: Store, name: str) -> Job[Any]:
    """What stands beside their table, brought up to its rows."""
    title = f"Refreshing what stands aside for {name}"
    return _begin(store, "refresh", name, title, lambda listener, _: services_attach.refreshed(store, name, listener))


# -- queries and labels --------------------------------------------------------------------------------------------


def label(store: Store, name: str, staged: services_queries.Files, query_set: str, author: str = "") -> Job[Any]:
    """Labels from files, in the place of those of a set."""
    names.checked(query_set, what="The query set's name")

    async def work(listener: Listener, _: object) -> LoadReport:
        listener(Step("Holding labels against the documents", 0, None, "files"))
        return await services_queries.label(store, name, staged, query_set, author)

    return _begin(store, "label", name, f"Labels for {name}", work)


def write(store: Store, name: str, given: services_queries.Given, query_set: str, author: str = "") -> Job[Any]:
    """Queries that somebody wrote. None at all, and a name that cannot be borne, are told before anything begins."""
    given.checked()
    names.checked(query_set, what="The query set's name")

    async def work(listener: Listener, _: object) -> AddedQueries:
        listener(Step("Reading queries", 0, None, "queries"))
        return await services_queries.write(store, name, given, query_set, author)

    return _begin(store, "write", name, f"Queries for {name}", work)


def generate(store: Store, view: CollectionView, wanted: KnownItems, query_set: str, author: str = "") -> Job[Any]:
    """Queries made of the documents' own words."""
    refuse_second(store, "generate", view.name)
    names.checked(query_set, what="The query set's name")

    async def work(listener: Listener, _: object) -> services_queries.Made:
        return await services_queries.generate(store, view, wanted, query_set, listener, author)

    return _begin(store, "generate", view.name, f"Queries out of {view.name}", work)


def put_away_already(doing: CollectionJob) -> bool:
    """Whether it was read, and something else may have begun in its place."""
    return jobs.find(doing.key) is not doing.job


def put_away(doing: CollectionJob) -> None:
    """What ended and was read."""
    if doing.what == "export" and doing.job.ended and not doing.job.problem and not doing.job.stopped:
        collections_out.discard(doing.job.result())
    jobs.forget(doing.key)
