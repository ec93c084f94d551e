"""No prompt can be taken for an answer."""

import re
from pathlib import Path

import pytest
from tests.architecture import source

PROMPTS = sorted((source.PACKAGE / "prompts").glob("*.md"))
BARE = (
    "NO_P0_P1|P0_P1_FINDINGS|NO_IN_SCOPE_P0_P1|IN_SCOPE_P0_P1|FIX_SUCCESS|IMPLEMENTATION_SUCCESS|"
    "IMPLEMENTATION_BLOCKED|GH_AUTH_EXPIRED|DESIGN_APPROVED|DESIGN_NEEDS_REVISION|(?:BEGIN|END)_[A-Z0-9_]+"
)
FIELDS = (
    "VERDICT|REASON|PR_URL|PR_NUMBER|PR_HEAD_BRANCH|LOCAL_COMMIT|RETRY_PUSH_BRANCH|APPROVAL_NOTES|DESIGN_STATUS|"
    "DESIGN_COMMENT_URL|DESIGN_NOTES|MERGE_BLOCKER"
)
# Whatever stands around it: fences, bullets, quotes and emphasis are stripped by more than one reader.
TOKEN = re.compile(rf"^[\s>*_`~#.\d-]*(?:(?:{BARE})|(?:{FIELDS})=.*?)[\s*_`~]*$")


def test_there_are_prompts() -> None:
    assert PROMPTS


@pytest.mark.spec("P3")
@pytest.mark.parametrize("path", PROMPTS, ids=source.name)
def test_no_line_of_a_prompt_is_a_token(path: Path) -> None:
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if TOKEN.match(line)] == []


@pytest.mark.parametrize(
    "line", ["NO_P0_P1", "  `FIX_SUCCESS`", "- VERDICT=VALID", "> BEGIN_P0_P1_FINDINGS", "REASON=x"]
)
def test_the_rule_catches_a_token_on_a_line_of_its_own(line: str) -> None:
    assert TOKEN.match(line)


@pytest.mark.parametrize("path", PROMPTS, ids=source.name)
def test_a_prompt_has_front_matter_with_its_role(path: Path) -> None:
    assert re.match(
        r"---\n(?:.+\n)*?role: (?:writer|reader|arbiter)\n(?:.+\n)*?---\n", path.read_text(encoding="utf-8")
    )


@pytest.mark.spec("P2")
@pytest.mark.parametrize("path", PROMPTS, ids=source.name)
def test_text_from_outside_is_quoted_wherever_a_prompt_shows_it(path: Path) -> None:
    outside = re.findall(r"\{\{\s*([a-z_]+\.(?:body|title)\b[^}]*)\}\}", path.read_text(encoding="utf-8"))
    assert [one for one in outside if "quoted" not in one] == []
