"""A place to stand for each acceptance test."""

from pathlib import Path

import pytest

from .process import Place

HONEST = r"""
case "$RESOLVENT_STEP" in
  analyze) cat <<'END'
VERDICT=NEED_FIX
BEGIN_SOLUTION_DESIGN
root_cause: the value is bad
severity: P1
approach: make it good
reproducer:
```json
{"command": "grep -q good value.txt", "expect": {"exit": 1}}
```
END_SOLUTION_DESIGN
END
  ;;
  implement) echo good > value.txt; echo IMPLEMENTATION_SUCCESS ;;
  review) echo NO_P0_P1 ;;
esac
"""


def make_place(directory: Path) -> Place:
    """A repository with one bad value, an issue about it, and an honest agent."""
    made = Place(directory)
    made.project.mkdir()
    own = directory / "home/.config/resolvent/config.toml"
    own.parent.mkdir(parents=True)
    # A shell script is no blind reader: where variants matter, they are played.
    own.write_text("[policy]\nvariants = 0\n", encoding="utf-8")
    (made.project / "value.txt").write_text("bad\n", encoding="utf-8")
    (made.project / ".gitignore").write_text("resolvent.local.toml\n", encoding="utf-8")
    made.git("init", "-q", "-b", "main")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    made.agent(HONEST)
    assert made("issue", "new", "The value is bad", "--body", "It should be good.").code == 0
    return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place of the test's own."""
    return make_place(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place where one run is proven; for tests that only read."""
    made = make_place(tmp_path_factory.mktemp("finished"))
    assert made("resolve", "1", "--json").code == 0
    return made
