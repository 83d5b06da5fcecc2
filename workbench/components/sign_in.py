"""The page of whoever is not signed in, and in the frame who is: with a way out. Streamlit does the signing in."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.errors import InputError
from core.store.names import composed
from evals.judging.judgements import LONGEST_NAME, judge_name
from workbench.components.theme import asset
from workbench.server import access, roles_file
from workbench.server.access import AccessControl
from workbench.server.roles_file import RoleFile

OUT = "Sign out"


def told() -> Mapping[str, Any]:
    """What the provider told of whoever looks; nothing of a stranger."""
    return dict(st.user.to_dict()) if st.user.get("is_logged_in") else {}


def signs() -> str | None:
    """By what name whoever looks grades, whatever an address says; None where nobody signs in, and they say it."""
    return None if access.current() is None else grader(told())


def grader(of: Mapping[str, Any]) -> str:
    """The address that the provider vouches for, else its own mark of that person; never what people call themselves.

    The mark is told apart from addresses: with some providers people choose it.
    """
    address = roles_file.plain(str(of.get("email") or ""))
    if address and roles_file.vouched_for(of):
        return _signed(address)
    if not (mark := str(of.get("sub") or "").strip()):
        raise InputError(
            "Your sign-in says neither a verified address nor who you are, so your grades cannot be signed. Whoever "
            "runs this workbench can have the provider send `email` or `sub`."
        )
    return _signed(f"sub:{mark}")


def _signed(name: str) -> str:
    """What is too long to be kept by its digest, which looks like nobody's address or mark."""
    whole = composed(name).encode("utf-8", "surrogatepass")
    return judge_name(name) if len(whole) <= LONGEST_NAME else f"sha256:{hashlib.sha256(whole).hexdigest()}"


def draw(gate: AccessControl, of: Mapping[str, Any]) -> None:
    """All that a stranger sees, or somebody without a role."""
    st.html(f"<style>{asset('components/assets/sign_in.css')}</style>")
    with st.container(key="sign-in"):
        if gate.has_ended(of):
            _stranger(gate, "Your sign-in has ended: you signed out, or it is older than 30 days. Sign in again.")
        elif of:
            _no_role(gate, of)
        else:
            _stranger(gate, "Sign in to search, compare and judge.")


def _stranger(gate: AccessControl, says: str) -> None:
    st.html(f"<h1>Rankbook</h1><p>{says}</p>")
    st.button("Sign in", key="sign-in.in", type="primary", icon=":material/login:", on_click=st.login)
    st.html(f"<small>With your account at {html.escape(gate.provider.provider)}.</small>")


def _no_role(gate: AccessControl, of: Mapping[str, Any]) -> None:
    st.html(
        f"<h1>Rankbook</h1><p>You are signed in as <b>{html.escape(name(of))}</b>, {_why_not(gate.readable(), of)}</p>"
    )
    st.button(OUT, key="sign-in.out", icon=":material/logout:", on_click=st.logout)


def _why_not(access: RoleFile | None, of: Mapping[str, Any]) -> str:
    """Why they do not come in, and the way out. Nothing of what the file says, nor whether it names their address."""
    if access is None:
        return (
            "but nobody comes in at the moment: the file that says who may do what has a mistake, or cannot be read. "
            "Ask whoever runs this workbench to mend it; its log says what is wrong."
        )
    ask = "Ask whoever runs this workbench to give you one."
    if of.get("email") and not access.counts(of):
        return (
            "and have no role here yet. Your sign-in does not say that your e-mail address is verified, so no role is "
            f"given to that address. {ask}"
        )
    return f"and have no role here yet. {ask}"


def frame(of: Mapping[str, Any], role: str) -> None:
    """Who is signed in, at the top of every page."""
    st.html(f"<style>{asset('components/assets/sign_in.css')}</style>")
    shown = name(of)
    with st.container(key="who"):
        st.menu_button(
            _as_text(shown),
            [OUT],
            key="who.menu",
            icon=":material/account_circle:",
            type="tertiary",
            help=f"You are here as {role}.",
            on_click=st.logout,
        )


def name(of: Mapping[str, Any]) -> str:
    """By what people know them."""
    found = (str(of.get(claim) or "").strip() for claim in ("name", "email", "sub"))
    return " ".join(next(filter(None, found), "somebody").split())[:60]


def _as_text(shown: str) -> str:
    """A button's label is Markdown: what a provider calls somebody is not."""
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]()#+-.!|<>~:$" else letter for letter in shown)
