"""Test integrity: what a change takes away from the checks that judge it."""

from resolvent.domain.integrity.altered import Altered, Hit
from resolvent.domain.integrity.build_lines import is_ci, runners
from resolvent.domain.integrity.inspecting import inspected, tests_added
from resolvent.domain.integrity.kinds import is_test

__all__ = ["Altered", "Hit", "inspected", "is_ci", "is_test", "runners", "tests_added"]
