"""What the driver prints besides moments: how the turn began, and how it ended."""

from typing import Literal

from resolvent.domain.job import Usage
from resolvent.domain.model import Value

Reason = Literal["unstartable", "silent", "garbled", "died", "refused", "session_gone"]


class Began(Value):
    """The session is there; `agent` is the name its program gives itself."""

    kind: Literal["session"] = "session"
    id: str
    agent: str = ""
    # Its program can go on with it after the process ended.
    lasting: bool = False


class Trouble(Value):
    """Why a turn did not end well; `code` is the JSON-RPC code of an answer that was an error."""

    reason: Reason
    message: str
    code: int = 0


class Ended(Value):
    """The last line: without it the turn did not end."""

    kind: Literal["ended"] = "ended"
    # In the protocol's words: end_turn, max_tokens, max_turn_requests, refusal, cancelled; empty when there was none.
    stop_reason: str = ""
    # What this turn alone spent, as far as the agent tells.
    usage: Usage = Usage()
    notices: tuple[str, ...] = ()
    error: Trouble | None = None
