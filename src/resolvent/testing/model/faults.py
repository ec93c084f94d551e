"""What goes wrong, in the words of each vendor, and how often it still does."""

import math
import time
from dataclasses import dataclass, field
from typing import Any

from resolvent.testing.model.conversation import Api
from resolvent.testing.model.steps import ALWAYS, Fault

# What each vendor calls a status: its type, its words, and OpenAI's code.
_ANTHROPIC = {
    400: ("invalid_request_error", "invalid request"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "your API key may not use this resource"),
    404: ("not_found_error", "not found"),
    413: ("request_too_large", "request exceeds the maximum size"),
    418: ("invalid_request_error", "the script expected something else"),
    429: ("rate_limit_error", "This request would exceed your rate limit. Please try again later."),
    529: ("overloaded_error", "Overloaded"),
}
_OPENAI = {
    400: ("invalid_request_error", "invalid request", None),
    401: ("invalid_request_error", "Incorrect API key provided.", "invalid_api_key"),
    403: ("invalid_request_error", "your project may not use this model", "model_not_found"),
    404: ("invalid_request_error", "not found", "not_found"),
    418: ("invalid_request_error", "the script expected something else", None),
    429: ("requests", "Rate limit reached.", "rate_limit_exceeded"),
    503: ("server_error", "The server is overloaded or not ready yet.", "server_is_overloaded"),
}
TOO_LONG = ("context", "prompt_too_long")
TOO_LONG_ANTHROPIC = "prompt is too long: 204857 tokens > 200000 maximum"
TOO_LONG_OPENAI = "Your input exceeds the context window of this model. Please adjust your input and try again."


@dataclass
class Hits:
    """How often each fault struck, and when it first did."""

    _struck: dict[tuple[Any, ...], tuple[int, float]] = field(default_factory=dict)

    def strike(self, fault: Fault, where: tuple[Any, ...]) -> Fault | None:
        """The fault as it strikes now, with the seconds that are left of it; None when it is over."""
        now = time.time()
        count, first = self._struck.get(where, (0, now))
        self._struck[where] = (count + 1, first)
        left = first + fault.seconds - now
        # A limit without a number of times holds as long as it says.
        over = left <= 0 if fault.name == "limit" and fault.times == ALWAYS else 0 <= fault.times <= count
        if over:
            return None
        seconds = left if fault.times == ALWAYS else fault.seconds
        return Fault(**{**vars(fault), "seconds": seconds}) if fault.name == "limit" else fault


@dataclass(frozen=True)
class Refusal:
    """An answer that is none: status, body and headers."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def refusal(api: Api, fault: Fault) -> Refusal:
    """A failure or a limit in the words of the API that was asked."""
    if fault.name == "limit":
        return _limit_of_anthropic(fault) if api == "messages" else _limit_of_openai(fault)
    headers = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
    too_long = fault.type in TOO_LONG
    if api == "messages":
        usual, said = _ANTHROPIC.get(fault.status, ("api_error", "Internal server error"))
        kind, text = ("invalid_request_error", TOO_LONG_ANTHROPIC) if too_long else (fault.type or usual, said)
        return Refusal(fault.status, _of_anthropic(kind, fault.message or text), headers)
    usual, said, code = _OPENAI.get(fault.status, ("server_error", "The server had an error.", None))
    if too_long:
        usual, said, code = "invalid_request_error", TOO_LONG_OPENAI, "context_length_exceeded"
    kind = usual if too_long else fault.type or usual
    return Refusal(fault.status, _of_openai(kind, fault.message or said, code=fault.code or code), headers)


def _limit_of_anthropic(fault: Fault) -> Refusal:
    until = time.time() + fault.seconds
    headers = {"retry-after": str(max(1, math.ceil(fault.seconds)))}
    if fault.kind == "quota":
        # What a subscription is told: one sum over five hours or a week.
        headers |= {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(math.ceil(until)),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        }
    else:
        stated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(until)))
        for what in ("requests", "input-tokens", "output-tokens"):
            headers[f"anthropic-ratelimit-{what}-limit"] = "50"
            headers[f"anthropic-ratelimit-{what}-remaining"] = "0"
            headers[f"anthropic-ratelimit-{what}-reset"] = stated
    return Refusal(429, _of_anthropic("rate_limit_error", fault.message or _ANTHROPIC[429][1]), headers)


def _limit_of_openai(fault: Fault) -> Refusal:
    until, seconds = math.ceil(time.time() + fault.seconds), max(1, math.ceil(fault.seconds))
    headers = {"retry-after": str(seconds)}
    if fault.kind == "quota":
        error = _of_openai("usage_limit_reached", fault.message or "The usage limit has been reached")
        error["error"] |= {"plan_type": "plus", "resets_at": until, "resets_in_seconds": seconds}
        return Refusal(429, error, headers)
    for what in ("requests", "tokens"):
        headers[f"x-ratelimit-limit-{what}"] = "50"
        headers[f"x-ratelimit-remaining-{what}"] = "0"
        headers[f"x-ratelimit-reset-{what}"] = f"{seconds}s"
    said = fault.message or f"Rate limit reached. Please try again in {seconds}s."
    return Refusal(429, _of_openai("requests", said, code="rate_limit_exceeded"), headers)


def _of_anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _of_openai(kind: str, message: str, *, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
