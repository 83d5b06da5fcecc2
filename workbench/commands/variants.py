"""`rankbook variant`: the well-known systems and your own, listed, shown, checked, kept, held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output, trash

if TYPE_CHECKING:
    from core.variant import Variant
    from evals.variants import SavedVariant

app = typer.Typer(no_args_is_help=True, help="Variants: whole pipelines as TOML. List, show, check, keep, diff.")


def _told(variant: Variant) -> dict[str, Any]:
    """Every option, those left at their defaults too."""
    return {**variant.model_dump(mode="json", by_alias=True), "id": variant.id}


@app.command("list")
def list_variants(*, as_json: output.AsJson = False) -> None:
    """List the presets, modelled on five published retrieval systems, and the variants you keep.

    Example: rankbook variant list
    """
    from core.presets import names, preset
    from evals import variants as evals_variants
    from workbench.services.variants import in_words

    variants, own = [preset(name) for name in names()], evals_variants.listed()
    if as_json:
        output.as_json([*map(_told, variants), *map(_told_kept, own)])
        return
    columns = ("name", "pipeline", "searches", "what it is for")
    output.table("Presets", columns, [_row(each.name, each, in_words(each)) for each in variants])
    rows = [
        _row(each.name, each.variant, in_words(each.variant)) if each.variant else (each.name, "", "", each.problem)
        for each in own
    ]
    if rows:
        output.table("Your own", columns, rows)
    else:
        output.notice("You keep none of your own yet. Keep one: rankbook variant keep mine.toml")


def _row(name: str, variant: Variant, pipeline: str) -> tuple[str, ...]:
    return name, pipeline, variant.chunks, variant.description


def _told_kept(kept: SavedVariant) -> dict[str, Any]:
    about = {"name": kept.name, "file": str(kept.path), "problem": kept.problem or None}
    return {**(_told(kept.variant) if kept.variant else {}), **about}


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A preset, a kept variant, or a TOML file.")],
    every: Annotated[bool, typer.Option("--all", help="Every option, with its description.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Print a variant as TOML, to begin your own with.

    \b
    rankbook variant show local-rag > mine.toml
    rankbook variant show local-rag --all
    """
    from evals.variants import resolve_variant

    variant = resolve_variant(name)
    if as_json:
        output.as_json(_told(variant))
        return
    if not every:
        typer.echo(output.printable(_text(name, variant)), nl=False)
        return
    rows = [(field.alias or key, field.description or "") for key, field in type(variant).model_fields.items()]
    output.table("Options of a variant", ("option", "what it says"), rows)
    for leg, leg_name in zip(variant.legs, variant.leg_names, strict=True):
        options = type(leg).model_fields.items()
        described = [(key, str(getattr(leg, key)), field.description or "") for key, field in options]
        output.table(f"Leg {leg_name}", ("option", "here", "what it says"), described)


def _text(name: str, variant: Variant) -> str:
    """Of a kept one what its file says, comments and all."""
    from core.presets import names
    from evals import variants as evals_variants

    kept = None if name in names() else evals_variants.find(name)
    return kept.text if kept else variant.to_toml()


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="FILE...", help="TOML files, kept variants, or presets.")],
    *,
    as_json: output.AsJson = False,
) -> None:
    """Check that variants are valid, and print their ids. Exit code 1 where one is not.

    Example: rankbook variant check mine.toml
    """
    checked = [_checked(name) for name in names]
    if as_json:
        output.as_json(checked)
    for each in [] if as_json else checked:
        if each["problem"]:
            named = each["problem"].startswith(each["file"])
            output.error(each["problem"] if named else f"{each['file']}: {each['problem']}")
        else:
            output.notice(f"{each['file']}: {each['name']}, {each['id'][:12]}")
    raise typer.Exit(1 if any(each["problem"] for each in checked) else 0)


def _checked(name: str) -> dict[str, Any]:
    from core.errors import RankbookError
    from evals.variants import resolve_variant

    try:
        variant = resolve_variant(name)
    except RankbookError as error:
        return {"file": name, "problem": str(error)}
    return {"file": name, "name": variant.name, "id": variant.id, "problem": None}


@app.command()
def keep(
    file: Annotated[Path, typer.Argument(help="Its TOML file; - reads what is piped in.", allow_dash=True)],
    name: Annotated[str | None, typer.Option(help="Keep it under this name, instead of the one in the file.")] = None,
    over: Annotated[str | None, typer.Option(help="Replace the kept variant of this name.")] = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Keep a variant among your own: every command, notebook and page finds it by its name.

    \b
    rankbook variant keep mine.toml
    rankbook variant show local-rag | rankbook variant keep - --name my-rag
    rankbook variant keep mine.toml --over my-rag
    """
    from evals import variants as evals_variants
    from workbench.services import toml_edit
    from workbench.services import variants as variant_text

    text = _given(file)
    variant_text.read(text)  # says the line of a mistake
    if name is not None:
        text = toml_edit.put(text, {("name",): name})
    kept = evals_variants.keep(text, over=over)
    output.done(_told_kept(kept), f"{kept.name} is kept in {kept.path}.", json=as_json)


def _given(file: Path) -> str:
    """The text of a file, or what is piped in."""
    import sys

    from core.toml_io import file_text

    return sys.stdin.read() if str(file) == "-" else file_text(file.expanduser(), "The variant")


@app.command()
def drop(
    name: Annotated[str, typer.Argument(help="A kept variant.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Delete a variant that you keep: into the trash. Asks first. Its runs stay.

    `rankbook trash restore` brings it back.

    Example: rankbook variant drop my-rag --yes
    """
    from evals import variants as evals_variants
    from workbench.session import person

    found = evals_variants.get(name)
    if not yes:
        typer.confirm(f"Delete {output.printable(name)!r} ({found.path})?", abort=True, err=True)
    dropped = evals_variants.drop(name, by=person())
    value = {"name": name, "file": str(found.path), "deleted": True}
    trash.say_deleted(value, f"{name} is gone.", [dropped.trash_entry] if dropped.trash_entry else [], json=as_json)


@app.command()
def diff(
    one: Annotated[str, typer.Argument(help="A preset, a kept variant, or a TOML file.")],
    other: Annotated[str, typer.Argument(help="What to compare it with.")],
    *,
    as_json: output.AsJson = False,
) -> None:
    """Show in which options two variants differ, including those left at their defaults.

    Example: rankbook variant diff local-rag my-rag
    """
    from dataclasses import asdict

    from evals.variants import resolve_variant
    from workbench.services.variants import differing

    first, second = resolve_variant(one), resolve_variant(other)
    rows = differing(first, second)
    if as_json:
        output.as_json({"variants": [first.name, second.name], "differences": [asdict(each) for each in rows]})
        return
    if not rows:
        output.notice(f"{one} and {other} are the same in every option.")
        return
    output.table("What differs", ("option", one, other), [(row.where, row.one, row.other) for row in rows])
