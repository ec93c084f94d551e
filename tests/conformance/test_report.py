"""Every item that is built is asserted by a test, and the published page says so."""

import re
import textwrap
from pathlib import Path

import pytest
from tests.conformance.report import PAGE, ROOT, items, marks, page

EVERY, FOUND = items(), marks()


def test_every_item_of_the_five_sources_is_listed_in_order() -> None:
    counts = {"S0": 48, "S1": 32, "S2": 25, "S3": 43, "S4": 60}
    assert list(EVERY) == [f"{source}.{n}" for source, many in counts.items() for n in range(1, many + 1)]


def test_every_item_is_one_sentence_with_a_known_state_and_playbook() -> None:
    for item in EVERY.values():
        assert re.fullmatch(r"[A-Z][^\n|]{10,170}\.", item.text), item
        assert item.state in ("built", "later"), item
        assert item.playbook in ("resolve", "design", "land", "crash", "branch_server"), item


def test_nothing_of_the_built_playbooks_is_left_for_later() -> None:
    later = {item.id for item in EVERY.values() if item.state == "later" and item.id.startswith(("S0.", "S1.", "S2."))}
    assert later == set()


def test_every_built_item_has_a_test() -> None:
    marked = {mark.id for mark in FOUND}
    assert [item.id for item in EVERY.values() if item.state == "built" and item.id not in marked] == []


def test_no_mark_names_an_unknown_item() -> None:
    assert [f"{mark.file}:{mark.line} {mark.id}" for mark in FOUND if mark.id not in EVERY] == []


def test_every_marked_test_can_fail() -> None:
    assert [f"{mark.file}:{mark.line} {mark.test}" for mark in FOUND if not mark.asserts] == []


def test_the_published_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(EVERY, FOUND), "type: make docs"


def test_every_mark_of_the_specification_names_one_of_its_statements() -> None:
    statements = set(re.findall(r"^- \*\*([A-Z]\d+)\*\* ", (ROOT / "docs/SPEC.md").read_text(encoding="utf-8"), re.M))
    wrong = [f"{mark.file}:{mark.line} {mark.id}" for mark in marks("spec") if mark.id not in statements]
    assert wrong == []


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_one.py").write_text(
        textwrap.dedent(
            """
            import pytest
            pytestmark = [pytest.mark.conforms("S0.9")]

            @pytest.mark.conforms("S0.1", "S0.2")
            def test_a(): assert True

            @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.conforms("S0.3"))])
            async def test_b(x):
                refused(x)

            def refused(x):
                with pytest.raises(ValueError): x()

            @pytest.mark.conforms("S0.4")
            class TestC:
                def test_d(self): print("conforms", "S0.5")
            """
        )
    )
    return tmp_path / "tests"


def test_marks_are_read_from_functions_cases_classes_and_files(tests: Path) -> None:
    found = [(mark.id, mark.test, mark.asserts) for mark in marks(below=tests)]
    assert found == [
        ("S0.9", "", True),
        ("S0.1", "test_a", True),
        ("S0.2", "test_a", True),
        ("S0.3", "test_b", True),
        ("S0.4", "TestC", False),
    ]


def test_the_page_shows_what_is_missing(tests: Path) -> None:
    apart = {"S3.2": EVERY["S3.2"]._replace(why="asserted elsewhere")}
    text = page(EVERY | apart, marks(below=tests))
    assert "| S0.1 | " in text
    assert "`test_one.py::test_a` |" in text
    assert re.search(r"\| S0\.26 \| .* \| \*\*none\*\* \|", text)
    assert re.search(r"\| S3\.1 \| .* \| \*later: land\* \|", text)
    assert re.search(r"\| S3\.2 \| .* \| \*later: asserted elsewhere\* \|", text)
