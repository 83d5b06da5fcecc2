"""`rankbook demo`: two or three variants side by side for people who only want to search; and what they voted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import output, serve

if TYPE_CHECKING:
    from core.store.engine import Store
    from evals.judging.votes import Contest, Tally
    from workbench.demo.show import Demo, DemoOptions

APP = Path(__file__).parents[1] / "demo_app.py"
DEMO = "handbook"


def demo(  # noqa: PLR0913, PLR0917 - a flag each
    collection: Annotated[str, typer.Argument(help="The collection's name.")] = DEMO,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", "-v", help="A preset, a leg or a TOML file; two or three, side by side."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", "-n", help="What visitors read above it; one for each --variant.")
    ] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="A and B instead of names, shuffled, with a vote: which is better?")
    ] = False,
    query: Annotated[list[str] | None, typer.Option("--query", "-q", help="An example to click on; several.")] = None,
    examples: Annotated[
        int, typer.Option(min=0, max=20, help="Without --query: how many examples are taken from labelled queries.")
    ] = 6,
    title: Annotated[str, typer.Option(help="The page's heading; by default the collection's name.")] = "",
    seed: Annotated[int, typer.Option(help="Of the blind order; another seed shuffles otherwise.")] = 0,
    port: serve.Port = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets others in your network visit.")] = (
        "127.0.0.1"
    ),
    browser: serve.Browser = True,
    tally: Annotated[bool, typer.Option("--tally", help="Open nothing: print what was voted, with intervals.")] = False,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="With --tally: print JSON.")] = False,
) -> None:
    """Open a search page for anybody to try: one box, two or three variants side by side, reasons in plain words.

    Nothing can be broken from its page: no settings, none of the workbench's pages, and a database role of its own
    that reads this one collection and writes nothing but votes. On the embedded server the role is made for you; on a
    server of your own, too, if you may create roles. Otherwise the demo prints what an administrator has to run, and
    RANKBOOK_DEMO_DSN takes the connection string of the role that they made.

    \b
    rankbook demo                                     words beside words and meaning, over the demo collection
    rankbook demo handbook -v bm25 -v hybrid-retriever --name "Today" --name "Tomorrow"
    rankbook demo handbook -v today.toml -v new.toml --blind --host 0.0.0.0    ask colleagues which is better
    rankbook demo handbook -q "reset hub 3" -q "FL-4021"       with examples of yours
    rankbook demo handbook --tally                    what they voted, and how sure that is
    """
    from core import bridge
    from core.store import collections
    from workbench.demo.show import DemoOptions
    from workbench.server.serve import check_port
    from workbench.session import store

    check_port(port)
    owner = store(output.notice)
    view = bridge.run(collections.get(owner, collection))
    if tally:
        _tell_tallies(owner, view.name, as_json=as_json)
        return
    wanted = DemoOptions(tuple(variant or ()), tuple(name or ()), tuple(query or ()), examples, title, blind, seed)
    code = _run(owner, view.name, wanted, port, host, browser=browser)
    sys.stdout.flush()
    os._exit(code)  # a model still loading in the background would make the interpreter wait, and then complain


def _run(owner: Store, collection: str, wanted: DemoOptions, port: int | None, host: str, *, browser: bool) -> int:
    from core import bridge
    from workbench import session
    from workbench.demo import show
    from workbench.server.serve import serve

    made = _ready(owner, collection, wanted)
    session.close()  # from here on nobody holds more than the demo's own role may do
    show.set_current(made)
    try:
        return serve(port=port, host=host, open_browser=browser, app=APP, store=lambda: made.store)
    finally:
        if job := show.find_answering():
            job.stop()
        show.take_off()
        bridge.run(made.store.close())


def _ready(owner: Store, collection: str, wanted: DemoOptions) -> Demo:
    """Everything that a first visitor would otherwise wait for, but for the examples, which go on meanwhile."""
    from core import bridge
    from core.store import collections
    from workbench.demo import show

    made = bridge.run(show.opened(owner, bridge.run(collections.get(owner, collection)), wanted))
    try:
        for asked in bridge.run(show.planned(made)):
            output.notice(asked)
        with output.waiting("Loading what the first visitor will need ..."):
            bridge.run(show.tried(made))
    except BaseException:
        bridge.run(made.store.close())
        raise
    show.begin_answering(made)
    output.notice(f"Side by side: {show.told(made.entrants)}.")
    if wanted.blind:
        output.notice(f"What is voted: rankbook demo {quote(collection)} --tally")
    return made


def _tell_tallies(owner: Store, collection: str, *, as_json: bool) -> None:
    from core import bridge
    from evals.judging import votes

    told = [(contest, votes.tally(contest, given)) for contest, given in bridge.run(votes.contests(owner, collection))]
    if as_json:
        output.as_json([{"tally": tally, "says": tally.sentences()} for _, tally in told])
        return
    if not told:
        output.notice(
            f"Nobody was asked yet. Begin with: rankbook demo {quote(collection)} --blind -v bm25 -v hybrid-retriever"
        )
    for contest, tally in told:
        _tell(contest, tally)


def _tell(contest: Contest, tally: Tally) -> None:
    title = f"{' or '.join(each.name for each in tally.shares)} ({contest.key})"
    rows = [
        (each.name, each.votes, f"{each.share:.0%}" if tally.decided else "", f"{each.low:.0%} to {each.high:.0%}")
        for each in tally.shares
    ]
    rows += [("both", tally.both, "", ""), ("neither", tally.neither, "", "")]
    output.table(title, ("liked better", "votes", "of decided", "95% interval"), rows, right=("votes", "of decided"))
    names = [*(each.name for each in tally.shares), "both", "neither"]
    by_query = [(each.query, *(each.votes.get(name, 0) for name in names)) for each in tally.queries]
    if by_query:
        output.table("By query", ("query", *names), by_query, right=names)
    if tally.votes:
        output.notice(
            f"{_some(tally.votes, 'vote', 'votes')} by {_some(tally.visitors, 'visitor', 'visitors')} on "
            f"{_some(len(tally.queries), 'query', 'queries')}."
        )
    for sentence in tally.sentences():
        output.notice(sentence)


def _some(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
