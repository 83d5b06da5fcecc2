"""`rankbook access`: who may come in and do what, and the owner's leave to read somebody's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import telling
from workbench.commands.backup import tables_by_collection

if TYPE_CHECKING:
    from core.store.doctor import Finding
    from workbench.access.people import Access

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
    as_json: telling.AsJson = False,
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
    from workbench.access import people

    if attached is not None:
        _let_read(attached, as_json=as_json)
        return
    read = people.read(people.path())
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
    telling.done({"email": email, "role": role}, " ".join(said), json=as_json)
    raise typer.Exit(0 if role else 1)


def _let_read(named: str, *, as_json: bool) -> None:
    from core import bridge
    from core.store import attached
    from workbench.session import store

    ((name, table),) = tables_by_collection([named]).items()
    mapping = bridge.run(attached.let_read(store(telling.say), name, table))
    sentence = f"Whoever may search {name} can read {mapping.full_name}."
    telling.done({"collection": name, "table": mapping.full_name}, sentence, json=as_json)


def _tell_all(read: Access, *, as_json: bool) -> None:
    if as_json:
        telling.as_json(read.model_dump())
        return
    rows: list[tuple[Any, ...]] = [(address, role) for address, role in read.people.items()]
    rows += [(f"{claim}: {value}", role) for claim, roles in read.claims.items() for value, role in roles.items()]
    telling.table("Who may do what", ("who", "role"), [*rows, ("anybody else who signs in", read.default)])
    if read.people and not read.unverified_emails:
        telling.say(VERIFIED)


def findings() -> list[Finding]:
    """For the doctor: whether one signs in here, and whether the files that say so are right."""
    from core.errors import RankbookError
    from core.store.doctor import Finding
    from workbench.access import people, sign_in

    try:
        provider = sign_in.configured()
        if provider is None:
            return [Finding("Sign-in", "none: whoever reaches the workbench is its owner")]
        read = people.read(people.path())
    except RankbookError as error:
        return [Finding("Sign-in", "is not set up right", ok=False, way_out=str(error))]
    named = len(read.people) + sum(map(len, read.claims.values()))
    return [Finding("Sign-in", f"by {provider.provider}; {named} named in {people.path()}, others: {read.default}")]
