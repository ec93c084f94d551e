"""A town per test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .scene import Town


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    """One forge that hosts share."""
    built = await Town.built(tmp_path)
    yield built
    await built.close()
