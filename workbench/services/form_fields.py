"""The options of a pydantic class as the fields of a form: kinds, choices, bounds and explanations."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.registry import Tagged


def summary(of: type) -> str:
    """The first line of its docstring; nothing where it has none."""
    return (of.__doc__ or "").strip().partition("\n")[0]


Kind = Literal["switch", "whole", "number", "text", "choice", "texts", "table", "tagged", "list of tagged", "other"]
ABBREVIATIONS = {"sql": "SQL"}
_ALTERNATIVES = re.compile(r"\^\((\w+(?:\|\w+)+)\)\$")  # a pattern that is nothing but a choice


@dataclass(frozen=True, slots=True)
class Entry:
    """One field. `name` is its key in TOML. `default` is plain, as TOML has it; None where it may be left out.

    Of a table `model` holds the fields, of a tagged one `tagged` knows the classes.
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
        fitting: dict[str, Callable[[], bool]] = {
            "switch": lambda: isinstance(value, bool),
            "whole": lambda: isinstance(value, int) and self._within(value),
            "number": lambda: isinstance(value, int | float) and self._within(value),
            "choice": lambda: any(value == each and type(value) is type(each) for each in self.choices),
            "text": lambda: isinstance(value, str) and (self.longest is None or len(value) <= self.longest),
            "texts": lambda: isinstance(value, list) and _different_texts(value),
        }
        return value is None or (self.kind in fitting and fitting[self.kind]())

    def _within(self, value: float) -> bool:
        low = -MOST if self.least is None else self.least
        high = MOST if self.most is None else self.most
        return not isinstance(value, bool) and low <= value <= high


MOST = float(2**53 - 1)  # what a browser can count to


def _different_texts(values: list[Any]) -> bool:
    return all(isinstance(each, str) and each for each in values) and len(set(values)) == len(values)


def entries(model: type[BaseModel]) -> tuple[Entry, ...]:
    """The model's fields, in their order."""
    return tuple(_entry(field.alias or name, field) for name, field in model.model_fields.items())


def _entry(name: str, field: FieldInfo) -> Entry:
    kind, inner, about = _kind(field.annotation, field.metadata)
    optional = inner is not field.annotation and _allows_none(field.annotation)
    bounds = _bounds(about)
    return Entry(
        name,
        kind,
        help=field.description or "",
        default=None if field.is_required() else _plain(kind, field.get_default(call_default_factory=True), about),
        required=field.is_required(),
        optional=optional,
        choices=_choices(kind, inner, about),
        model=inner if kind == "table" else None,
        tagged=next((each for each in about if isinstance(each, Tagged)), None),
        **bounds,
    )


def _kind(annotation: Any, about: Sequence[Any]) -> tuple[Kind, Any, list[Any]]:
    """What it is, the type without "or nothing", and all that is said of it."""
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
    """Without Annotated and "or nothing", and what stood around it."""
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
    """Such as the name of a variant, which may also be a whole one."""
    return get_origin(annotation) in (Union, types.UnionType) and str in get_args(annotation)


def _pattern_choices(about: Sequence[Any]) -> tuple[str, ...]:
    patterns = (getattr(each, "pattern", None) for each in about)
    found = (_ALTERNATIVES.fullmatch(each) for each in patterns if isinstance(each, str))
    return next((tuple(each[1].split("|")) for each in found if each), ())


def _choices(kind: Kind, inner: Any, about: Sequence[Any]) -> tuple[Any, ...]:
    if kind != "choice":
        return ()
    return get_args(inner) if get_origin(inner) is Literal else _pattern_choices(about)


def _bounds(about: Sequence[Any]) -> dict[str, Any]:
    """A bound that is itself left out is offered all the same: the model refuses it, and says so."""

    def first(*names: str) -> Any:
        return next(
            (found for each in about for name in names if (found := getattr(each, name, None)) is not None), None
        )

    return {"least": first("ge", "gt"), "most": first("le", "lt"), "longest": first("max_length")}


def _plain(kind: Kind, value: Any, about: Sequence[Any]) -> Any:
    """A default as TOML has it: of a tagged one its tag, of other composed ones nothing."""
    if kind == "texts":
        return list(value)
    if kind == "tagged" and value is not None:
        return next(each.registry.name_of(type(value)) for each in about if isinstance(each, Tagged))
    return None if kind in ("table", "tagged", "list of tagged", "other") else value


def tagged_names(entry: Entry) -> list[str]:
    """The names that its tag may have."""
    return sorted(entry.tagged.registry) if entry.tagged else []


def explained(entry: Entry, name: object) -> str:
    """What the class of that name says of itself, in a line."""
    if entry.tagged is None or name not in entry.tagged.registry:
        return ""
    return summary(entry.tagged.registry[str(name)])


def names(model: type[BaseModel]) -> list[str]:
    """The keys of all its fields."""
    return [field.alias or name for name, field in model.model_fields.items()]


def shared_names(model: type[BaseModel]) -> list[str]:
    """The keys of the fields that all of its registered siblings have too."""
    return names(model.__mro__[1]) if issubclass(model.__mro__[1], BaseModel) else []
