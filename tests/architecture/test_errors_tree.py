"""The drawing of the errors is the errors."""

import re

import pytest

import resolvent.adapters
import resolvent.engine
from resolvent import errors
from resolvent.domain.outcome import EXIT_CODES


def drawn() -> dict[str, str]:
    """Each name of the drawing with the name it hangs on."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"((?:│   |    )*)(?:├── |└── )?([A-Z]\w+)(?:  |$)", line)
        if not found:
            continue
        depth = len(found[1]) // 4 + (1 if "── " in line else 0)
        path[depth:] = [found[2]]
        parents[found[2]] = path[depth - 1] if depth else ""
    return parents


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    classes = errors.classes()
    assert drawn() == {
        name: (one.__base__.__name__ if one is not errors.ResolventError and one.__base__ else "")
        for name, one in classes.items()
        if one.__module__ == "resolvent.errors"
    }


def test_every_error_of_ours_is_in_the_one_tree() -> None:
    import importlib
    import pkgutil

    for package in (resolvent.adapters, resolvent.engine):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    assert {one.__module__ for one in errors.classes().values()} == {"resolvent.errors"}


def test_every_error_says_in_its_exit_code_who_must_act() -> None:
    codes = {name: one.exit_code for name, one in errors.classes().items()}
    assert codes["UsageError"] == codes["ConfigError"] == 2
    assert codes["NotFound"] == 4
    assert codes["Unavailable"] == codes["ForgeDown"] == 5
    assert codes["StepFailed"] == codes["Bug"] == 1


@pytest.mark.spec("K1")
def test_every_outcome_has_the_exit_code_that_programs_know() -> None:
    good = dict.fromkeys(("proven", "argued", "merged", "declined"), 0)
    bad = {"failed": 1, "cancelled": 1, "waiting": 3, "escalated": 3}
    assert good | bad == EXIT_CODES


def test_control_flow_is_no_error() -> None:
    for one in (errors.Suspended, errors.Cancelled):
        assert not issubclass(one, Exception)
