"""A stage per test: the real engine, forge and processes on a tiny repository."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from resolvent.testing.stage import Stage

# Flakiness is not the point of most tests: one execution tells as much as two.
QUICK = ("policy.reproduce_runs=1", "policy.prove_runs=1", "policy.variants=0", "policy.minimise=off")
SetStage = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def set_stage(tmp_path: Path) -> AsyncIterator[SetStage]:
    """Stages with settings of their own: `await set_stage("policy.merge=auto")`."""
    made: list[Stage] = []

    async def one(*overrides: str) -> Stage:
        made.append(await Stage.set_up(tmp_path, overrides=(*QUICK, *overrides)))
        return made[-1]

    yield one
    for stage in made:
        await stage.close()


@pytest.fixture
async def stage(set_stage: SetStage) -> Stage:
    """The stage of most tests."""
    return await set_stage()
