"""The options of a pydantic class as the fields of a form: kinds, choices, bounds and explanations."""

from __future__ import annotations

import re
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.registry import Tagged


def summary(of: type) -> str:
    """The first line of a class's docstring; empty without one."""
    return (of.__doc__ or "").strip().partition("\n")[0]


Kind = Literal["switch", "whole", "number", "text", "choice", "texts", "table", "tagged", "list of tagged", "other"]
ABBREVIATIONS = {"sql": "SQL"}
MOST = float(2**53 - 1)  # what a browser can count to
_ALTERNATIVES = re.compile(r"\^\((\w+(?:\|\w+)+)\)\$")  # a pattern that is nothing but a choice


@dataclass(frozen=True, slots=True)
class FormField:
    """A field. `name` is its key in TOML. `default` is a plain TOML value; None where it may be left out.

    A table has its class in `model`, a choice among registered classes has them in `tagged`.
    """

    name: str
    kind: Kind
    help: str = ""
    default: Any = None
    required: bool = False
    optional: bool = False
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    longest: int | None = None
    model: type[BaseModel] | None = None
    tagged: Tagged[Any] | None = None

    @property
    def label(self) -> str:
        """The key in words."""
        words = self.name.replace("_", " ").split()
        return " ".join([ABBREVIATIONS.get(words[0], words[0].capitalize()), *words[1:]])

    def fits(self, value: Any) -> bool:
        """Whether a widget can show this: what else is written stays as it is."""
        low, high = -MOST if self.least is None else self.least, MOST if self.most is None else self.most
        fits = value is None
        match self.kind, value:
            case "switch", bool():
                fits = True
            case ("whole", int()) | ("number", int() | float()):
                fits = not isinstance(value, bool) and low <= value <= high
            case "choice", _:
                fits = fits or any(value == each and type(value) is type(each) for each in self.choices)
            case "text", str():
                fits = self.longest is None or len(value) <= self.longest
            case "texts", list():
                fits = all(isinstance(each, str) and each for each in value) and len(set(value)) == len(value)
        return fits


def form_fields(model: type[BaseModel]) -> tuple[FormField, ...]:
    """The model's fields, in their order."""
    return tuple(_form_field(field.alias or name, field) for name, field in model.model_fields.items())


def _form_field(name: str, info: FieldInfo) -> FormField:
    kind, inner, about = _kind(info.annotation, info.metadata)

    def bound(*names: str) -> Any:
        """An exclusive bound is offered too: the model refuses it, and says so."""
        found = (getattr(each, name, None) for each in about for name in names)
        return next((each for each in found if each is not None), None)

    tagged = next((each for each in about if isinstance(each, Tagged)), None)
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if kind == "tagged" and default is not None and tagged is not None:
        default = tagged.registry.name_of(type(default))
    elif kind == "texts" and default is not None:
        default = list(default)
    elif kind in ("table", "tagged", "list of tagged", "other"):
        default = None
    choices = get_args(inner) if get_origin(inner) is Literal else _pattern_choices(about)
    return FormField(
        name,
        kind,
        help=info.description or "",
        default=default,
        required=info.is_required(),
        optional=inner is not info.annotation and _allows_none(info.annotation),
        choices=choices if kind == "choice" else (),
        least=bound("ge", "gt"),
        most=bound("le", "lt"),
        longest=bound("max_length"),
        model=inner if kind == "table" else None,
        tagged=tagged,
    )


def _kind(annotation: Any, about: Sequence[Any]) -> tuple[Kind, Any, list[Any]]:
    """The kind of field, its type without None, and its metadata."""
    inner, more = _bare(annotation)
    about = [*about, *more]
    if any(isinstance(each, Tagged) for each in about):
        return "tagged", inner, about
    if get_origin(inner) is tuple:
        return _kind_of_list(inner, about)
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return "table", inner, about
    if get_origin(inner) is Literal or (inner is str and _pattern_choices(about)):
        return "choice", inner, about
    plain: dict[Any, Kind] = {bool: "switch", int: "whole", float: "number", str: "text"}
    if inner in plain:
        return plain[inner], inner, about
    return ("text" if _may_be_text(inner) else "other"), inner, about


def _kind_of_list(inner: Any, about: list[Any]) -> tuple[Kind, Any, list[Any]]:
    of, *rest = get_args(inner)
    if rest != [...]:
        return "other", inner, about
    bare, more = _bare(of)
    if any(isinstance(each, Tagged) for each in more):
        return "list of tagged", bare, [*about, *more]
    return ("texts" if bare is str or _may_be_text(bare) else "other"), inner, about


def _bare(annotation: Any) -> tuple[Any, list[Any]]:
    """A type without Annotated and None, with what Annotated adds."""
    if get_origin(annotation) is Annotated:
        inner, *about = get_args(annotation)
        bare, more = _bare(inner)
        return bare, [*about, *more]
    if _allows_none(annotation):
        rest = [each for each in get_args(annotation) if each is not type(None)]
        if len(rest) == 1:
            return _bare(rest[0])
    return annotation, []


def _allows_none(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def _may_be_text(annotation: Any) -> bool:
    """For example the name of a variant, where a whole variant may stand too."""
    return get_origin(annotation) in (Union, types.UnionType) and str in get_args(annotation)


def _pattern_choices(about: Sequence[Any]) -> tuple[str, ...]:
    patterns = (getattr(each, "pattern", None) for each in about)
    found = (_ALTERNATIVES.fullmatch(each) for each in patterns if isinstance(each, str))
    return next((tuple(each[1].split("|")) for each in found if each), ())


def tagged_names(entry: FormField) -> list[str]:
    """The names that its tag may have."""
    return sorted(entry.tagged.registry) if entry.tagged else []


def explained(entry: FormField, name: object) -> str:
    """The summary of the class of that name."""
    if entry.tagged is None or name not in entry.tagged.registry:
        return ""
    return summary(entry.tagged.registry[str(name)])


def names(model: type[BaseModel]) -> list[str]:
    """The keys of all fields."""
    return [field.alias or name for name, field in model.model_fields.items()]


def shared_names(model: type[BaseModel]) -> list[str]:
    """The keys of fields that all registered siblings have too."""
    return names(model.__mro__[1]) if issubclass(model.__mro__[1], BaseModel) else []
