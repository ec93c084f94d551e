"""The forge that the tests here talk to: a new one for each, with certificates that are made once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.forge_server.serving import Served, being_served


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates of this session are."""
    return tmp_path_factory.mktemp("certified")


@pytest.fixture
async def served(tmp_path: Path, certified: Path) -> AsyncIterator[Served]:
    """A new forge without a commit, served over HTTPS."""
    async with being_served(tmp_path, certified=certified) as forge:
        yield forge
