"""A turn of Claude Code that ended, read from all that it printed."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from resolvent.adapters.agents.claude_events import Event, broken_servers, retried, since_last_result
from resolvent.adapters.agents.lines import Objects, count, mapping, number, rows, text
from resolvent.domain.job import Usage
from resolvent.domain.transcript import Retried

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# What tool results are told in is by far the most of all lines, and nothing of it decides how a turn ended.
_TELLING = (b'"result"', b'"system"', b'"assistant"', b'"rate_limit_event"')

Trouble = Literal["key", "busy", "other"]
_KEY = (
    "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required", "billing_error",
    "cloud_credential_error",
)  # fmt: skip


@dataclass
class ClaudeTurn:
    """What the lines of an ended job say of it."""

    session: str = ""
    # The last one; a program that did other things in its background tells several.
    result: Event = field(default_factory=dict)
    # What was spent by this process; None when a result does not say.
    spent: Usage | None = field(default_factory=Usage)
    # The last request to the model was asked again, and nothing came since.
    retry: Retried | None = None
    # Its word for what was wrong with the last request, where there was something.
    error: str = ""
    resets_at: float = 0.0
    notices: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """It told a result, and that is no error."""
        return bool(self.result) and self.result.get("is_error") is False

    @property
    def status(self) -> int:
        """The HTTP status that ended it, 0 when there was none."""
        return count(self.result.get("api_error_status")) if self.result else self.retry.status if self.retry else 0

    @property
    def said(self) -> str:
        """Its own words about how it ended."""
        errors = self.result.get("errors")
        told = "\n".join(text(error, 2000) for error in errors) if isinstance(errors, list) else ""
        return text(self.result.get("result"), 4000).strip() or told.strip()

    @property
    def trouble(self) -> Trouble:
        """Whether its key was refused, its model's server could not be had, or something else happened."""
        status, error = self.status, self.error or (self.retry.reason if self.retry else "")
        if status in (401, 403) or error in _KEY:
            return "key"
        if status in (408, 429) or status >= 500 or error in ("rate_limit", "overloaded"):
            return "busy"
        # Without a status nobody answered: the stream was cut, or the way there is broken.
        unanswered = not status and (self.retry is not None or self.result.get("terminal_reason") == "api_error")
        return "busy" if unanswered and error in ("", "server_error", "unknown") else "other"


def ended_turn(output: Path) -> ClaudeTurn:
    """Read the output of an ended job."""
    found = ClaudeTurn()
    for event in Objects(output, holding=_TELLING):
        kind, subtype = event.get("type"), event.get("subtype")
        if kind == "system" and subtype == "init":
            found.session = _session(event)
            found.notices += tuple(one for one in broken_servers(event) if one not in found.notices)
        elif kind == "system" and subtype == "api_retry":
            found.retry = retried(event)
        elif kind == "rate_limit_event":
            _limited(found, mapping(event.get("rate_limit_info")))
        elif kind == "assistant":
            failed = event.get("is_api_error_message") is True
            found.error, found.retry = (text(event.get("error"), 200), found.retry) if failed else ("", None)
            _limited(found, mapping(mapping(event.get("api_error_params")).get("rate_limit_info")))
        elif kind == "result":
            found.result, since = event, since_last_result(event)
            found.session = _session(event) or found.session
            found.spent = None if since is None or found.spent is None else found.spent + since
    denied = [text(row.get("tool_name"), 200) for row in rows(found.result.get("permission_denials"))]
    found.notices += tuple(f"{tool} was refused {denied.count(tool)}×" for tool in dict.fromkeys(denied))
    return found


def _session(event: Event) -> str:
    """Its id goes back onto a command line: nothing but one is one."""
    id = text(event.get("session_id"), 100)
    return id if _ID.fullmatch(id) else ""


def _limited(found: ClaudeTurn, limit: Event) -> None:
    if limit.get("status") == "rejected":
        found.resets_at = number(limit.get("resetsAt"))
