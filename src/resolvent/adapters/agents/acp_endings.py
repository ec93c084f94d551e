"""How the turn of an ACP agent ended, and who must act when it did not end well."""

import re
from pathlib import Path
from typing import NoReturn

from resolvent.adapters.agents.acp_output import Told
from resolvent.adapters.agents.endings import noted_reset, reset_time, told
from resolvent.adapters.agents.lines import last_lines
from resolvent.domain.job import JobExit
from resolvent.domain.record import AgentChoice
from resolvent.errors import AgentBusy, AgentFailed, KeyRefused

# The protocol's own code for it.
AUTH_REQUIRED = -32000
TELLING_LINES = 3
STOPPED = {
    "max_tokens": "its answer ran into the model's length limit",
    "max_turn_requests": "it asked its model as often as it may",
    "refusal": "its model refused to go on",
    "cancelled": "it was cancelled",
}
_KEY = re.compile(
    r"(?:http|status|error|code|\()\W{0,4}(?:code\W{0,3})?40[13]\b|unauthori[sz]ed|forbidden"
    r"|(?:invalid|incorrect|missing|wrong|expired|no)\b.{0,20}\b(?:api[ _-]?key|token|credentials)\b"
    r"|authentication[ _](?:required|failed|error)"
    r"|api[ _-]?key.{0,20}\b(?:invalid|incorrect|missing|not valid|expired)\b",
    re.I,
)
_BUSY = re.compile(
    r"rate[ _-]?limit|too many requests|quota|usage limit|out of credits|credits? exhausted|overloaded"
    r"|temporarily unavailable|service unavailable"
    r"|server error|bad gateway|(?:http|status|error|code|\()\W{0,4}(?:code\W{0,3})?(?:429|5\d\d)\b"
    r"|connection (?:was )?(?:reset|refused|closed|aborted|lost|error)|ECONNRESET|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN"
    r"|timed[ -]out|time-?out|network (?:is unreachable|error)|temporary failure in name resolution"
    r"|error sending request|stream (?:disconnected|error)|empty response",
    re.I,
)
# Programs that end a turn as if it were well and say the error as words of the model, by the name they give themselves.
_DISGUISED = {
    "goose": re.compile(
        r"(?:\A|\n)(?:Ran into this error(?: trying to compact)?: ([^\n].{0,20000}?)\n+Please retry if you think"
        r" this is a transient or recoverable error\.|([^\n]+)\n+Please resend your message to try again\."
        r"|([^\n]*[Rr]esend your message to continue\.)|Unable to continue: ([^\n]+))\s*\Z",
        re.S,
    ),
}
_TAIL = 30_000


def require_good_end(choice: AgentChoice, turn: Told, exit: JobExit, output: Path) -> None:
    """The error of a turn that did not end well: KeyRefused, AgentBusy, else AgentFailed."""
    who, ended = f"agent {choice.name}", turn.ended
    if ended is None:
        raise AgentFailed(f"{who}: ended with exit {exit.exit} before its turn was over{told(output)}", exit=exit.exit)
    if ended.error is None and ended.stop_reason == "end_turn" and exit.exit == 0:
        disguise = _DISGUISED.get(turn.began.agent.lower()) if turn.began else None
        found = disguise.search(turn.text[-_TAIL:]) if disguise else None
        if found:
            _refused(choice, next(filter(None, found.groups())).strip(), exit, output)
        return
    if ended.error is None:
        why = STOPPED.get(ended.stop_reason, f"it ended with exit {exit.exit}")
        raise AgentFailed(f"{who}: {why}", exit=exit.exit, stop_reason=ended.stop_reason[:100])
    message, reason = ended.error.message, ended.error.reason
    if reason == "refused":
        _refused(choice, message, exit, output, code=ended.error.code)
    last = last_lines(output.with_name("errors"), TELLING_LINES)
    if reason == "died" and _BUSY.search(last):
        raise AgentBusy(f"{who}: {message}{told(output)}", until=_until(last, exit, output))
    gone = {"session_gone": True} if reason == "session_gone" else {}
    hint = {
        "silent": f"{' '.join(choice.command)}  # does it speak ACP on its standard input and output?",
        "garbled": f"{' '.join(choice.command)}  # does it speak ACP on its standard input and output?",
    }.get(reason, "")
    said = last_lines(output.with_name("errors"))
    raise AgentFailed(f"{who}: {message}" + (f"\n{said}" if said else ""), hint=hint, exit=exit.exit, **gone)


def _until(said: str, exit: JobExit, output: Path) -> float | None:
    return reset_time(said, now=exit.ended_at) or noted_reset(output, now=exit.ended_at)


def _refused(choice: AgentChoice, message: str, exit: JobExit, output: Path, *, code: int = 0) -> NoReturn:
    who = f"agent {choice.name}"
    # A server that is busy may say so in words that fit a key as well; one that is sure names it as the only reason.
    if code != AUTH_REQUIRED and _BUSY.search(message):
        raise AgentBusy(f"{who}: {message}", until=_until(message, exit, output))
    if code == AUTH_REQUIRED or _KEY.search(message):
        variable = choice.key.removeprefix("$")
        hint = f"export {variable}=…" if variable else f"set agents.{choice.name}.key, or how it is to authenticate"
        raise KeyRefused(f"{who}: its model's server does not take its key: {message}", hint=hint)
    raise AgentFailed(f"{who}: {message}")
