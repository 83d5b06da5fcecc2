"""How users sign in: the OpenID Connect provider in `secrets.toml`, checked before anything is served.

Owns the file's format, who may read it, and the secret that signs cookies. Streamlit does the signing in.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from core.errors import InputError, MissingCapability, SpecError
from core.home import home, make_private, others_may
from workbench.services import toml_edit

FILE: Final = "secrets.toml"
SETTING: Final = "RANKBOOK_SECRETS"
COOKIES: Final = "cookie-secret"
CALLBACK: Final = "/oauth2callback"
OTHERS: Final = 0o077  # what anybody but the owner may do with a file
SHORTEST: Final = 32  # characters of a cookies' secret
Text = Annotated[str, Field(min_length=1)]


def _encrypted(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise ValueError("must begin with https://: whoever sits in between could sign in as anybody")
    return address


class Auth(BaseModel):
    """The table [auth], as Streamlit documents it, for one provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    redirect_uri: Text = Field(description="The workbench's own address for the way back; ends with /oauth2callback.")
    client_id: Text = Field(description="By what name the provider knows this workbench.")
    client_secret: SecretStr = Field(description="What the provider gave to this workbench alone.")
    server_metadata_url: Text = Field(description="Where the provider describes itself (.well-known/...).")
    cookie_secret: SecretStr | None = Field(None, description="Signs the cookies; left out, one is made and kept.")
    client_kwargs: dict[str, Any] = Field(default_factory=dict, description="More for the provider: scope, prompt.")

    @pydantic.field_validator("redirect_uri")
    @classmethod
    def _comes_back(cls, address: str) -> str:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.path.endswith(CALLBACK):
            raise ValueError(f"must be this workbench's address and {CALLBACK}, as in https://example.org{CALLBACK}")
        return _encrypted(address)

    @pydantic.field_validator("server_metadata_url")
    @classmethod
    def _is_safe(cls, address: str) -> str:
        return _encrypted(address)

    @pydantic.field_validator("cookie_secret")
    @classmethod
    def _is_long(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(secret.get_secret_value()) < SHORTEST:
            raise ValueError(f"must have {SHORTEST} characters or more; leave it out, and one is made")
        return secret


@dataclass(frozen=True, slots=True)
class SignIn:
    """A provider that is configured, and the secret that signs cookies."""

    auth: Auth
    cookies: SecretStr

    @property
    def host(self) -> str:
        """The name under which the workbench is reached from outside."""
        return urlsplit(self.auth.redirect_uri).hostname or ""

    @property
    def provider(self) -> str:
        """The provider's name, for users to read."""
        return urlsplit(self.auth.server_metadata_url).hostname or ""

    def as_streamlit_has_it(self) -> dict[str, Any]:
        """The table [auth]."""
        plain = self.auth.model_dump(exclude_none=True)
        plain["client_secret"] = self.auth.client_secret.get_secret_value()
        plain["cookie_secret"] = self.cookies.get_secret_value()
        return plain

    def secrets(self) -> tuple[str, ...]:
        """What must never be logged."""
        return self.auth.client_secret.get_secret_value(), self.cookies.get_secret_value()


def path() -> Path:
    chosen = os.environ.get(SETTING, "").strip()
    return Path(chosen).expanduser().absolute() if chosen else home() / FILE


def configured() -> SignIn | None:
    """The provider; None where there is no such file. A file that is there and wrong is refused, not passed over."""
    from importlib.util import find_spec

    file = path()
    if not file.exists() and not os.environ.get(SETTING, "").strip():
        return None
    text = _private_text(file)
    try:
        table = toml_edit.read(text).get("auth")
    except InputError as error:
        raise InputError(error.message, path=file, line=error.line) from None  # the cause would quote the file
    if not isinstance(table, dict):
        raise InputError("There is no table [auth], which names the provider to sign in with.", path=file)
    try:
        auth = Auth.model_validate(table)
    except pydantic.ValidationError as error:
        place = ("auth", *error.errors()[0]["loc"])
        sentence = str(SpecError.from_pydantic("The sign-in", error))
        for problem in error.errors():  # what was given may be a secret
            sentence = sentence.replace(f" (given: {problem['input']!r:.80})", "")
        line, field = toml_edit.line_of(text, place), ".".join(map(str, place))
        raise InputError(sentence, path=file, line=line, field=field) from None
    if find_spec("authlib") is None:
        raise MissingCapability("Signing in needs the package Authlib. Run: pip install Authlib")
    return SignIn(auth, auth.cookie_secret or SecretStr(cookie_secret()))


def cookie_secret() -> str:
    """Made once and kept in the home, readable by nobody else: whoever knows it can sign in as anybody."""
    file = home() / COOKIES
    try:
        if not file.exists():
            make_private(home())
            with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".cookie-") as made:  # private
                made.write(secrets.token_urlsafe(48))
                made.flush()
                with suppress(FileExistsError):  # another process was first, and its secret stays
                    os.link(made.name, file)
    except OSError as error:
        raise InputError(f"The secret that signs cookies cannot be kept ({error.strerror}).", path=file) from error
    kept = _private_text(file).strip()
    if len(kept) < SHORTEST:
        raise InputError(
            "The secret that signs cookies is too short. Delete the file, and a new one is made.", path=file
        )
    return kept


def _private_text(file: Path) -> str:
    """The text of a file; refused if others can read it."""
    try:
        if others_may(file.stat(), OTHERS):
            raise InputError(f"Others can read this file, which holds secrets. Run: chmod 600 {file}", path=file)
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(f"The file with the sign-in's secrets cannot be read ({why}).", path=file) from error
