"""How people sign in: the OpenID Connect provider that `secrets.toml` names, checked before anything is served.

Owns the file's form, who may read it, and the secret that signs cookies. Streamlit does the signing in.
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


def _guarded(address: str) -> str:
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
    def _comes_back(cls, given: str) -> str:
        parts = urlsplit(given)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.path.endswith(CALLBACK):
            raise ValueError(f"must be this workbench's address and {CALLBACK}, as in https://example.org{CALLBACK}")
        return _guarded(given)

    @pydantic.field_validator("server_metadata_url")
    @classmethod
    def _is_safe(cls, given: str) -> str:
        return _guarded(given)

    @pydantic.field_validator("cookie_secret")
    @classmethod
    def _is_long(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and len(given.get_secret_value()) < SHORTEST:
            raise ValueError(f"must have {SHORTEST} characters or more; leave it out, and one is made")
        return given


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
        """Whom people sign in with, as they may read it."""
        return urlsplit(self.auth.server_metadata_url).hostname or ""

    def as_streamlit_has_it(self) -> dict[str, Any]:
        """The table [auth]."""
        plain = self.auth.model_dump(exclude_none=True)
        plain["client_secret"] = self.auth.client_secret.get_secret_value()
        plain["cookie_secret"] = self.cookies.get_secret_value()
        return plain

    def secrets(self) -> tuple[str, ...]:
        """What must never be written anywhere."""
        return self.auth.client_secret.get_secret_value(), self.cookies.get_secret_value()


def path() -> Path:
    chosen = os.environ.get(SETTING, "").strip()
    return Path(chosen).expanduser().absolute() if chosen else home() / FILE


def configured() -> SignIn | None:
    """The provider; None where there is no such file. A file that is there and wrong is refused, not passed over."""
    file = path()
    if not file.exists() and not os.environ.get(SETTING, "").strip():
        return None
    text = _private(file)
    auth = _auth(file, text)
    _need_authlib()
    return SignIn(auth, auth.cookie_secret or SecretStr(cookie_secret()))


def _private(file: Path) -> str:
    """The text of a file that nobody else can read."""
    try:
        if others_may(file.stat(), OTHERS):
            raise InputError(f"Others can read this file, which holds secrets. Run: chmod 600 {file}", path=file)
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(f"The file with the sign-in's secrets cannot be read ({why}).", path=file) from error


def _auth(file: Path, text: str) -> Auth:
    try:
        plain = toml_edit.read(text)
    except InputError as error:
        raise InputError(error.message, path=file, line=error.line) from None  # the cause would quote the file
    table = plain.get("auth")
    if not isinstance(table, dict):
        raise InputError("There is no table [auth], which names the provider to sign in with.", path=file)
    try:
        return Auth.model_validate(table)
    except pydantic.ValidationError as error:
        place = tuple(error.errors()[0]["loc"])
        line = toml_edit.line_of(text, ("auth", *place))
        raise InputError(
            _without_values(error), path=file, line=line, field=".".join(map(str, ("auth", *place)))
        ) from None


def _without_values(error: pydantic.ValidationError) -> str:
    """What is wrong, without what was given: it may be a secret."""
    told = str(SpecError.from_pydantic("The sign-in", error))
    for problem in error.errors():
        told = told.replace(f" (given: {problem['input']!r:.80})", "")
    return told


def _need_authlib() -> None:
    from importlib.util import find_spec

    if find_spec("authlib") is None:
        raise MissingCapability("Signing in needs the package Authlib. Run: pip install Authlib")


def cookie_secret() -> str:
    """Made once and kept beside, readable by nobody else: who knows it can sign in as anybody."""
    file = home() / COOKIES
    try:
        if not file.exists():
            make_private(home())
            _make_once(file, secrets.token_urlsafe(48))
    except OSError as error:
        raise InputError(f"The secret that signs cookies cannot be kept ({error.strerror}).", path=file) from error
    kept = _private(file).strip()
    if len(kept) < SHORTEST:
        raise InputError(
            "The secret that signs cookies is too short. Delete the file, and a new one is made.", path=file
        )
    return kept


def _make_once(file: Path, text: str) -> None:
    """Whole or not at all, and whoever comes second leaves the first one's."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".cookie-") as made:  # which others cannot read
        made.write(text)
        made.flush()
        with suppress(FileExistsError):
            os.link(made.name, file)
