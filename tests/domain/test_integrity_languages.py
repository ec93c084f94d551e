"""Weakened tests in JavaScript, Go, Rust, Java, Kotlin and shell."""

# One row is one line, however long its two versions are.
# ruff: noqa: E501

import pytest
from tests.domain.integrity_tables import Row, altered, rules

from resolvent.domain.integrity import is_test
from resolvent.domain.integrity import tests_added as added_tests

JS = """
    import { split } from '../src/money';

    describe('money', () => {
      it('splits', () => {
        expect(split(3)).toBe(1);
        expect(split(4)).toEqual([2, 2]);
      });
      test('leaves a rest', async () => {
        const rest = await left(5);
        expect(rest).toBeCloseTo(0.5, 5);
      });
    });
"""
EACH = """
    test.each([[3, 1], [4, 2]])('split %i', (n, want) => {
      expect(split(n)).toBe(want);
    });
"""
GO = """
    package money

    import "testing"

    func TestSplit(t *testing.T) {
        if got := Split(3); got != 1 {
            t.Errorf("got %d", got)
        }
        assert.Equal(t, 2, Split(4))
    }

    func TestTable(t *testing.T) {
        for _, c := range []struct{ in, want int }{
            {3, 1},
            {4, 2},
        } {
            if Split(c.in) != c.want {
                t.Fatal(c)
            }
        }
    }
"""
RUST = """
    pub fn split(n: u32) -> u32 { n / 3 }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn splits() {
            assert_eq!(split(3), 1);
            assert!(split(4) == 1);
        }

        #[test]
        #[should_panic(expected = "zero")]
        fn refuses() {
            split(0);
        }
    }
"""
JAVA = """
    class MoneyTest {
        @Test
        void splits() {
            assertEquals(1, split(3));
            assertThat(split(4)).isEqualTo(2);
        }

        @ParameterizedTest
        @CsvSource({"3,1", "4,2"})
        void table(int n, int want) {
            assertEquals(want, split(n));
        }

        @Test
        void refuses() {
            assertThrows(IllegalArgumentException.class, () -> split(0));
        }
    }
"""
KOTLIN = """
    class MoneyTest {
        @Test
        fun splits() {
            assertEquals(1, split(3))
        }
    }
"""
BATS = """
    @test "splits" {
      run split 3
      [ "$status" -eq 0 ]
      [ "$output" = "1" ]
    }

    @test "refuses" {
      run split 0
      [ "$status" -ne 0 ]
    }
"""
SHELL = """
    #!/bin/sh
    set -eu
    out=$(./split 3)
    [ "$out" = "1" ] || exit 1
    ./split 0 && exit 1
    echo ok
"""


def js(what: str, old: str, new: str, *expected: str, of: str = JS) -> Row:
    assert old in of
    return Row(what, of, of.replace(old, new), expected, "src/money.test.ts")


def go(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in GO
    return Row(what, GO, GO.replace(old, new), expected, "money_test.go")


def rust(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in RUST
    return Row(what, RUST, RUST.replace(old, new), expected, "src/money.rs")


def java(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in JAVA
    return Row(what, JAVA, JAVA.replace(old, new), expected, "src/test/java/MoneyTest.java")


def bats(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in BATS
    return Row(what, BATS, BATS.replace(old, new), expected, "tests/money.bats")


def shell(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in SHELL
    return Row(what, SHELL, SHELL.replace(old, new), expected, "tests/test_money.sh")


WEAKER = [
    Row("js: the file goes", JS, None, ("removed-test",), "src/money.test.ts"),
    js("js: a test is removed", JS.partition("      test(")[2].partition("    });\n")[0], "", "removed-test"),
    js("js: a test is commented out", "test('leaves", "// test('leaves", "removed-test"),
    js("js: skip", "it('splits'", "it.skip('splits'", "skipped-test"),
    js("js: an option to skip", "it('splits', ", "it('splits', { skip: true }, ", "skipped-test"),
    js("js: xit", "it('splits'", "xit('splits'", "skipped-test"),
    js("js: todo", "it('splits'", "it.todo('splits'", "skipped-test"),
    js("js: xdescribe", "describe(", "xdescribe(", "skipped-test"),
    js("js: describe.skip", "describe(", "describe.skip(", "skipped-test"),
    js("js: only", "it('splits'", "it.only('splits'", "narrowed-tests"),
    js("js: fit", "it('splits'", "fit('splits'", "narrowed-tests"),
    js("js: an expect is dropped", "expect(split(4)).toEqual([2, 2]);", "", "dropped-assert"),
    js("js: an expect is a comment", "expect(split(4)).toEqual([2, 2]);", "// expect(split(4)).toEqual([2, 2]);", "dropped-assert"),
    js("js: truthy", "toBe(1)", "toBeTruthy()", "weaker-assert"),
    js("js: defined", "toEqual([2, 2])", "toBeDefined()", "weaker-assert"),
    js("js: anything", "toEqual([2, 2])", "toEqual(expect.anything())", "weaker-assert"),
    js("js: not something", "toBe(1)", "not.toBe(7)", "weaker-assert"),
    js("js: another value", "toBe(1)", "toBe(2)", "changed-expectation"),
    js("js: fewer digits", "toBeCloseTo(0.5, 5)", "toBeCloseTo(0.5, 1)", "loosened-tolerance"),
    js("js: a dead branch", "expect(split(3)).toBe(1);", "if (false) { expect(split(3)).toBe(1); }", "dropped-assert"),
    js("js: a condition", "expect(split(3)).toBe(1);", "if (split(3)) { expect(split(3)).toBe(1); }", "weaker-assert"),
    js("js: a return", "expect(split(3)).toBe(1);", "return;\nexpect(split(3)).toBe(1);", "dropped-assert"),
    js("js: a silent catch", "expect(split(3)).toBe(1);", "try { expect(split(3)).toBe(1); } catch (e) {}", "dropped-assert", "swallowed-exception"),
    js("js: a replaced module", "describe('money'", "jest.mock('../src/money');\ndescribe('money'", "patched-subject"),
    js("js: a row less", ", [4, 2]", "", "dropped-assert", of=EACH),
    js("js: another row", "[4, 2]", "[4, 3]", "changed-expectation", of=EACH),
    Row("js: code that swallows", "export const f = () => g();", "export const f = () => { try { return g(); } catch { return null; } };", ("swallowed-exception",), "src/a.js"),
    Row("js: a promise that swallows", "f();", "f().catch(() => {});", ("swallowed-exception",), "src/a.js"),
    Row("ts: a check looks away", "const a: number = f();", "// @ts-ignore\nconst a: number = f();", ("relaxed-lint",), "src/a.ts"),
    Row("js: lint looks away", "f();", "f(); // eslint-disable-line", ("relaxed-lint",), "src/a.js"),
    js("js: a set-up skips", "it('splits'", "beforeEach(function () { this.skip(); });\n      it('splits'", "skipped-test"),
    go("go: the main function of the tests runs none", "func TestTable", "func TestMain(m *testing.M) { os.Exit(0) }\n\n    func TestTable", "altered-collection"),
    Row("go: a new file whose main function runs none", None, "package money\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n", ("altered-collection",), "main_test.go"),
    java("java: a set-up skips", "@Test\n        void splits", "@BeforeEach\n        void off() { assumeTrue(false); }\n\n        @Test\n        void splits", "skipped-test"),
    bats("bats: the set-up skips", '@test "refuses" {', 'setup() {\n      skip\n    }\n\n    @test "refuses" {', "skipped-test"),
    go("go: a test is removed", "func TestTable", "func helperTable", "removed-test"),
    go("go: skip", "if got := Split(3)", "t.Skip(\"later\")\n        if got := Split(3)", "skipped-test"),
    go("go: an error is dropped", 't.Errorf("got %d", got)', "_ = got", "dropped-assert"),
    go("go: an assert is dropped", "assert.Equal(t, 2, Split(4))", "Split(4)", "dropped-assert"),
    go("go: NotNil", "assert.Equal(t, 2, Split(4))", "assert.NotNil(t, Split(4))", "weaker-assert"),
    go("go: another value", "assert.Equal(t, 2, Split(4))", "assert.Equal(t, 3, Split(4))", "changed-expectation"),
    go("go: another value in a condition", "got != 1", "got != 2", "changed-expectation"),
    go("go: a row less", "            {4, 2},\n", "", "dropped-assert"),
    go("go: not built", "package money", "//go:build never\n\n    package money", "skipped-test"),
    go("go: recover", "assert.Equal(t, 2, Split(4))", "defer func() { recover() }()\n        assert.Equal(t, 2, Split(4))", "swallowed-exception"),
    rust("rust: ignore", "#[test]\n        fn splits", "#[test]\n        #[ignore]\n        fn splits", "skipped-test"),
    rust("rust: no test any more", "#[test]\n        fn splits", "fn splits", "removed-test"),
    rust("rust: an assert is dropped", "assert!(split(4) == 1);", "", "dropped-assert"),
    rust("rust: another value", "assert_eq!(split(3), 1)", "assert_eq!(split(3), 2)", "changed-expectation"),
    rust("rust: always true", "assert_eq!(split(3), 1)", "assert!(true)", "weaker-assert"),
    rust("rust: not equal", "assert_eq!(split(3), 1)", "assert_ne!(split(3), 0)", "weaker-assert"),
    rust("rust: need not panic", '#[should_panic(expected = "zero")]', "", "dropped-assert"),
    rust("rust: another target only", "#[test]\n        fn splits", "#[cfg(windows)]\n        #[test]\n        fn splits", "skipped-test"),
    rust("rust: lint looks away", "pub fn split", "#[allow(dead_code)]\n    pub fn split", "relaxed-lint"),
    java("java: disabled", "@Test\n        void splits", "@Test\n        @Disabled\n        void splits", "skipped-test"),
    java("java: the class is ignored", "class MoneyTest", "@Ignore\n    class MoneyTest", "skipped-test"),
    java("java: no test any more", "@Test\n        void splits", "void splits", "removed-test"),
    java("java: an assert is dropped", "assertEquals(1, split(3));", "", "dropped-assert"),
    java("java: not null", "assertEquals(1, split(3));", "assertNotNull(split(3));", "weaker-assert"),
    java("java: a weaker chain", ".isEqualTo(2)", ".isNotNull()", "weaker-assert"),
    java("java: another value", "assertEquals(1, split(3));", "assertEquals(2, split(3));", "changed-expectation"),
    java("java: a row less", ', "4,2"', "", "dropped-assert"),
    java("java: a silent catch", "assertEquals(1, split(3));", "try { assertEquals(1, split(3)); } catch (Exception e) { }", "dropped-assert", "swallowed-exception"),
    Row("kotlin: ignored", KOTLIN, KOTLIN.replace("@Test", "@Test @Ignore"), ("skipped-test",), "src/test/kotlin/MoneyTest.kt"),
    Row("kotlin: dropped", KOTLIN, KOTLIN.replace("assertEquals(1, split(3))", "split(3)"), ("dropped-assert",), "src/test/kotlin/MoneyTest.kt"),
    bats("bats: skip", "run split 3", "skip\n      run split 3", "skipped-test"),
    bats("bats: a test is removed", '@test "refuses" {', "refuses() {", "removed-test"),
    bats("bats: a line is dropped", '      [ "$output" = "1" ]\n', "", "dropped-assert"),
    bats("bats: a pattern", '[ "$output" = "1" ]', '[[ "$output" =~ 1 ]]', "weaker-assert"),
    bats("bats: another value", '[ "$output" = "1" ]', '[ "$output" = "2" ]', "changed-expectation"),
    bats("bats: or true", '[ "$output" = "1" ]', '[ "$output" = "1" ] || true', "swallowed-exception", "weaker-assert"),
    shell("shell: or true", '[ "$out" = "1" ] || exit 1', '[ "$out" = "1" ] || true', "swallowed-exception", "weaker-assert"),
    shell("shell: set +e", "echo ok", "set +e\necho ok", "swallowed-exception"),
    shell("shell: no set -e", "set -eu\n", "", "swallowed-exception"),
    shell("shell: exit 0 at the top", "out=$(./split 3)", "exit 0\n    out=$(./split 3)", "dropped-assert", "skipped-test"),
    Row("shell: the script goes", SHELL, None, ("removed-test",), "tests/test_money.sh"),
]  # fmt: skip

HONEST = [
    js("js: a set-up", "it('splits'", "beforeEach(function () { reset(); });\n      it('splits'"),
    js("js: a name that is no set-up", "it('splits'", "const before = list.map((one) => { return one.abort(); });\n      it('splits'"),
    go("go: a main function that runs the tests", "func TestTable", "func TestMain(m *testing.M) { start(); os.Exit(m.Run()) }\n\n    func TestTable"),
    bats("bats: a set-up", '@test "refuses" {', 'setup() {\n      cd "$BATS_TMPDIR"\n    }\n\n    @test "refuses" {'),
    js("js: a test is added", "test('leaves", "it('adds', () => { expect(split(6)).toBe(2); });\n      test('leaves"),
    js("js: another layout", "it('splits', () => {", 'it("splits", function () {'),
    js("js: other quotes and no semicolons", "expect(split(3)).toBe(1);", "expect(\n  split(3),\n).toBe(1)"),
    js("js: a test is renamed", "'splits'", "'splits three coins'"),
    js("js: the group is renamed", "'money'", "'money, whole'"),
    js("js: stricter", "toBeCloseTo(0.5, 5)", "toBeCloseTo(0.5, 7)"),
    js("js: skip in a text and a comment", "const rest", "// it.skip('x')\n        log('it.skip(');\n        const rest"),
    js("js: a name for the result", "expect(split(3)).toBe(1);", "const got = split(3);\n        expect(got).toBe(1);"),
    js("js: a row more", "[4, 2]]", "[4, 2], [5, 1]]", of=EACH),
    Row("js: an error is told", "f();", "try { f(); } catch (e) { report(e); throw e; }", (), "src/a.js"),
    Row("js: a regular expression is no comment", "f();", "const r = /'|\"|`|\\/\\//; f(); /* eslint */", (), "src/a.js"),
    Row("js: a new file", None, JS, (), "src/other.test.ts"),
    go("go: a row more", "{4, 2},", "{4, 2},\n            {5, 1},"),
    go("go: another message", '"got %d"', '"split gave %d"'),
    go("go: a test is added", "func TestTable", "func TestMore(t *testing.T) {\n        assert.Equal(t, 5, Split(15))\n    }\n\n    func TestTable"),
    rust("rust: code changes", "{ n / 3 }", "{ n.div_ceil(3) }"),
    rust("rust: a test is added", "#[test]\n        fn splits", "#[test]\n        fn more() { assert_eq!(split(6), 2); }\n\n        #[test]\n        fn splits"),
    rust("rust: lifetimes are no texts", "pub fn split", "pub fn first<'a>(x: &'a str) -> &'a str { x }\n    pub fn split"),
    java("java: a test is added", "@Test\n        void refuses", "@Test\n        void more() { assertEquals(2, split(6)); }\n\n        @Test\n        void refuses"),
    java("java: stricter", ".isEqualTo(2)", ".isNotNull().isEqualTo(2)"),
    Row("java: a narrow error", "class A { void f() { g(); } }", "class A { void f() { try { g(); } catch (IOException e) { } } }", (), "src/main/java/A.java"),
    Row("kotlin: a message", KOTLIN, KOTLIN.replace("split(3))", 'split(3), "three")'), (), "src/test/kotlin/MoneyTest.kt"),
    bats("bats: a test is added", '@test "refuses" {', '@test "more" {\n      run split 6\n      [ "$output" = "2" ]\n    }\n\n    @test "refuses" {'),
    bats("bats: stricter", '[ "$status" -ne 0 ]', '[ "$status" -eq 2 ]'),
    shell("shell: one more", "echo ok", '[ "$(./split 6)" = "2" ] || exit 1\n    echo ok'),
    shell("shell: or true in a text", "echo ok", 'echo "never use || true"  # nor exit 0'),
    Row("shell: a shipped script searches", "echo a\n", "n=$(grep -c a file || true)\n", (), "bin/count.sh"),
]  # fmt: skip


@pytest.mark.parametrize("row", WEAKER, ids=lambda row: row.what)
def test_what_says_less_is_named_by_its_rule(row: Row) -> None:
    assert rules(altered(row.path, row.old, row.new)) == sorted(row.rules)


@pytest.mark.parametrize("row", HONEST, ids=lambda row: row.what)
def test_what_says_as_much_or_more_is_let_pass(row: Row) -> None:
    assert rules(altered(row.path, row.old, row.new)) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "names"),
    [
        ("a.test.js", JS, JS.replace("test('leaves", "it('adds', () => { expect(1).toBe(f()); });\ntest('leaves"), ("money > adds",)),
        ("a_test.go", GO, GO + "\nfunc TestNew(t *testing.T) {\n t.Fatal(1)\n}\n", ("TestNew",)),
        ("src/a.rs", RUST, RUST.replace("fn splits", "fn news() { assert!(f()); }\n#[test]\nfn splits"), ("tests.news",)),
        ("ATest.java", JAVA, JAVA.replace("void refuses", "void news() { assertTrue(f()); }\n@Test\nvoid refuses"), ("MoneyTest.news",)),
        ("tests/test_a.sh", "[ $(f 1) = 2 ]\n", "[ $(f 1) = 2 ]\n[ $(f 2) = 3 ]\n", ("test_a.sh",)),
        ("a.bats", BATS, BATS + '\n@test "new" {\n  [ 1 -eq 2 ]\n}\n', ("new",)),
    ],
)  # fmt: skip
def test_tests_that_are_new_are_named(path: str, old: str, new: str, names: tuple[str, ...]) -> None:
    assert added_tests([altered(path, old, new)]) == tuple(f"{path}::{name}" for name in names)


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py", "test_a.py", "pkg/a_test.py", "conftest.py", "a_test.go", "src/a.spec.ts", "src/__tests__/a.js",
        "src/test/java/A.java", "AccountTest.java", "spec/a_spec.rb", "a.bats", "tests/fixtures/a.json", "app/tests.py",
        "web/a.test.tsx", "src/tests.rs", "test/run.sh", "src/__snapshots__/a.snap", "scripts/test_all.sh", "A_spec.rb",
    ],
)  # fmt: skip
def test_a_path_of_a_test(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py", "testing/stage.py", "src/contest.py", "latest.js", "src/attest.go", "spec/openapi.yaml", "README.md",
        "src/main/java/Contest.java", "protest.rs", "src/testimony.ts", "",
    ],
)  # fmt: skip
def test_a_path_of_no_test(path: str) -> None:
    assert not is_test(path)
