"""Places to stand for the tests of the branch server; no server outlives its tests."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from resolvent.adapters.jobs.supervised import SupervisedJobs

from .place import Place, Server


@contextmanager
def made(directory: Path) -> Iterator[Place]:
    place = Place(directory).set_up()
    try:
        yield place
    finally:
        for server in place.servers:
            server.kill()
        with ThreadPoolExecutor() as aside:
            aside.submit(asyncio.run, stopped(place)).result()


async def stopped(place: Place) -> None:
    """No agent outlives its test either."""
    jobs = SupervisedJobs(place.state / "jobs")
    for job in place.state.glob("jobs/*/job.json"):
        await jobs.cancel(job.parent.name)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A repository of the test's own."""
    with made(tmp_path) as own:
        yield own


@pytest.fixture
def server(place: Place) -> Server:
    """A branch server over it."""
    return place.serve()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A repository for all tests of a file that look at branches of their own only."""
    with made(tmp_path_factory.mktemp("town")) as common:
        yield common


@pytest.fixture(scope="module")
def lively(town: Place) -> Server:
    """The branch server over that."""
    return town.serve("--set", "limits.agents=8")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without branches, for tests that only look at its answers."""
    with made(tmp_path_factory.mktemp("shared")) as common:
        yield common.serve()
