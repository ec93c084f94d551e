"""A stage per test: the real engine, forge and processes on a tiny repository."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from resolvent.testing.rehearsal import rehearsing
from resolvent.testing.stage import Stage

# Flakiness is not the point of most tests: one execution tells as much as two.
QUICK = ("policy.reproduce_runs=1", "policy.prove_runs=1", "policy.variants=0", "policy.minimise=off")
SetStage = Callable[..., Awaitable[Stage]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A module that says ON_ANY_FORGE is about what is the same wherever issues live: one forge will do."""
    items[:] = [item for item in items if not _twice(item)]


def _twice(item: pytest.Item) -> bool:
    where = getattr(item, "callspec", None)
    module = getattr(item, "module", None)
    return bool(where and where.params.get("set_stage") == "github" and getattr(module, "ON_ANY_FORGE", False))


@pytest.fixture(params=["local", "github"])
async def set_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SetStage]:
    """Stages with settings of their own, on either forge: `await set_stage("policy.merge=auto")`."""
    async with AsyncExitStack() as stack:
        github = request.param == "github"
        rehearsal = await stack.enter_async_context(rehearsing(tmp_path / "forge")) if github else None

        async def one(*overrides: str) -> Stage:
            stage = await Stage.set_up(tmp_path, overrides=(*QUICK, *overrides), rehearsal=rehearsal)
            stack.push_async_callback(stage.close)
            return stage

        yield one


@pytest.fixture
async def stage(set_stage: SetStage) -> Stage:
    """The stage of most tests."""
    return await set_stage()
