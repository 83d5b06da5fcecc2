"""`rankbook` starts the workbench; `rankbook access` says who may do what."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from workbench.commands import output
from workbench.commands.backup import tables_by_collection

if TYPE_CHECKING:
    from core.doctor import HealthCheck
    from workbench.server.roles_file import RoleFile

DEMO = "handbook"

Port = Annotated[int | None, typer.Option(help="The port; by default 8501, or the next that is free.")]
Host = Annotated[
    str, typer.Option(help="The address to listen on; beyond loopback only with a sign-in: docs/serving.md.")
]
OpenToAll = Annotated[
    bool, typer.Option("--open-to-all", help="Listen beyond loopback without a sign-in: whoever gets there owns all.")
]
Browser = Annotated[bool, typer.Option(help="Open a browser window.")]


def start(
    port: int | None,
    host: str,
    *,
    browser: bool,
    demo: bool = True,
    page: str = "",
    open_to_all: bool = False,
    log_format: str | None = None,
) -> NoReturn:
    """Open it, at a page of it, until Ctrl-C ends it; and with it this process."""
    from workbench.server import access, logs
    from workbench.server.serve import check_port, check_reach, serve

    check_port(port)  # before the demo is loaded, which takes its time
    form = logs.form_of(log_format)
    check_reach(host, access.current(), open_to_all=open_to_all)
    if form == "json":
        logs.install(form)
    if demo:
        _load_demo(quiet=form == "json")
    code = serve(port=port, host=host, open_browser=browser, page=page, open_to_all=open_to_all, log_format=form)
    sys.stdout.flush()
    os._exit(code)  # a model still loading in the background would make the interpreter wait, and then complain


def _load_demo(*, quiet: bool) -> None:
    from core import bridge
    from core.progress import nobody
    from evals.collections import load
    from evals.collections.overview import needs_demo
    from evals.sources import guess
    from workbench.server import logs
    from workbench.session import store

    def say(sentence: str) -> None:
        if quiet:
            logs.told("starting", says=sentence)
        else:
            output.notice(sentence)

    opened = store(say if quiet else output.notice)  # which hears of the server's start already, and is told once
    if not bridge.run(needs_demo(opened, DEMO)):
        return
    say("Loading the demo collection, which happens once.")
    source = guess(DEMO)
    with nullcontext(nobody) if quiet else output.progress() as listener:
        bridge.run(load.load_collection(opened, DEMO, source, load.plan_for(source), listener=listener))


VERIFIED = "An address counts where the sign-in says that it is verified (`email_verified`)."


def access(
    email: Annotated[str | None, typer.Argument(help="Whose role to show; by default all are listed.")] = None,
    attached: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=TABLE",
            help="Let whoever may search the collection NAME read the table that it is attached to.",
        ),
    ] = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Show who may come in and do what where the workbench is served to a team, as access.toml says.

    The file lies in Rankbook's home; a change holds within a second. Who is not let in ends with exit code 1.
    A table that you attach can be read by all of them. One that came otherwise, with an older Rankbook for one, needs
    --attached once.

    \b
    rankbook access                      all that it says
    rankbook access ada@example.org      the role of one, by e-mail address
    rankbook access --attached docs=public.docs
    """
    from workbench.server import roles_file

    if attached is not None:
        _let_read(attached, as_json=as_json)
        return
    read = roles_file.read(roles_file.path())
    if email is None:
        _tell_all(read, as_json=as_json)
        return
    named = read.named(email) is not None
    role = read.role_of({"email": email, "email_verified": True})
    said = [f"{email} comes in as {role}." if role else f"{email} does not come in."]
    if named and role and not read.unverified_emails:
        said.append(VERIFIED)
    if read.claims and not named:
        said.append("Claims of the sign-in may say more.")
    output.done({"email": email, "role": role}, " ".join(said), json=as_json)
    raise typer.Exit(0 if role else 1)


def _let_read(named: str, *, as_json: bool) -> None:
    from core import bridge
    from core.store import attached
    from workbench.session import store

    ((name, table),) = tables_by_collection([named]).items()
    mapping = bridge.run(attached.let_read(store(output.notice), name, table))
    sentence = f"Whoever may search {name} can read {mapping.full_name}."
    output.done({"collection": name, "table": mapping.full_name}, sentence, json=as_json)


def _tell_all(read: RoleFile, *, as_json: bool) -> None:
    if as_json:
        output.as_json(read.model_dump())
        return
    rows: list[tuple[Any, ...]] = [(address, role) for address, role in read.people.items()]
    rows += [(f"{claim}: {value}", role) for claim, roles in read.claims.items() for value, role in roles.items()]
    output.table("Who may do what", ("who", "role"), [*rows, ("anybody else who signs in", read.default)])
    if read.people and not read.unverified_emails:
        output.notice(VERIFIED)


def findings() -> list[HealthCheck]:
    """For the doctor: whether one signs in here, and whether the files that say so are right."""
    from core.doctor import HealthCheck
    from core.errors import RankbookError
    from workbench.server import roles_file, sign_in

    try:
        provider = sign_in.configured()
        if provider is None:
            return [HealthCheck("Sign-in", "none: whoever reaches the workbench is its owner")]
        read = roles_file.read(roles_file.path())
    except RankbookError as error:
        return [HealthCheck("Sign-in", "is not set up right", ok=False, way_out=str(error))]
    named = len(read.people) + sum(map(len, read.claims.values()))
    return [
        HealthCheck("Sign-in", f"by {provider.provider}; {named} named in {roles_file.path()}, others: {read.default}")
    ]
