"""One breaker per account: when a model says when it will be there again, nobody asks it before."""

import asyncio
import time


class Breakers:
    """Until when the agents of an account wait; it follows from outputs on record, so a restart finds it again."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def hold(self, account: str, until: float) -> None:
        """Nobody of this account begins before then; the later of two times counts."""
        self._until[account] = max(until, self._until.get(account, 0.0))

    def held(self, account: str) -> float | None:
        """Until when, if it is held now."""
        # The wall clock, not the run's own: the model's server knows no other.
        until = self._until.get(account, 0.0)
        return until if until > time.time() else None

    async def closed(self, account: str) -> None:
        """Wait until the account may be used again."""
        while (until := self.held(account)) is not None:  # noqa: ASYNC110 (the time itself is waited for)
            await asyncio.sleep(until - time.time())
