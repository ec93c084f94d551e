"""How often somebody may ask: GitHub's primary limits, counted per account and kind of request."""

import math
from dataclasses import dataclass

from resolvent.forge_server.door import Refusal
from resolvent.ports import Clock

WINDOW_S = 3600
LIMITS = {"core": 5000, "graphql": 5000, "search": 30}


@dataclass
class Rate:
    """What one account has left until `reset`, an instant."""

    resource: str
    limit: int
    reset: int
    used: int = 0

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        """As every answer carries them."""
        told = {name: getattr(self, name) for name in ("limit", "remaining", "reset", "used", "resource")}
        return {f"x-ratelimit-{name}": str(value) for name, value in told.items()}


class Rates:
    """The limits of everybody; `limits` may be changed and holds from each account's next window on."""

    def __init__(self, clock: Clock) -> None:
        self.limits = dict(LIMITS)
        self._clock = clock
        self._rates: dict[tuple[str, str], Rate] = {}

    def of(self, login: str, resource: str) -> Rate:
        """What that account has left of one kind of request now."""
        now = self._clock.now()
        rate = self._rates.get((login, resource))
        if rate is None or rate.reset <= now:
            window = 60 if resource == "search" else WINDOW_S
            rate = Rate(resource, self.limits[resource], reset=math.ceil(now) + window)
            self._rates[login, resource] = rate
        return rate

    def exhaust(self, login: str, resource: str = "core") -> Rate:
        """Let that account have nothing left until its window ends."""
        rate = self.of(login, resource)
        rate.used = rate.limit
        return rate

    def exceeded(self, rate: Rate, *, status: int = 403, id: int = 0) -> Refusal:
        """The answer for who has none left."""
        message = f"API rate limit exceeded for user ID {id}."
        return Refusal(status, message, headers={**rate.headers(), "x-ratelimit-remaining": "0"})
