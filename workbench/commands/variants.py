"""`rankbook variant`: the well-known systems and your own, listed, shown, checked, kept, held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output, runtime, trash

if TYPE_CHECKING:
    from core.variant import Variant
    from evals.variants import SavedVariant

app = typer.Typer(no_args_is_help=True, help="Variants: whole pipelines as TOML. List, show, check, keep, diff.")


def _plain(variant: Variant) -> dict[str, Any]:
    """Every option, those left at their defaults too."""
    return {**variant.model_dump(mode="json", by_alias=True), "id": variant.id}


def _plain_saved(saved: SavedVariant) -> dict[str, Any]:
    about = {"name": saved.name, "file": str(saved.path), "problem": saved.problem or None}
    return {**(_plain(saved.variant) if saved.variant else {}), **about}


@app.command("list")
def list_variants(*, as_json: output.AsJson = False) -> None:
    """List the presets, modelled on five published retrieval systems, and the variants you keep.

    Example: rankbook variant list
    """
    from core.presets import names, preset
    from evals import variants
    from workbench.services.variants import in_words

    presets, saved = [preset(name) for name in names()], variants.listed()
    if as_json:
        output.print_json([*map(_plain, presets), *map(_plain_saved, saved)])
        return
    columns = ("name", "pipeline", "searches", "what it is for")
    rows = [(each.name, in_words(each), each.chunks, each.description) for each in presets]
    output.table("Presets", columns, rows)
    rows = [
        (each.name, in_words(each.variant), each.variant.chunks, each.variant.description)
        if each.variant
        else (each.name, "", "", each.problem)
        for each in saved
    ]
    if rows:
        output.table("Your own", columns, rows)
    else:
        output.notice("You keep none of your own yet. Keep one: rankbook variant keep mine.toml")


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
    from core.presets import names
    from evals import variants

    variant = variants.resolve_variant(name)
    if as_json:
        output.print_json(_plain(variant))
        return
    if not every:
        saved = None if name in names() else variants.find(name)
        text = saved.text if saved else variant.to_toml()  # comments and all, of one that is kept
        typer.echo(output.printable(text), nl=False)
        return
    rows = [(field.alias or key, field.description or "") for key, field in type(variant).model_fields.items()]
    output.table("Options of a variant", ("option", "what it says"), rows)
    for leg, leg_name in zip(variant.legs, variant.leg_names, strict=True):
        options = type(leg).model_fields.items()
        described = [(key, str(getattr(leg, key)), field.description or "") for key, field in options]
        output.table(f"Leg {leg_name}", ("option", "here", "what it says"), described)


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="FILE...", help="TOML files, kept variants, or presets.")],
    *,
    as_json: output.AsJson = False,
) -> None:
    """Check that variants are valid, and print their ids. Exit code 1 where one is not.

    Example: rankbook variant check mine.toml
    """
    from core.errors import RankbookError
    from evals.variants import resolve_variant

    checked: list[dict[str, Any]] = []
    for name in names:
        try:
            variant = resolve_variant(name)
            checked.append({"file": name, "name": variant.name, "id": variant.id, "problem": None})
        except RankbookError as error:
            checked.append({"file": name, "problem": str(error)})
    if as_json:
        output.print_json(checked)
    for each in [] if as_json else checked:
        if each["problem"]:
            is_named = each["problem"].startswith(each["file"])
            output.error(each["problem"] if is_named else f"{each['file']}: {each['problem']}")
        else:
            output.notice(f"{each['file']}: {each['name']}, {each['id'][:12]}")
    raise typer.Exit(1 if any(each["problem"] for each in checked) else 0)


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
    import sys

    from core.toml_io import file_text
    from evals import variants
    from workbench.services import toml_edit
    from workbench.services import variants as variant_text

    text = sys.stdin.read() if str(file) == "-" else file_text(file.expanduser(), "The variant")
    variant_text.read(text)  # says the line of a mistake
    if name is not None:
        text = toml_edit.put(text, {("name",): name})
    saved = variants.keep(text, over=over)
    output.result(_plain_saved(saved), f"{saved.name} is kept in {saved.path}.", json=as_json)


@app.command()
def drop(
    name: Annotated[str, typer.Argument(help="A kept variant.")],
    yes: runtime.Yes = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Delete a variant that you keep: into the trash. Asks first. Its runs stay.

    `rankbook trash restore` brings it back.

    Example: rankbook variant drop my-rag --yes
    """
    from evals import variants

    path = variants.get(name).path
    output.confirm(f"Delete {output.printable(name)!r} ({path})?", yes=yes)
    entry = variants.drop(name, by=runtime.user_name()).trash_entry
    value = {"name": name, "file": str(path), "deleted": True}
    trash.report_deleted(value, f"{name} is gone.", [entry] if entry else [], json=as_json)


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
        output.print_json({"variants": [first.name, second.name], "differences": [asdict(each) for each in rows]})
        return
    if not rows:
        output.notice(f"{one} and {other} are the same in every option.")
        return
    output.table("What differs", ("option", one, other), [(row.where, row.one, row.other) for row in rows])
