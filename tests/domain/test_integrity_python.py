"""Python tests that are weakened are told from those that are merely written anew."""

# One row is one line, however long its two versions are.
# ruff: noqa: E501

import pytest
from tests.domain.integrity_tables import Row, altered, in_test, rules

from resolvent.domain.integrity import tests_added as added_tests

ONE = "from money import split\n\n\ndef test_split():\n    assert split(3) == 1\n"
TWO = ONE + "\n\ndef test_rest():\n    assert split(4) == 2\n"
CLASS = """
    import unittest
    from money import split

    class MoneyTest(unittest.TestCase):
        def check(self, given, expected):
            self.assertEqual(split(given), expected)

        def test_split(self):
            self.assertEqual(split(3), 1)

        def test_rest(self):
            self.check(4, 2)
"""
ROWS = """
    import pytest
    from money import split

    @pytest.mark.parametrize("given, expected", [(3, 1), (4, 2)])
    def test_split(given, expected):
        assert split(given) == expected
"""

STACKED = ROWS.replace("    def test_split", '    @pytest.mark.parametrize("how", ["up", "down"])\n    def test_split')

IN_CLASS = """
    @pytest.mark.parametrize("given, expected", [(3, 1), (4, 2)])
    class TestSplit:
        def test_split(self, given, expected):
            assert split(given) == expected
"""
GIVEN = "import pytest\n\n@pytest.fixture(params=[3, 4])\ndef coins(request):\n    return request.param\n"
SKIPS = "import pytest\n\n@pytest.fixture(autouse=True)\ndef off():\n    pytest.skip('later')\n"

WEAKER = [
    Row("a row of a class is removed", IN_CLASS, IN_CLASS.replace(", (4, 2)", ""), ("dropped-assert",)),
    Row("a fixture gives less", GIVEN, GIVEN.replace(", 4", ""), ("narrowed-tests",), "tests/conftest.py"),
    Row("conftest skips every test", None, SKIPS, ("skipped-test",), "tests/conftest.py"),
    Row("an automatic fixture skips every test", ONE, SKIPS + ONE, ("skipped-test",)),
    Row("a fixture that was there now skips", SKIPS.replace("(autouse=True)", "").replace("pytest.skip('later')", "return 1"), SKIPS.replace("(autouse=True)", ""), ("skipped-test",), "tests/conftest.py"),
    Row("the set-up of a unittest skips", CLASS, CLASS.replace("        def check(", "        def setUp(self):\n            self.skipTest('later')\n\n        def check("), ("skipped-test",)),
    Row("the set-up of a class raises a skip", CLASS, CLASS.replace("        def check(", "        @classmethod\n        def setUpClass(cls):\n            raise unittest.SkipTest('later')\n\n        def check("), ("skipped-test",)),
    Row("a row of the second list is removed", STACKED, STACKED.replace(', "down"', ""), ("dropped-assert",)),
    Row("a row that is given by its name is removed", ROWS.replace('"given, expected", [', 'argnames="given, expected", argvalues=['), ROWS.replace('"given, expected", [', 'argnames="given, expected", argvalues=[').replace(", (4, 2)", ""), ("dropped-assert",)),
    Row("a test is removed", TWO, ONE, ("removed-test",)),
    Row("the file is removed", ONE, None, ("removed-test",)),
    Row("the file is emptied", ONE, "", ("removed-test",)),
    Row("a test is commented out", TWO, ONE + "\n\n# def test_rest():\n#     assert split(4) == 2\n", ("removed-test",)),
    Row("a test is renamed out of sight", ONE, ONE.replace("test_split", "check_split"), ("removed-test",)),
    Row("a test is shadowed by an empty one", ONE, ONE + "\n\ndef test_split():\n    pass\n", ("dropped-assert",)),
    Row("a test is deleted after its definition", ONE, ONE + "\n\ndel test_split\n", ("removed-test",)),
    Row("a test is overwritten", ONE, ONE + "\n\ntest_split = None\n", ("removed-test",)),
    Row("a test is put under a false condition", ONE, "if False:\n    def test_split():\n        assert split(3) == 1\n", ("removed-test",)),
    Row("a class is renamed out of sight", "class TestA:\n    def test_b(self):\n        assert f(1) == 2\n", "class A:\n    def test_b(self):\n        assert f(1) == 2\n", ("removed-test",)),
    Row("a class gets an __init__ so that it is not collected", "class TestA:\n    def test_b(self):\n        assert f(1) == 2\n", "class TestA:\n    def __init__(self):\n        pass\n    def test_b(self):\n        assert f(1) == 2\n", ("removed-test",)),
    Row("a class is marked as no test", "class TestA:\n    def test_b(self):\n        assert f(1) == 2\n", "class TestA:\n    __test__ = False\n    def test_b(self):\n        assert f(1) == 2\n", ("removed-test",)),
    Row("a method of a unittest is removed", CLASS, CLASS.partition("    def test_rest")[0], ("removed-test",)),
    Row("a skip mark is added", ONE, ONE.replace("def test", "@pytest.mark.skip\ndef test"), ("skipped-test",)),
    Row("a conditional skip mark is added", ONE, ONE.replace("def test", "@pytest.mark.skipif(sys.platform == 'linux', reason='x')\ndef test"), ("skipped-test",)),
    Row("a skip that is always true", ONE, ONE.replace("def test", "@pytest.mark.skipif(True, reason='x')\ndef test"), ("skipped-test",)),
    Row("an expected failure", ONE, ONE.replace("def test", "@pytest.mark.xfail\ndef test"), ("skipped-test",)),
    Row("a unittest skip", CLASS, CLASS.replace("def test_rest", "@unittest.skip('later')\n        def test_rest"), ("skipped-test",)),
    Row("a unittest expected failure", CLASS, CLASS.replace("def test_rest", "@unittest.expectedFailure\n        def test_rest"), ("skipped-test",)),
    Row("a skip of the whole class", CLASS, CLASS.replace("class Money", "@unittest.skip('later')\n    class Money"), ("skipped-test",)),
    Row("a mark for the whole module", ONE, "import pytest\npytestmark = pytest.mark.skip\n" + ONE, ("skipped-test",)),
    Row("a list of marks for the whole module", ONE, "import pytest\npytestmark = [pytest.mark.slow, pytest.mark.xfail]\n" + ONE, ("skipped-test",)),
    Row("the module skips itself", ONE, "import pytest\npytest.skip('later', allow_module_level=True)\n" + ONE, ("skipped-test",)),
    Row("a test under a new condition", ONE, "if os.name == 'nt':\n    def test_split():\n        assert split(3) == 1\n", ("skipped-test",)),
    Row("a row is removed", ROWS, ROWS.replace(", (4, 2)", ""), ("dropped-assert",)),
    Row("a row expects something else", ROWS, ROWS.replace("(4, 2)", "(4, 3)"), ("changed-expectation",)),
    Row("a row is skipped", ROWS, ROWS.replace("(4, 2)", "pytest.param(4, 2, marks=pytest.mark.skip)"), ("skipped-test",)),
    Row("a helper holds less", CLASS, CLASS.replace("self.assertEqual(split(given), expected)", "self.assertTrue(split(given))"), ("weaker-assert",)),
    Row("a helper holds nothing", CLASS, CLASS.replace("self.assertEqual(split(given), expected)", "split(given)"), ("dropped-assert",)),
    Row("assertEqual becomes assertTrue", CLASS, CLASS.replace("self.assertEqual(split(3), 1)", "self.assertTrue(split(3), 1)"), ("weaker-assert",)),
    Row("a constant of the module is changed to fit", "WANT = 1\n" + ONE.replace("== 1", "== WANT"), "WANT = 2\n" + ONE.replace("== 1", "== WANT"), ("changed-expectation",)),
    Row("a file no longer parses", ONE, ONE + "\ndef broken(:\n", ("unparsable-test",)),
    Row("a file that never parsed loses a test", "print 'x'\n" + TWO, "print 'x'\n" + ONE, ("removed-test",)),
    Row("a file that never parsed loses an assert", "print 'x'\n" + TWO, "print 'x'\n" + TWO.replace("assert split(4) == 2", "split(4)"), ("dropped-assert",)),
    Row("a timeout is raised", ONE.replace("def test", "@pytest.mark.timeout(5)\ndef test"), ONE.replace("def test", "@pytest.mark.timeout(50)\ndef test"), ("loosened-tolerance",)),
    Row("a function of the subject is replaced in an old test", ONE.replace("def test_split():", "def test_split(monkeypatch):"), ONE.replace("def test_split():", "def test_split(monkeypatch):\n    monkeypatch.setattr('money.split', lambda n: 1)"), ("patched-subject",)),
    Row("a name of the subject is assigned", "import money\n\ndef test_a():\n    assert money.split(3) == 1\n", "import money\n\ndef test_a():\n    money.split = lambda n: 1\n    assert money.split(3) == 1\n", ("patched-subject",)),
    Row("an automatic fixture replaces the subject", ONE, "import pytest\nfrom unittest import mock\n\n@pytest.fixture(autouse=True)\ndef fake():\n    with mock.patch('money.split'):\n        yield\n\n" + ONE, ("patched-subject",)),
    Row("conftest replaces the subject", None, "import pytest\nimport money\n\n@pytest.fixture(autouse=True)\ndef fake(monkeypatch):\n    monkeypatch.setattr(money, 'split', lambda n: 1)\n", ("patched-subject",), "tests/conftest.py"),
    Row("conftest drops tests", None, "def pytest_collection_modifyitems(items):\n    items.clear()\n", ("altered-collection",), "tests/conftest.py"),
    Row("conftest turns failures into passes", "", "def pytest_runtest_makereport(item, call):\n    return None\n", ("altered-collection",), "conftest.py"),
    Row("conftest leaves files out", "", "collect_ignore = ['test_money.py']\n", ("altered-collection",), "tests/conftest.py"),
    in_test("an assert is dropped", "assert split(3) == 1\nassert split(4) == 2", "assert split(3) == 1", "dropped-assert"),
    in_test("everything is dropped", "assert split(3) == 1", "pass", "dropped-assert"),
    in_test("a call is all there was", "split(3)", "pass", "dropped-assert"),
    in_test("the expected value fits", "assert split(3) == 1", "assert split(3) == 2", "changed-expectation"),
    in_test("the expected value fits, through a name", "got = split(3)\nassert got == 1", "got = split(3)\nassert got == 2", "changed-expectation"),
    in_test("equal becomes in", "assert split(3) == 1", "assert split(3) in (1, 2)", "weaker-assert"),
    in_test("equal becomes a part", "assert str(split(3)) == 'one coin'", "assert 'coin' in str(split(3))", "weaker-assert"),
    in_test("equal becomes at least", "assert split(3) == 1", "assert split(3) >= 1", "weaker-assert"),
    in_test("equal becomes not None", "assert split(3) == 1", "assert split(3) is not None", "weaker-assert"),
    in_test("equal becomes truth", "assert split(3) == 1", "assert split(3)", "weaker-assert"),
    in_test("equal becomes a type", "assert split(3) == 1", "assert isinstance(split(3), int)", "weaker-assert"),
    in_test("the value becomes its length", "assert split(3) == [1, 1, 1]", "assert len(split(3)) == 3", "weaker-assert"),
    in_test("the order no longer counts", "assert split(3) == [1, 2]", "assert sorted(split(3)) == [1, 2]", "weaker-assert"),
    in_test("an alternative is allowed", "assert split(3) == 1", "assert split(3) == 1 or split(3) is None", "weaker-assert"),
    in_test("always true", "assert split(3) == 1", "assert True", "weaker-assert"),
    in_test("equal to itself", "assert split(3) == 1", "assert split(3) == split(3)", "weaker-assert"),
    in_test("a tuple is always true", "assert split(3) == 1", "assert (split(3) == 1, 'must be one')", "weaker-assert"),
    in_test("a literal becomes what the code says", "assert split(3) == 1", "assert split(3) == expected_of(3)", "weaker-assert"),
    in_test("a return before", "assert split(3) == 1", "return\nassert split(3) == 1", "dropped-assert"),
    in_test("a skip before", "assert split(3) == 1", "pytest.skip('later')\nassert split(3) == 1", "skipped-test"),
    in_test("a skip under a condition", "assert split(3) == 1", "if split(2):\n    pytest.skip('later')\nassert split(3) == 1", "skipped-test"),
    in_test("raise SkipTest", "assert split(3) == 1", "raise unittest.SkipTest('later')", "skipped-test"),
    in_test("a dead branch", "assert split(3) == 1", "if False:\n    assert split(3) == 1", "dropped-assert"),
    in_test("a condition", "assert split(3) == 1", "if split(3):\n    assert split(3) == 1", "weaker-assert"),
    in_test("a way out under a condition", "assert split(3) == 1", "if split(3) != 1:\n    return\nassert split(3) == 1", "weaker-assert"),
    in_test("a loop over nothing", "assert split(3) == 1", "for _ in []:\n    assert split(3) == 1", "dropped-assert"),
    in_test("a function nobody calls", "assert split(3) == 1", "def inner():\n    assert split(3) == 1", "dropped-assert"),
    in_test("a try that swallows", "assert split(3) == 1", "try:\n    assert split(3) == 1\nexcept AssertionError:\n    pass", "dropped-assert", "swallowed-exception"),
    in_test("a suppressed failure", "assert split(3) == 1", "with contextlib.suppress(Exception):\n    assert split(3) == 1", "dropped-assert", "swallowed-exception"),
    in_test("a wider tolerance", "assert split(3) == pytest.approx(1, abs=0.1)", "assert split(3) == pytest.approx(1, abs=0.5)", "loosened-tolerance"),
    in_test("a tolerance at all", "assert split(3) == 1.5", "assert split(3) == pytest.approx(1.5)", "loosened-tolerance"),
    in_test("fewer places", "self.assertAlmostEqual(split(3), 1.5, places=5)", "self.assertAlmostEqual(split(3), 1.5, places=1)", "loosened-tolerance"),
    in_test("a wider delta", "self.assertAlmostEqual(split(3), 1.5, delta=0.1)", "self.assertAlmostEqual(split(3), 1.5, delta=1)", "loosened-tolerance"),
    in_test("a wider difference", "assert abs(split(3) - 1.5) < 0.1", "assert abs(split(3) - 1.5) < 0.9", "loosened-tolerance"),
    in_test("a higher bound", "assert took() < 1.0", "assert took() < 9.0", "loosened-tolerance"),
    in_test("a lower bound", "assert score() > 10", "assert score() > 1", "loosened-tolerance"),
    in_test("a broader error", "with pytest.raises(ValueError):\n    split(0)", "with pytest.raises(Exception):\n    split(0)", "weaker-assert"),
    in_test("another error", "with pytest.raises(ValueError):\n    split(0)", "with pytest.raises(KeyError):\n    split(0)", "changed-expectation"),
    in_test("one error more", "with pytest.raises(ValueError):\n    split(0)", "with pytest.raises((ValueError, KeyError)):\n    split(0)", "weaker-assert"),
    in_test("a message no longer matters", "with pytest.raises(ValueError, match='zero'):\n    split(0)", "with pytest.raises(ValueError):\n    split(0)", "weaker-assert"),
    in_test("no error is expected any more", "with pytest.raises(ValueError):\n    split(0)", "split(0)", "dropped-assert"),
    in_test("a mock is asked less", "send.assert_called_once_with(3)", "send.assert_called()", "weaker-assert"),
    in_test("a loop loses a row", "for n, want in [(3, 1), (4, 2)]:\n    assert split(n) == want", "for n, want in [(3, 1)]:\n    assert split(n) == want", "dropped-assert"),
    in_test("one half of an and", "assert split(3) == 1 and split(4) == 2", "assert split(3) == 1", "dropped-assert"),
    in_test("another input", "assert split(3) == 1", "assert split(0) == 0", "dropped-assert"),
    in_test("no failure under a condition", "if split(3) != 1:\n    pytest.fail('wrong')", "split(3)", "dropped-assert"),
    in_test("behind a statement that changes nothing", "assert split(3) == 1", "x = 1\nassert split(3) == 2", "changed-expectation"),
]  # fmt: skip

PRODUCT = "def split(n):\n    return n // 3\n"
HIDING = [
    Row("except: pass", PRODUCT, "def split(n):\n    try:\n        return n // 3\n    except:\n        pass\n", ("swallowed-exception",), "money.py"),
    Row("except Exception: return", PRODUCT, "def split(n):\n    try:\n        return n // 3\n    except Exception:\n        return 0\n", ("swallowed-exception",), "money.py"),
    Row("suppress(Exception)", PRODUCT, "def split(n):\n    with suppress(Exception):\n        return n // 3\n", ("swallowed-exception",), "src/money.py"),
    Row("in a new file", None, "def split(n):\n    for one in n:\n        try:\n            one()\n        except Exception:\n            continue\n", ("swallowed-exception",), "src/money.py"),
    Row("type: ignore", PRODUCT, "def split(n):\n    return n // 4  # type: ignore\n", ("relaxed-lint",), "money.py"),
    Row("noqa", PRODUCT, "def split(n):\n    return n // 4  # noqa: E501\n", ("relaxed-lint",), "money.py"),
    Row("no cover", PRODUCT, "def split(n):  # pragma: no cover\n    return n // 4\n", ("relaxed-lint",), "money.py"),
    Row("only the recorded result", '{"total": 1}', '{"total": 2}', ("fixtures-only",), "tests/fixtures/total.json"),
    Row("only the snapshot", "exports[`a`] = `1`", "exports[`a`] = `2`", ("fixtures-only",), "src/__snapshots__/a.test.js.snap"),
    Row("the recorded result goes", "1\n", None, ("fixtures-only",), "tests/expected/out.txt"),
]  # fmt: skip

HONEST = [
    Row("a new fixture that skips whoever asks for it", "import pytest\n", SKIPS.replace("(autouse=True)", "").replace("pytest.skip", "if missing:\n        pytest.skip"), (), "tests/conftest.py"),
    Row("a fixture gives more and other", GIVEN, GIVEN.replace("4", "5, 6"), (), "tests/conftest.py"),
    Row("a fixture that always skipped is moved", SKIPS + ONE, ONE + SKIPS),
    Row("a new file that skips itself", None, SKIPS + ONE),
    Row("a row of the second list is added", STACKED, STACKED.replace(', "down"', ', "down", "even"')),
    Row("a test is added", ONE, TWO),
    Row("a new file", None, TWO),
    Row("a test is renamed", ONE, ONE.replace("test_split", "test_three_are_split")),
    Row("tests change places", TWO, "from money import split\n\n\ndef test_rest():\n    assert split(4) == 2\n\n\ndef test_split():\n    assert split(3) == 1\n"),
    Row("a row is added", ROWS, ROWS.replace("(4, 2)]", "(4, 2), (5, 1)]")),
    Row("rows get names", ROWS, ROWS.replace("(4, 2)", "pytest.param(4, 2, id='four')")),
    Row("rows are written over lines", ROWS, ROWS.replace("[(3, 1), (4, 2)]", "[\n        (3, 1),\n        (4, 2),\n    ]")),
    Row("two tests become rows of one", TWO, "import pytest\nfrom money import split\n\n\n@pytest.mark.parametrize('n, want', [(3, 1), (4, 2)])\ndef test_split(n, want):\n    assert split(n) == want\n"),
    Row("a test becomes two", "def test_a():\n    assert f(1) == 2\n    assert f(2) == 3\n", "def test_a():\n    assert f(1) == 2\n\ndef test_b():\n    assert f(2) == 3\n"),
    Row("asserts go into a helper", ONE, "from money import split\n\ndef holds(n, want):\n    assert split(n) == want\n\ndef test_split():\n    holds(3, 1)\n"),
    Row("a helper goes into the tests", CLASS, CLASS.replace("self.check(4, 2)", "self.assertEqual(split(4), 2)")),
    Row("a helper is written anew", CLASS, CLASS.replace("self.assertEqual(split(given), expected)", "found = split(given)\n            self.assertEqual(found, expected)")),
    Row("a function becomes a method", ONE, "from money import split\n\n\nclass TestMoney:\n    def test_split(self):\n        assert split(3) == 1\n"),
    Row("unittest becomes pytest", CLASS, "from money import split\n\ndef test_split():\n    assert split(3) == 1\n\ndef test_rest():\n    assert split(4) == 2\n"),
    Row("a constant gets a name", ONE, "WANT = 1\n" + ONE.replace("== 1", "== WANT")),
    Row("a skip goes away", ONE.replace("def test", "@pytest.mark.skip\ndef test"), ONE),
    Row("a skip gets a condition", ONE.replace("def test", "@pytest.mark.skip\ndef test"), ONE.replace("def test", "@pytest.mark.skipif(os.name == 'nt', reason='x')\ndef test")),
    Row("a skip gets another reason", ONE.replace("def test", "@pytest.mark.skipif(NT, reason='x')\ndef test"), ONE.replace("def test", "@pytest.mark.skipif(NT, reason='y')\ndef test")),
    Row("a test that was skipped is removed", ONE + "\n@pytest.mark.skip\ndef test_old():\n    assert f(1) == 2\n", ONE),
    Row("a placeholder is removed", ONE + "\n\ndef test_later():\n    pass\n", ONE),
    Row("a new test is conditional", ONE, ONE + "\n\n@pytest.mark.skipif(os.name == 'nt', reason='x')\ndef test_new():\n    assert split(4) == 2\n"),
    Row("a new test replaces something", ONE, ONE + "\n\ndef test_new(monkeypatch):\n    monkeypatch.setattr('money.clock', lambda: 1)\n    assert split(4) == 2\n"),
    Row("an old test stops the clock", ONE, ONE.replace("def test_split():", "def test_split(monkeypatch):\n    monkeypatch.setattr('time.time', lambda: 1)")),
    Row("a fixture is added", ONE, "import pytest\n\n@pytest.fixture\ndef three():\n    return 3\n\n" + ONE.replace("test_split():", "test_split(three):")),
    Row("a conftest with a fixture", None, "import pytest\n\n@pytest.fixture\ndef three():\n    return 3\n", (), "tests/conftest.py"),
    Row("a conftest with a marker", None, "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow: slow')\n", (), "tests/conftest.py"),
    Row("a parametrised class of errors", None, "import pytest\n\n@pytest.mark.parametrize('e', [ValueError])\ndef test_e(e):\n    with pytest.raises(e):\n        raise e\n"),
    Row("a docstring is added", ONE, ONE.replace("    assert", '    """Three coins."""\n    assert')),
    Row("the word skip in a text", ONE, ONE.replace("    assert", "    # pytest.skip is not used\n    note = 'skip'\n    assert")),
    Row("code is narrower now", "def f():\n    try:\n        g()\n    except Exception:\n        pass\n", "def f():\n    try:\n        g()\n    except ValueError:\n        pass\n", (), "money.py"),
    Row("a narrow error is handled", PRODUCT, "def split(n):\n    try:\n        return n // 3\n    except TypeError:\n        return 0\n", (), "money.py"),
    Row("an error is told", PRODUCT, "def split(n):\n    try:\n        return n // 3\n    except Exception as error:\n        log(error)\n        raise\n", (), "money.py"),
    Row("a silent handler is renamed with its function", "def f():\n    try:\n        g()\n    except Exception:\n        pass\n", "def h():\n    try:\n        g()\n    except Exception:\n        pass\n", (), "money.py"),
    Row("a line with a mark is moved", "import a  # noqa\nx = 1\n", "x = 1\nimport a  # noqa\n", (), "money.py"),
    Row("product code changes", PRODUCT, "def split(n):\n    return -(-n // 3)\n", (), "money.py"),
    Row("a function that is named like a test", "def test_connection():\n    assert ping()\n", "", (), "src/pool.py"),
    in_test("spaces and comments", "assert split(3)==1", "# three coins\nassert split( 3 ) == 1  # one each\n"),
    in_test("over several lines", "assert split(3) == [1, 1]", "assert split(\n    3\n) == [\n    1,\n    1,\n]"),
    in_test("a name for the result", "assert split(3) == 1", "result = split(3)\nassert result == 1"),
    in_test("another name for the result", "got = split(3)\nassert got == 1", "share = split(3)\nassert share == 1"),
    in_test("a message", "assert split(3) == 1", "assert split(3) == 1, 'three coins'"),
    in_test("the other way round", "assert 1 == split(3)", "assert split(3) == 1"),
    in_test("a stricter tolerance", "assert split(3) == pytest.approx(1, abs=0.5)", "assert split(3) == pytest.approx(1, abs=0.1)"),
    in_test("a stricter bound", "assert took() < 9.0", "assert took() < 1.0"),
    in_test("truth becomes equal", "assert split(3)", "assert split(3) == 1"),
    in_test("a narrower error", "with pytest.raises(Exception):\n    split(0)", "with pytest.raises(ValueError, match='zero'):\n    split(0)"),
    in_test("a new case that raises", "assert split(3) == 1", "assert split(3) == 1\nwith pytest.raises(ValueError):\n    split(0)"),
    in_test("and becomes two", "assert split(3) == 1 and split(4) == 2", "assert split(3) == 1\nassert split(4) == 2"),
    in_test("a loop becomes two", "for n, want in [(3, 1), (4, 2)]:\n    assert split(n) == want", "assert split(3) == 1\nassert split(4) == 2"),
    in_test("the function is renamed", "assert split(3) == 1", "assert shares(3) == 1"),
    in_test("the function takes one more", "assert split(3) == 1", "assert split(3, 'EUR') == 1"),
    in_test("input and expectation of one row together", "acc = Account()\nacc.add(3)\nassert acc.total == 3", "acc = Account()\nacc.add(4)\nassert acc.total == 4"),
    in_test("a context around", "assert split(3) == 1", "with freeze('2020-01-01'):\n    assert split(3) == 1"),
    in_test("a try that ends in a failure", "with pytest.raises(ValueError):\n    split(0)\nassert split(3) == 1", "with pytest.raises(ValueError):\n    split(0)\ntry:\n    assert split(3) == 1\nfinally:\n    close()"),
]  # fmt: skip


@pytest.mark.parametrize("row", [*WEAKER, *HIDING], ids=lambda row: row.what)
def test_what_says_less_is_named_by_its_rule(row: Row) -> None:
    assert rules(altered(row.path, row.old, row.new)) == sorted(row.rules)


@pytest.mark.parametrize("row", HONEST, ids=lambda row: row.what)
def test_what_says_as_much_or_more_is_let_pass(row: Row) -> None:
    assert rules(altered(row.path, row.old, row.new)) == []


def test_a_test_that_moves_to_another_file_is_not_gone() -> None:
    moved = altered("tests/test_other.py", None, ONE)
    assert rules(altered("tests/test_money.py", ONE, None), moved) == []


def test_a_test_that_is_weakened_on_its_way_to_another_file_is_caught() -> None:
    moved = altered("tests/test_other.py", None, ONE.replace("split(3) == 1", "split(3)"))
    assert rules(altered("tests/test_money.py", ONE, None), moved) == ["weaker-assert"]


def test_a_file_that_is_renamed_out_of_sight_takes_its_tests_along() -> None:
    moved = altered("tests/money_checks.py", None, ONE)
    assert rules(altered("tests/test_money.py", ONE, None), moved) == ["removed-test"]


def test_a_helper_in_another_file_is_known() -> None:
    helper = altered("tests/holding.py", "", "def holds(n, want):\n    assert split(n) == want\n")
    assert rules(altered("tests/test_money.py", ONE, ONE.replace("assert split(3) == 1", "holds(3, 1)")), helper) == []


def test_a_recorded_result_may_change_with_the_code() -> None:
    snapshot = altered("tests/fixtures/total.json", "1", "2")
    assert rules(snapshot, altered("money.py", PRODUCT, PRODUCT.replace("3", "4"))) == []


def test_a_same_assert_in_a_new_test_about_something_else_makes_up_for_nothing() -> None:
    old = "def test_a():\n    c = make()\n    c.add(3)\n    assert c.total == 3\n"
    new = "def test_a():\n    c = make()\n    c.add(3)\n\ndef test_b():\n    c = make()\n    c.set(3)\n    assert c.total == 3\n"
    assert rules(altered("tests/test_a.py", old, new)) == ["dropped-assert"]


def test_tests_that_are_new_and_can_fail_are_named() -> None:
    new = (
        TWO + "\n\n@pytest.mark.skip\ndef test_skipped():\n    assert split(5) == 1\n\n\ndef test_empty():\n    pass\n"
    )
    assert added_tests([altered("tests/test_money.py", ONE, new)]) == ("tests/test_money.py::test_rest",)
    assert added_tests([altered("tests/test_money.py", ONE, ONE.replace("test_split", "test_other"))]) == ()


def test_an_old_test_that_holds_more_is_new_and_one_that_is_written_otherwise_is_not() -> None:
    more = ONE + "    assert split(9) == 3\n"
    assert added_tests([altered("tests/test_money.py", ONE, more)]) == ("tests/test_money.py::test_split",)
    again = ONE + "    assert split(3) == 1\n    assert True\n"
    assert added_tests([altered("tests/test_money.py", ONE, again)]) == ()
    otherwise = ONE.replace("assert split(3) == 1", "expected = 1\n    assert expected == split(3)")
    assert added_tests([altered("tests/test_money.py", ONE, otherwise)]) == ()


def test_a_test_that_is_moved_away_from_the_others_is_missed() -> None:
    away = [altered("tests/test_money.py", ONE, None), altered("docs/test_money.py", None, ONE)]
    assert rules(*away) == ["removed-test"]
    near = [altered("tests/test_money.py", ONE, None), altered("tests/unit/test_money.py", None, ONE)]
    assert rules(*near) == []
