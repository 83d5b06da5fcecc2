"""Who has which role, as `access.toml` in the home says: by e-mail address, by a claim of the sign-in, or for all.

Owns the file's form and what it means for one person. Looks at no database and no screen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from string import ascii_lowercase, ascii_uppercase
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError, SpecError
from core.home import home, is_anothers, others_may
from core.store.roles import ROLES
from workbench.services import toml_edit

FILE: Final = "access.toml"
NONE: Final = "none"
SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
Role = Literal["none", "viewer", "judge", "editor"]
Name = Annotated[str, Field(min_length=1)]
EXAMPLE: Final = """\
default = "viewer"               # whoever signs in; leave it out, and only those named below come in

[people]
"ada@example.org" = "editor"     # imports, evaluates, edits, drops
"grace@example.org" = "judge"    # looks, and grades what was found
"*@partner.example" = "viewer"   # everybody of a domain: looks, and changes nothing
"eve@example.org" = "none"       # does not come in, whatever else is said here

[claims.groups]                  # what the sign-in says of a person besides
"search-team" = "editor"
"""


class RoleFile(BaseModel):
    """Who may do what. Of what fits a person, their own address goes before their domain, and that before claims."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: Role = Field("none", description="The role of whoever signs in and is not named.")
    people: Mapping[Name, Role] = Field(default_factory=dict, description="Roles by e-mail address, or *@domain.")
    claims: Mapping[Name, Mapping[Name, Role]] = Field(
        default_factory=dict, description="Roles by a claim's name and its value."
    )
    unverified_emails: bool = Field(
        False,
        strict=True,
        description="Whether addresses count of which the sign-in says neither that they are verified nor that not.",
    )

    @pydantic.field_validator("people")
    @classmethod
    def _are_addresses(cls, people: Mapping[str, Role]) -> Mapping[str, Role]:
        made = {plain(address): role for address, role in people.items()}
        for address in made:
            if address.count("@") != 1 or address.startswith("@") or address.endswith("@"):
                raise ValueError(f"{address!r} is no e-mail address and no *@domain")
        if len(made) < len(people):
            raise ValueError("an address stands there twice, once in other letters")
        return made

    def role_of(self, told: Mapping[str, Any]) -> str | None:
        """The role of somebody of whom the sign-in told this; None where they do not come in."""
        role = self._by_address(told) or self._by_claims(told) or self.default
        return None if role == NONE else role

    def named(self, address: object) -> str | None:
        """What is said of that address or its domain."""
        if not isinstance(address, str):
            return None
        address = plain(address)
        return self.people.get(address) or self.people.get(f"*@{address.rpartition('@')[2]}")

    def counts(self, told: Mapping[str, Any]) -> bool:
        """Whether their address is taken for theirs. One that the provider says it did not verify never is."""
        return vouched_for(told) or (self.unverified_emails and told.get("email_verified") is None)

    def discounts(self, told: Mapping[str, Any]) -> bool:
        """Whether their address would give them a role, if it counted."""
        return self.named(told.get("email")) not in (None, NONE) and not self.counts(told)

    def _by_address(self, told: Mapping[str, Any]) -> str | None:
        """An address that does not count lets nobody in; it may still keep somebody out."""
        role = self.named(told.get("email"))
        return role if role == NONE or self.counts(told) else None

    def _by_claims(self, told: Mapping[str, Any]) -> str | None:
        """The highest of those that fit, but none where one says none."""
        found = [
            role
            for claim, roles in self.claims.items()
            for value in _values(told.get(claim))
            if (role := roles.get(value)) is not None
        ]
        if NONE in found:
            return NONE
        return max(found, key=ROLES.index, default=None)


def vouched_for(told: Mapping[str, Any]) -> bool:
    """Whether the provider says that it verified their address. With some, people or other firms' admins choose it."""
    said = told.get("email_verified")
    return said is True or said == "true"  # as a text, where the provider writes all claims so


def plain(address: str) -> str:
    """In small letters, those of ASCII alone: others may become another's letter, as the sign for Kelvin becomes k."""
    return address.strip().translate(SMALL)


def _values(claim: object) -> Sequence[str]:
    """A claim is a text, or a list of them."""
    if isinstance(claim, str):
        return (claim,)
    return tuple(each for each in claim if isinstance(each, str)) if isinstance(claim, list) else ()


# -- the file ----------------------------------------------------------------------------------------------------------


def path() -> Path:
    return home() / FILE


def read(file: Path) -> RoleFile:
    """What the file says; refused with the line and the field of the mistake."""
    try:
        found = file.stat()
        if is_anothers(found):
            raise InputError(
                "This file is another account's, which can change with it who may do what. "
                f"Run: sudo chown {os.geteuid()} {quote(str(file))}",
                path=file,
            )
        if others_may(found, WRITABLE):
            raise InputError(
                f"Others can change this file, and with it who may do what. Run: chmod go-w {quote(str(file))}",
                path=file,
            )
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(
            f"Nobody is let in yet: this file says who may do what. Write for example:\n\n{EXAMPLE}", path=file
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(f"The file cannot be read ({why}).", path=file) from error
    try:
        return RoleFile.model_validate(toml_edit.read(text))
    except pydantic.ValidationError as error:
        place = tuple(error.errors()[0]["loc"])
        said = str(SpecError.from_pydantic("Who may do what", error))
        raise InputError(
            said, path=file, line=toml_edit.line_of(text, place), field=".".join(map(str, place))
        ) from error
    except InputError as error:
        raise InputError(error.message, path=file, line=error.line) from error
