"""What GitHub answers when it does not do what it was asked: turned into who must act. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resolvent.errors import ForgeDown, ForgeRefused, NotFound, ResolventError

MAX_SAID = 300
_READ = ("GET", "HEAD")


@dataclass(frozen=True)
class Answer:
    """One answer as it came: the names of its headers are in lower case."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    # The server said only that what we kept of it still holds.
    kept: bool = False

    @property
    def said(self) -> Mapping[str, Any]:
        """The JSON object in its body; empty when there is none."""
        try:
            said = json.loads(self.body)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    @property
    def message(self) -> str:
        """What it says is wrong, on one line."""
        said = self.said
        errors = said.get("errors")
        texts = [said.get("message", ""), *(_error(one) for one in (errors if isinstance(errors, list) else ()))]
        if isinstance(errors, str):
            texts.append(errors)
        line = "; ".join(dict.fromkeys(filter(None, (" ".join(str(text).split()) for text in texts))))
        return line[:MAX_SAID] or f"status {self.status}"

    @property
    def write(self) -> bool:
        return self.method not in _READ


def _error(one: object) -> str:
    if not isinstance(one, dict):
        return str(one)
    if one.get("message"):
        return str(one["message"])
    return " ".join(str(one[name]) for name in ("field", "code") if one.get(name))


def refusal(answer: Answer, *, repo: str) -> ResolventError:
    """The error for an answer that is neither the thing asked for nor about a limit."""
    if answer.status == 401:
        return ForgeRefused(
            f"GitHub does not accept our token: {answer.message}",
            hint="make a token with the scopes repo and workflow: gh auth token, or Settings, Developer settings",
            auth=True,
        )
    if answer.status in (403, 404) and (denied := _denied(answer)):
        return denied
    if answer.status == 403:
        return _forbidden(answer, repo)
    if answer.status in (404, 410):
        if "disabled" in answer.message:
            return ForgeRefused(f"{repo}: {answer.message}", hint=f"gh repo edit {repo} --enable-issues")
        return NotFound(f"{repo} has nothing at {answer.path}: {answer.message}", hint=f"gh repo view {repo}")
    if answer.status >= 500 or answer.status in (408, 425):
        return ForgeDown(f"GitHub failed at {answer.path}: {answer.message}", status=answer.status)
    if 300 <= answer.status < 400:
        return ForgeRefused(f"{repo} is not there any more: it moved", hint='set forge.repo = "owner/name"', moved=True)
    return ForgeRefused(f"GitHub refused: {answer.message}", status=answer.status)


def _denied(answer: Answer) -> ForgeRefused | None:
    """The token is good, but not for this: which scope or permission is missing."""
    if sso := re.match(r"required; url=(\S+)", answer.headers.get("x-github-sso", "")):
        return ForgeRefused(
            "the organisation wants the token authorised by single sign-on", hint=f"open {sso[1]}", auth=True
        )
    have, accepted = (_scopes(answer.headers.get(name)) for name in ("x-oauth-scopes", "x-accepted-oauth-scopes"))
    # Without the scope GitHub says 404 of what it does not want to show; a token without any header has no scopes.
    if have is not None and accepted and answer.write and not have & (accepted | {"repo"}):
        wanted = "repo" if "repo" in accepted else ", ".join(sorted(accepted))
        return ForgeRefused(
            f"the token lacks the scope {wanted}: {answer.message}",
            hint=f"gh auth refresh --scopes {wanted.replace(', ', ',')}",
            auth=True,
            scope=wanted,
        )
    if "Resource not accessible by" in answer.message:
        wanted = answer.headers.get("x-accepted-github-permissions", "") or "what it asked for"
        return ForgeRefused(
            f"the token may not do this, it needs {wanted}: {answer.message}",
            hint="give the token or the App that permission, and accept it where it is installed",
            auth=True,
        )
    return None


def _forbidden(answer: Answer, repo: str) -> ForgeRefused:
    if "archived" in answer.message:
        return ForgeRefused(f"{repo} is archived: {answer.message}", hint=f"gh repo unarchive {repo}", archived=True)
    if "protected" in answer.message.lower() or "rule violations" in answer.message.lower():
        return ForgeRefused(f"{repo} protects this: {answer.message}", hint=f"gh ruleset check --repo {repo}")
    if "admin rights" in answer.message or "must have" in answer.message.lower():
        return ForgeRefused(
            f"our login may not do this on {repo}: {answer.message}", hint=f"gh repo view {repo}", auth=True
        )
    return ForgeRefused(f"GitHub refused: {answer.message}", status=answer.status)


def _scopes(header: str | None) -> set[str] | None:
    return None if header is None else {scope.strip() for scope in header.split(",") if scope.strip()}


def graphql_kinds(errors: object) -> set[str]:
    """What kinds the `errors` of a GraphQL answer are of."""
    return {str(one.get("type", "")) for one in errors if isinstance(one, dict)} if isinstance(errors, list) else set()


def from_graphql(errors: object, *, repo: str) -> ResolventError:
    """The error for the `errors` of a GraphQL answer."""
    every = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    line = "; ".join(" ".join(str(one.get("message", "")).split()) for one in every)[:MAX_SAID] or "no reason given"
    types = graphql_kinds(errors)
    if "NOT_FOUND" in types:
        return NotFound(f"{repo}: {line}", hint=f"gh repo view {repo}")
    if types & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
        return ForgeRefused(f"the token may not do this: {line}", hint="gh auth refresh --scopes repo", auth=True)
    if types & {"UNPROCESSABLE", "VALIDATION", "BAD_USER_INPUT"}:
        return ForgeRefused(f"GitHub refused: {line}")
    return ForgeDown(f"GitHub did not answer with sense: {line}")
