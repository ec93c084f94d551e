"""How long a world that may heal wants to be left alone."""

from resolvent.engine.world import World
from resolvent.errors import Unavailable

LONGEST_WAIT_S = 3700.0


def told_to_wait(world: World, error: Unavailable) -> float:
    """How long a forge that limits us wants to be left alone; one that wants more than an hour is a person's affair."""
    until = error.details.get("until")
    if not isinstance(until, int | float):
        return 0.0
    wait = until - world.clock.now()
    if wait > LONGEST_WAIT_S:
        raise error
    return max(0.0, wait)
