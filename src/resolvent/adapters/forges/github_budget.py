"""What GitHub lets us ask, and until when it wants to hear nothing. Pure but for the clock it is given."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from resolvent.errors import ForgeDown

# A secondary limit that names no time is over after a minute, GitHub says.
_MINUTE = 60.0
_HOUR = 3600.0
# What GitHub says of the limit of content, which has no header and no status of its own.
_TOO_QUICK = "submitted too quickly"


@dataclass
class Left:
    """What is left of one allowance, and when it is whole again."""

    remaining: int
    limit: int
    until: float


@dataclass
class Budget:
    """Remembers what every answer says of the limits; whoever shares it is held back by what any of them heard."""

    reserve: int
    now: Callable[[], float]
    quiet_until: float = 0.0
    # Nothing is written until then, and how long that was from the last refusal on.
    unwritten_until: float = 0.0
    unwritten_s: float = 0.0
    left: dict[str, Left] = field(default_factory=dict)

    def hear(self, status: int, headers: Mapping[str, str]) -> None:
        """Take note of the limits in an answer."""
        named = [_number(headers.get(f"x-ratelimit-{name}")) for name in ("remaining", "limit", "reset")]
        remaining, limit, reset = named
        if remaining is not None and limit is not None and reset is not None:
            until = self.now() + max(0.0, reset - self._their_now(headers))
            self.left[headers.get("x-ratelimit-resource", "core")] = Left(int(remaining), int(limit), until)
        wait = self._asked_to_wait(status, headers)
        if wait is not None:
            self.quiet_until = max(self.quiet_until, self.now() + wait)

    def admit(self, resource: str, *, write: bool) -> None:
        """ForgeDown, with the instant it is over, when nothing of this kind may be sent now."""
        now = self.now()
        if now < self.quiet_until:
            raise held("GitHub asked us to wait", self.quiet_until)
        if write and now < self.unwritten_until:
            raise held("GitHub takes no more content from us", self.unwritten_until)
        left = self.left.get(resource)
        if left is None or now >= left.until:
            return
        if left.remaining <= 0:
            raise held(f"the {resource} calls of this hour are spent", left.until)
        if not write and resource != "search" and left.remaining <= self._kept(left):
            raise held(f"only {left.remaining} {resource} calls are left, which others may need", left.until)

    def limited(self, status: int, headers: Mapping[str, str], message: str) -> float | None:
        """The instant a refusal is over when it was about a limit; None for any other refusal."""
        if status == 422 and _TOO_QUICK in message.lower():
            return self._too_quick()
        if status not in (403, 429):
            return None
        if "retry-after" in headers or "secondary rate limit" in message.lower():
            return self._quiet(headers)
        left = self.left.get(headers.get("x-ratelimit-resource", "core"))
        if headers.get("x-ratelimit-remaining") == "0" and left is not None:
            return left.until
        return self.now() + _MINUTE if status == 429 else None

    def limited_graphql(self, headers: Mapping[str, str], message: str, kinds: Collection[str]) -> float | None:
        """The same of an answer of GraphQL, whose status is 200: only its words and the kinds of its errors tell."""
        if _TOO_QUICK in message.lower():
            return self._too_quick()
        if "secondary rate limit" in message.lower():
            return self._quiet(headers)
        if "RATE_LIMITED" not in kinds:
            return None
        left = self.left.get("graphql")
        if left is None or left.remaining > 0 or left.until <= self.now():
            # It said nothing of when that is over, and whoever asks next shall not find that out again.
            left = self.left["graphql"] = Left(0, 0, self.now() + (_number(headers.get("retry-after")) or _MINUTE))
        return left.until

    def _quiet(self, headers: Mapping[str, str]) -> float:
        self.quiet_until = max(self.quiet_until, self.now() + (_number(headers.get("retry-after")) or _MINUTE))
        return self.quiet_until

    def _too_quick(self) -> float:
        # Nobody says how long it lasts, it may be an hour: who is refused again soon after waits twice as long.
        now = self.now()
        again = now < self.unwritten_until + _HOUR
        self.unwritten_s = min(2 * self.unwritten_s, _HOUR) if again else _MINUTE
        self.unwritten_until = now + self.unwritten_s
        return self.unwritten_until

    def _asked_to_wait(self, status: int, headers: Mapping[str, str]) -> float | None:
        # Of a server that is down it says when to try again; that is for the one who asked, not for everybody.
        return _number(headers.get("retry-after")) if status in (403, 429) else None

    def _kept(self, left: Left) -> int:
        # Where there is little to have at all, keeping all of it for others would be to do nothing for ever.
        return min(self.reserve, left.limit // 2)

    def _their_now(self, headers: Mapping[str, str]) -> float:
        # Their clock and ours need not agree: only the time between their two words counts.
        try:
            return parsedate_to_datetime(headers["date"]).timestamp()
        except (KeyError, ValueError):
            return self.now()


def held(why: str, until: float) -> ForgeDown:
    """The error for what is not sent yet."""
    return ForgeDown(f"{why}: nothing is sent before then", hint="gh api rate_limit", until=until)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else min(float(int(text)), 1e11)
    except ValueError:
        return None
