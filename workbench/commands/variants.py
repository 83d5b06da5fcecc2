"""`rankbook variant`: the well-known systems and your own, listed, shown, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.variant import Variant

app = typer.Typer(no_args_is_help=True, help="Variants: whole pipelines as TOML. List, show, check.")


def _told(variant: Variant) -> dict[str, Any]:
    """Every option, those left at their defaults too."""
    return {**variant.model_dump(mode="json", by_alias=True), "id": variant.id}


@app.command("list")
def list_variants(*, as_json: telling.AsJson = False) -> None:
    """The presets: published systems as variants.

    Example: rankbook variant list
    """
    from core.presets import names, preset

    variants = [preset(name) for name in names()]
    if as_json:
        telling.as_json([_told(each) for each in variants])
        return
    rows = [(each.name, ", ".join(each.leg_names), each.chunks, each.description) for each in variants]
    telling.table("Presets", ("name", "legs", "searches", "what it does"), rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A preset, or a TOML file.")],
    every: Annotated[bool, typer.Option("--all", help="Every option, with its description.")] = False,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """A variant as TOML, to begin your own with.

    \b
    rankbook variant show local-rag > mine.toml
    rankbook variant show local-rag --all
    """
    from evals.references import variant_of

    variant = variant_of(name)
    if as_json:
        telling.as_json(_told(variant))
        return
    if not every:
        typer.echo(variant.to_toml(), nl=False)
        return
    rows = [(field.alias or key, field.description or "") for key, field in type(variant).model_fields.items()]
    telling.table("Options of a variant", ("option", "what it says"), rows)
    for leg, leg_name in zip(variant.legs, variant.leg_names, strict=True):
        options = type(leg).model_fields.items()
        described = [(key, str(getattr(leg, key)), field.description or "") for key, field in options]
        telling.table(f"Leg {leg_name}", ("option", "here", "what it says"), described)


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="FILE...", help="TOML files, or presets.")],
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Whether variants are valid, and their ids. Exit code 1 where one is not.

    Example: rankbook variant check mine.toml
    """
    checked = [_checked(name) for name in names]
    if as_json:
        telling.as_json(checked)
    for each in [] if as_json else checked:
        if each["problem"]:
            named = each["problem"].startswith(each["file"])
            telling.complain(each["problem"] if named else f"{each['file']}: {each['problem']}")
        else:
            telling.say(f"{each['file']}: {each['name']}, {each['id'][:12]}")
    raise typer.Exit(1 if any(each["problem"] for each in checked) else 0)


def _checked(name: str) -> dict[str, Any]:
    from core.errors import RankbookError
    from evals.references import variant_of

    try:
        variant = variant_of(name)
    except RankbookError as error:
        return {"file": name, "problem": str(error)}
    return {"file": name, "name": variant.name, "id": variant.id, "problem": None}
