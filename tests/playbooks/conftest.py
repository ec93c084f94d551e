"""A stage per test: the real engine, forge and processes on a tiny repository."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from resolvent.testing.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = await Stage.set_up(tmp_path)
    yield made
    await made.close()
