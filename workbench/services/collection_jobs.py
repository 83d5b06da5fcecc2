"""Long work on collections as background jobs: what kinds there are, and the jobs found again by kind and collection.

One job of a kind and collection at a time: started again while it is under way, it is the one that is under way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from core.context import RequestContext
from core.errors import InputError
from core.progress import Listener, Step
from core.store import names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.store.verify import verify
from evals.collections import load
from evals.collections.overview import index_recall, query_texts
from evals.types import DEFAULT_QUERY_SET
from workbench.services import attach, collections, jobs, queries
from workbench.services.attach import AttachRequest
from workbench.services.collections import ImportRequest
from workbench.services.jobs import Job, Key

FORMS_KEPT: Final = 24
_FAMILY: Final = "collections"
_starting = threading.Lock()
_forms: OrderedDict[Key, ImportRequest | AttachRequest] = OrderedDict()  # as they were filled in, for another try


@dataclass(frozen=True, slots=True)
class JobKind:
    """`work` takes the store, the collection (its name or itself), a listener and the options of the kind.

    `title` names the collection and options. `check` refuses wrong options before anything starts. `step` is what is
    done first, for work that does not say itself how far it is.
    """

    title: str
    work: Callable[..., Coroutine[Any, Any, Any]]
    check: Callable[..., object] = lambda *_, **__: None
    step: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CollectionJob:
    """Work under way, or ended and not dismissed yet."""

    key: Key
    job: Job[Any]

    @property
    def kind(self) -> str:
        return self.key[2]

    @property
    def name(self) -> str:
        """The collection's name."""
        return self.key[3]

    @property
    def form(self) -> ImportRequest | AttachRequest | None:
        return _forms.get(self.key)

    @property
    def dismissed(self) -> bool:
        """Whether it was dismissed, in whatever window; another job may have started in its place."""
        return jobs.find(self.key) is not self.job


@dataclass(frozen=True, slots=True)
class IndexRecall:
    """The share of the true nearest that the vector index finds, query by query."""

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


async def _recall(
    store: Store, view: CollectionView, on: Listener, *, chunks: str, model: str | None, queries: int, depth: int
) -> IndexRecall:
    context, target = RequestContext(store, view), search_target(store, view, chunks, model)
    shares: list[float] = []
    texts = await query_texts(context, queries)
    for text in texts:
        shares += await index_recall(context, target, [text], depth)
        on(Step("Asking index and exact search", len(shares), len(texts), "queries"))
    return IndexRecall(chunks, target.model or "", target.index, depth, tuple(shares))


def _check_vectors(store: Store, view: CollectionView, *, chunks: str, model: str | None, **_: object) -> None:
    search_target(store, view, chunks, model).column("vectors")  # an error that says why there are none


def _check_queries(_: Store, __: str, *, given: queries.QueriesRequest, query_set: str, **___: object) -> None:
    given.checked()
    names.checked(query_set, what="The query set's name")


def _check_generated(store: Store, view: CollectionView, *, query_set: str, **_: object) -> None:
    refuse_second(store, "generate", view.name)
    names.checked(query_set, what="The query set's name")


KINDS: Final = {
    "add": JobKind(
        "Adding {name}",
        lambda store, _, on, request, author="": collections.add(store, request, on, author),
        lambda _store, _name, request, **_: request.checked(),
    ),
    "resume": JobKind("Going on with {name}", collections.resume),
    "chunk": JobKind(
        "Making the chunk set {chunk_set} of {name}",
        lambda store, view, on, chunk_set, chunker: load.add_chunk_set(store, view, chunk_set, chunker, listener=on),
    ),
    "embed": JobKind(
        "Embedding {name} with {model}",
        lambda store, view, on, model, over: load.add_model(store, view, model, over, listener=on),
    ),
    "verify": JobKind(
        "Verifying {name}", lambda store, view, _: verify(store, view), step=("Comparing tables", "checks")
    ),
    "recall": JobKind("Measuring the vector index of {name}", _recall, _check_vectors),
    "export": JobKind(
        "Writing {name} as BEIR",
        lambda store, view, on, query_set=DEFAULT_QUERY_SET: collections.write_archive(store, view, on, query_set),
    ),
    "attach": JobKind(
        "Attaching {name}",
        lambda store, _, on, request: attach.attach(store, request, on),
        lambda _, name, **__: names.schema_of(name),
    ),
    "aside": JobKind("Building aside for {name}", attach.build_aside),
    "refresh": JobKind("Refreshing what stands aside for {name}", attach.refresh_aside),
    "label": JobKind(
        "Labels for {name}",
        lambda store, name, _, given, query_set, author="": queries.label(store, name, given, query_set, author),
        lambda _store, _name, query_set, **_: names.checked(query_set, what="The query set's name"),
        step=("Holding labels against the documents", "files"),
    ),
    "write": JobKind(
        "Queries for {name}",
        lambda store, name, _, given, query_set, author="": queries.write(store, name, given, query_set, author),
        _check_queries,
        step=("Reading queries", "queries"),
    ),
    "generate": JobKind(
        "Queries out of {name}",
        lambda store, view, on, options, query_set, author="": queries.generate(
            store, view, options, query_set, on, author
        ),
        _check_generated,
    ),
}


def start(store: Store, kind: str, collection: CollectionView | str, **options: Any) -> Job[Any]:
    """Work of that kind. Options are those of the kind; a filled form is its `request`, kept for another try."""
    what, name = KINDS[kind], collection if isinstance(collection, str) else collection.name
    what.check(store, collection, **options)
    key = key_of(store, kind, name)
    if (request := options.get("request")) is not None:
        _forms[key] = request
        while len(_forms) > FORMS_KEPT:
            _forms.popitem(last=False)

    async def work(listener: Listener, _: object) -> Any:
        if what.step is not None:
            listener(Step(what.step[0], 0, None, what.step[1]))
        return await what.work(store, collection, listener, **options)

    with _starting:  # two windows at once must not forget each other's
        last = jobs.find(key)
        if last is not None and last.ended:
            jobs.forget(key)
        return jobs.start(key, what.title.format(name=name, **options), work)


def list_jobs(store: Store) -> list[CollectionJob]:
    """All of this store, the latest first."""
    found = [CollectionJob(key, job) for key, job in jobs.listed() if key[:2] == (_FAMILY, store.where)]
    return found[::-1]


def key_of(store: Store, kind: str, name: str) -> Key:
    return (_FAMILY, store.where, kind, name)


def refuse_second(store: Store, kind: str, name: str) -> None:
    """An error while the first is under way: a second would be taken for it. For callers, before they stage files."""
    last = jobs.find(key_of(store, kind, name))
    if last is not None and not last.ended:
        raise InputError(f"{last.title}: that is under way already. Wait until it is done, or stop it.")


def dismiss(job: CollectionJob) -> None:
    """Forget an ended job; an exported archive is deleted with it."""
    if job.kind == "export" and job.job.ended and not job.job.problem and not job.job.stopped:
        collections.discard(job.job.result())
    jobs.forget(job.key)
