"""`rankbook` starts the workbench; `rankbook access` says who may do what, `rankbook doctor` what is wrong."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from core import bridge
from workbench.commands import output, runtime
from workbench.services import server_waits

if TYPE_CHECKING:
    from core.doctor import HealthCheck

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
    """Serve the workbench, opened at that page, until Ctrl-C ends it, and this process with it."""
    from workbench.server import access, logs
    from workbench.server.serve import check_port, check_reach, serve

    check_port(port)  # before the demo is loaded, which takes its time
    form = logs.form_of(log_format)
    check_reach(host, access.current(), open_to_all=open_to_all)
    if form == "json":
        logs.install(form)
    if demo:
        _load_demo(as_log_lines=form == "json")
    exit_now(serve(port=port, host=host, open_browser=browser, page=page, open_to_all=open_to_all, log_format=form))


def exit_now(code: int) -> NoReturn:
    """End the process. The interpreter would wait for a model that still loads in the background, and complain."""
    sys.stdout.flush()
    os._exit(code)


def _load_demo(*, as_log_lines: bool) -> None:
    from core.progress import nobody
    from evals.collections import load
    from evals.collections.overview import needs_demo
    from evals.sources import guess
    from workbench.server import logs

    def log(sentence: str) -> None:
        logs.info("starting", says=sentence)

    tell = log if as_log_lines else output.notice
    store = runtime.open_store(tell)
    if not bridge.run(needs_demo(store, runtime.DEMO)):
        return
    tell("Loading the demo collection, which happens once.")
    source = guess(runtime.DEMO)
    with nullcontext(nobody) if as_log_lines else output.progress() as listener:
        bridge.run(load.load_collection(store, runtime.DEMO, source, load.plan_for(source), listener=listener))


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
        from core.store import attached as attached_tables

        ((name, table),) = runtime.tables_by_collection([attached]).items()
        mapping = bridge.run(attached_tables.let_read(runtime.open_store(), name, table))
        sentence = f"Whoever may search {name} can read {mapping.full_name}."
        output.result({"collection": name, "table": mapping.full_name}, sentence, json=as_json)
        return
    roles = roles_file.read(roles_file.path())
    if email is not None:
        is_named = roles.named(email) is not None
        role = roles.role_of({"email": email, "email_verified": True})
        sentences = [f"{email} comes in as {role}." if role else f"{email} does not come in."]
        if is_named and role and not roles.unverified_emails:
            sentences.append(VERIFIED)
        if roles.claims and not is_named:
            sentences.append("Claims of the sign-in may say more.")
        output.result({"email": email, "role": role}, " ".join(sentences), json=as_json)
        raise typer.Exit(0 if role else 1)
    if as_json:
        output.print_json(roles.model_dump())
        return
    rows: list[tuple[Any, ...]] = list(roles.people.items())
    rows += [(f"{claim}: {value}", role) for claim, named in roles.claims.items() for value, role in named.items()]
    output.table("Who may do what", ("who", "role"), [*rows, ("anybody else who signs in", roles.default)])
    if roles.people and not roles.unverified_emails:
        output.notice(VERIFIED)


def doctor(*, as_json: output.AsJson = False) -> None:
    """Say what is running (versions, extensions, disk, model) and how to fix what is wrong; exit code 1 if anything is.

    Example: rankbook doctor --json
    """
    from core.doctor import examine, examine_workers
    from evals import schema_chain

    findings = [*bridge.run(examine([schema_chain], server_waits.tell))]
    findings += [*bridge.run(examine_workers()), _check_sign_in()]
    if as_json:
        output.print_json(findings)
    else:
        rows = [("ok" if each.ok else "WRONG", each.what, each.found) for each in findings]
        output.table("Rankbook", ("", "what", "found"), rows)
        for each in findings:
            if each.way_out:
                output.notice(f"{each.what}: {each.way_out}")
    raise typer.Exit(0 if all(each.ok for each in findings) else 1)


def _check_sign_in() -> HealthCheck:
    """Whether people sign in here, and whether the files that say so are right."""
    from core.doctor import HealthCheck
    from core.errors import RankbookError
    from workbench.server import roles_file, sign_in

    try:
        provider = sign_in.configured()
        if provider is None:
            return HealthCheck("Sign-in", "none: whoever reaches the workbench is its owner")
        roles = roles_file.read(roles_file.path())
    except RankbookError as error:
        return HealthCheck("Sign-in", "is not set up right", ok=False, way_out=str(error))
    named = len(roles.people) + sum(map(len, roles.claims.values()))
    return HealthCheck(
        "Sign-in", f"by {provider.provider}; {named} named in {roles_file.path()}, others: {roles.default}"
    )
