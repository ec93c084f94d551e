"""A real Postgres for the suites that run over every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resolvent.testing.postgres import PostgresServer, postgres_binaries, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    if postgres_binaries() is None:
        pytest.skip("no Postgres binaries on this machine")
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    return postgres.emptied()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state/resolvent.db"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new store, of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
