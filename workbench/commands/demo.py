"""`rankbook demo`: two or three variants side by side for people who only want to search; and what they voted."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from core import bridge
from workbench.commands import output, runtime, serve
from workbench.commands.serve import exit_now

if TYPE_CHECKING:
    from core.store.engine import Store

APP = Path(__file__).parents[1] / "demo_app.py"


def demo(  # noqa: PLR0913, PLR0917 - a flag each
    collection: Annotated[str, typer.Argument(help="The collection's name.")] = runtime.DEMO,
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
    from workbench import session
    from workbench.demo import show
    from workbench.server.serve import check_port, serve

    check_port(port)
    owner, view = runtime.open_collection(collection)
    if tally:
        _show_votes(owner, view.name, as_json=as_json)
        return
    options = show.DemoOptions(
        tuple(variant or ()), tuple(name or ()), tuple(query or ()), examples, title, blind, seed
    )
    opened = bridge.run(show.open_demo(owner, view, options))
    try:
        for sentence in bridge.run(show.cost_notices(opened)):
            output.notice(sentence)
        with output.waiting("Loading what the first visitor will need ..."):
            bridge.run(show.try_columns(opened))
        show.begin_answering(opened)  # the examples, which a first visitor need not wait for
        output.notice(f"Side by side: {', '.join(f'{each.name} ({each.variant.name})' for each in opened.columns)}.")
        if blind:
            output.notice(f"What is voted: rankbook demo {quote(view.name)} --tally")
        session.close()  # from here on nobody holds more than the demo's own role may do
        show.set_current(opened)
        code = serve(port=port, host=host, open_browser=browser, app=APP, store=lambda: opened.store)
    finally:
        if job := show.find_answering():
            job.stop()
        show.clear_current()
        bridge.run(opened.store.close())
    exit_now(code)


def _show_votes(store: Store, collection: str, *, as_json: bool) -> None:
    from evals.judging import votes

    contests = bridge.run(votes.contests(store, collection))
    tallies = [(contest, votes.tally(contest, ballots)) for contest, ballots in contests]
    if as_json:
        output.print_json([{"tally": tally, "says": tally.sentences()} for _, tally in tallies])
        return
    if not tallies:
        output.notice(
            f"Nobody was asked yet. Begin with: rankbook demo {quote(collection)} --blind -v bm25 -v hybrid-retriever"
        )
    for contest, tally in tallies:
        title = f"{' or '.join(each.name for each in tally.shares)} ({contest.key})"
        rows = [
            (each.name, each.votes, f"{each.share:.0%}" if tally.decided else "", f"{each.low:.0%} to {each.high:.0%}")
            for each in tally.shares
        ]
        rows += [("both", tally.both, "", ""), ("neither", tally.neither, "", "")]
        columns = ("liked better", "votes", "of decided", "95% interval")
        output.table(title, columns, rows, right=("votes", "of decided"))
        names = [*(each.name for each in tally.shares), "both", "neither"]
        by_query = [(each.query, *(each.votes.get(name, 0) for name in names)) for each in tally.queries]
        if by_query:
            output.table("By query", ("query", *names), by_query, right=names)
        if tally.votes:
            output.notice(
                f"{_count(tally.votes, 'vote', 'votes')} by {_count(tally.visitors, 'visitor', 'visitors')} on "
                f"{_count(len(tally.queries), 'query', 'queries')}."
            )
        for sentence in tally.sentences():
            output.notice(sentence)


def _count(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
