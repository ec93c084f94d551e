"""Whether a check executed a watched line: in real boxes, with the interpreters of this machine."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.boxed import emptied_later
from tests.contract.reaching_stage import Lines, Watching
from tests.obstacles import PERSON

ROOT = Path(__file__).parents[2]
CALLERS = ("root", "person") if os.geteuid() == 0 else ("person",)
PLAYED = "and so it was"

APP = '''\
"""A module."""
import sys


def double(
    number,
    by=2,
):
    """Twice as much."""
    if number < 0:
        # Refused.
        raise ValueError("negative")
    elif number == 1000:
        pass
    return (
        number
        * by
    )


def other():
    return 1


try:
    LIMIT = int("3")
except ValueError:
    LIMIT = 0
else:
    LIMIT += 1

if __name__ == "__main__":
    print(double(int(sys.argv[1])))
'''
LIB = """\
"use strict";
// A note.
function add(a, b) {
  if (a < 0) {
    throw new Error("negative \u20ac \U0001f600");
  }
  const inner = (x) => {
    return x + 1;
  };
  return a
    + b;
}

function other() {
  return 1;
}

module.exports = { add, other };
"""
SCRIPT = """\
#!/bin/bash
set -eu

greet() {
    local name=$1
    if [ "$name" = nobody ]; then
        echo "no one" \\
            at all
        return 3
    fi
    echo "hello $name"
}

unused() {
    echo unused
}

greet "$@"
echo "last word: $_"
"""
FILES = {
    "app.py": APP,
    "pkg/__init__.py": "",
    "pkg/deep.py": "def far():\n    return 5\n\n\ndef near():\n    return 6\n",
    "lib.js": LIB,
    "lib.mjs": "export function add(a, b) {\n  return a + b;\n}\nexport function other() {\n  return 1;\n}\n",
    "greet.bash": SCRIPT,
    "greet.sh": "#!/bin/sh\ngreet() {\n    echo hello\n}\ngreet\n",
    "tool.pl": "print 1;\n",
    "README.md": "# Read me\n",
    "old.py": "print 'for another Python'\n",
    "sitecustomize.py": "import sys\nsys.own_site = True\n",
}
RETURN, RAISE = {"app.py": (16,)}, {"app.py": (12,)}

node = pytest.mark.skipif(shutil.which("node", path=os.defpath) is None, reason="no node on this machine")
bash = pytest.mark.skipif(shutil.which("bash", path=os.defpath) is None, reason="no bash on this machine")
perl = pytest.mark.skipif(shutil.which("perl", path=os.defpath) is None, reason="no perl on this machine")


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncIterator[Watching]:
    made = await Watching.set_up(tmp_path, FILES)
    yield made
    await made.close()


async def play(directory: Path, rung: str) -> None:
    """One line that is reached and one that is not, in each language this machine has."""
    watching = await Watching.set_up(directory, FILES, f'sandbox.rung="{rung}"')
    for path, hit, missed, command in (
        ("app.py", 16, 12, "python3 app.py 2"),
        ("greet.bash", 11, 15, "bash greet.bash you"),
        ("lib.js", 10, 5, "node -p 'require(\"./lib.js\").add(1, 2)'"),
    ):
        if shutil.which(command.split()[0], path=os.defpath):
            assert await watching.reached(command, {path: (hit,)}) == "yes", command
            assert await watching.reached(command, {path: (missed,)}) == "no", command
    await watching.close()


# Behind landlock root's jobs see the paths of the host, and nobody else enters root's directories.
PLAYS = [(who, rung) for who in CALLERS for rung in ("overlay", "copy", "landlock", "plain")]


@pytest.mark.parametrize(("caller", "rung"), [one for one in PLAYS if one != ("root", "landlock")])
def test_a_line_is_reached_or_not_on_every_rung_for_everybody(caller: str, rung: str) -> None:
    with emptied_later() as directory:
        if caller == "person" and os.geteuid() == 0:
            os.chown(directory, PERSON, PERSON)
        become = (sys.executable, ROOT / "tests/obstacles.py", "person", "--") if caller == "person" else ()
        told = subprocess.run(
            [*become, sys.executable, "-m", __name__, directory, rung],
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (told.stdout, told.returncode) == (PLAYED, 0), told.stderr


PYTHON = {
    "python3 app.py 2": "yes",
    "python3 ./app.py 2": "yes",
    "cd pkg && python3 ../app.py 2": "yes",
    "python3 -m app 2": "yes",
    "python3 -c 'import app; app.double(1)'": "yes",
    "PYTHONPATH=pkg:. python3 -c 'import app; app.double(1)'": "yes",
    "mkdir $TMPDIR/d && cp app.py $TMPDIR/d && python3 $TMPDIR/d/app.py 1": "yes",
    'python3 -c \'import app, runpy; runpy.run_path("app.py")["double"](3)\'': "yes",
    "python3 -c 'import app'": "no",
    "python3 - << END\nimport app\ndef double(): pass\nEND": "no",
    "python3 app.py -1": "no",
    "python3 - 2 < app.py": "unknown",
    "python3 -c 'exec(open(\"app.py\").read()); double(2)'": "unknown",
    "python3 -I app.py 2": "unknown",
    "python3 -S app.py 2": "unknown",
    "python3 -c pass; env -i /usr/bin/python3 app.py 2": "unknown",
    "python3 -c pass; python3 -sE app.py 2": "unknown",
    "sed -i s/2,/3,/ app.py; python3 app.py 2": "unknown",
    "true": "unknown",
}


async def test_however_python_is_started(watching: Watching) -> None:
    expected = {(command, (16,)): reached for command, reached in PYTHON.items()}
    assert await watching.all_reached("app.py", expected) == expected


TEST = """\
import unittest, app
class Doubling(unittest.TestCase):
    def test_it(self):
        self.assertEqual(app.double(2), 4)
    def test_refusal(self):
        self.assertRaises(ValueError, app.double, -1)
"""


async def test_tests_of_unittest_are_watched_one_by_one(watching: Watching) -> None:
    run, files = "python3 -m unittest -q test_app.Doubling.", {"test_app.py": TEST}
    assert await watching.reached(f"{run}test_it", RETURN, files=files) == "yes"
    assert await watching.reached(f"{run}test_it", RAISE, files=files) == "no"
    assert await watching.reached(f"{run}test_refusal", RAISE, files=files) == "yes"


async def test_tests_of_pytest_are_watched_though_it_rewrites_them(tmp_path: Path) -> None:
    reads = ", ".join(f'"{place}"' for place in dict.fromkeys((sys.prefix, sys.base_prefix)))
    watching = await Watching.set_up(tmp_path, FILES | {"test_app.py": TEST}, f"sandbox.reads=[{reads}]")
    run = f"{sys.executable} -m pytest -q -p no:cacheprovider test_app.py -k"
    for name, watch, reached in (
        ("test_it", RETURN, "yes"),
        ("test_it", RAISE, "no"),
        ("test_refusal", RAISE, "yes"),
        ("test_it", {"test_app.py": (4,)}, "yes"),
        ("test_it", {"test_app.py": (6,)}, "no"),
    ):
        evidence = await watching.check(f"{run} {name}", watch)
        assert (evidence.exit, evidence.reached) == (0, reached), evidence.tail
    await watching.close()


STARTS = {
    "a subprocess": "import subprocess, sys; subprocess.run([sys.executable, 'app.py', '{}'])",
    "a thread": "import threading, app; t = threading.Thread(target=app.double, args=({},)); t.start(); t.join()",
    "a pool": "import app\nfrom concurrent.futures import ThreadPoolExecutor as P\nP().submit(app.double, {})",
    "a fork": "import os, app; os.fork() or app.double({}) or os._exit(0)",
    "a fork that exits at once": "import os, app\nif not os.fork(): app.double({}); os._exit(0)\nos.wait()",
    "a spawned process": "import multiprocessing as m, app\nif __name__ == '__main__':\n"
    "    p = m.get_context('spawn').Process(target=app.double, args=({},)); p.start(); p.join()",
    "an exit without cleaning up": "import os, app\ntry: app.double({})\nfinally: os._exit(4)",
    "a death": "import os, app\ntry: app.double({})\nfinally: os.kill(os.getpid(), 9)",
}


async def test_wherever_in_python_it_happens(watching: Watching) -> None:
    for way, program in STARTS.items():
        for number, reached in ((2, "yes"), (-2, "no")):
            files = {"way.py": program.format(number)}
            assert await watching.reached("python3 way.py", RETURN, files=files) == reached, (way, number)


ESCAPES = (
    "import subprocess, sys; subprocess.run([sys.executable, 'app.py', '2'], env={'HOME': '/'})",
    "import subprocess, sys; subprocess.run([sys.executable, '-I', 'app.py', '2'])",
    "import os, sys; os.execve(sys.executable, ['python3', 'app.py', '2'], {})",
    "import sys; sys.settrace(lambda *_: None); import app; app.double(2)",
    "import app, sys; sys.settrace(None); app.double(2)",
    "import threading\ngo, came = threading.Event(), threading.Event()\n"
    "def work():\n    go.wait(); app.double(2); came.set()\n"
    "threading.Thread(target=work).start()\nimport app\ngo.set(); came.wait()",
)


async def test_what_escapes_a_tracer_is_never_told_as_not_reached(watching: Watching) -> None:
    for program in ESCAPES:
        assert await watching.reached("python3 way.py", RETURN, files={"way.py": program}) != "no", program


STATEMENTS: dict[tuple[int, ...], str] = {
    (16,): "yes",
    (17,): "yes",
    (7,): "yes",
    (5, 6, 7, 8): "yes",
    (28,): "no",
    (12,): "no",
    (11, 12): "no",
    (22,): "no",
    (30,): "yes",
    (1,): "unknown",
    (3, 4): "unknown",
    (9,): "unknown",
    (11,): "unknown",
    (14,): "unknown",
    (25,): "unknown",
    (29,): "unknown",
    (99,): "unknown",
    (): "unknown",
}


async def test_a_line_counts_by_the_statement_it_is_of(watching: Watching) -> None:
    expected = {("python3 app.py 2", lines): reached for lines, reached in STATEMENTS.items()}
    assert await watching.all_reached("app.py", expected) == expected


TOGETHER: tuple[tuple[Lines, str], ...] = (
    ({"app.py": (12,), "README.md": (1,)}, "no"),
    ({"README.md": (1,)}, "unknown"),
    ({"app.py": (12,), "pkg/deep.py": (2,)}, "no"),
    ({"app.py": (12,), "tool.pl": (1,)}, "unknown"),
    ({"app.py": (16,), "tool.pl": (1,)}, "yes"),
    ({"app.py": (12,), "old.py": (1,)}, "unknown"),
    ({"app.py": (12,), "gone.py": (1,)}, "unknown"),
    ({"app.py": (12,), "pkg": (1,)}, "unknown"),
    ({"app.py": (12,), "greet.sh": (3,)}, "unknown"),
)


async def test_one_line_is_enough_and_one_doubt_too(watching: Watching) -> None:
    for watch, reached in TOGETHER:
        assert await watching.reached("python3 app.py 2", watch) == reached, watch


NODE = {
    ("node -e 'require(\"./lib.js\").add(1, 2)'", (10,)): "yes",
    ("node -e 'require(\"./lib.js\").add(1, 2)'", (11,)): "yes",
    ("node -e 'require(\"./lib.js\").add(1, 2)'", (5,)): "no",
    ("node -e 'require(\"./lib.js\").add(1, 2)'", (8,)): "no",
    ("node -e 'require(\"./lib.js\").add(1, 2)'", (3,)): "yes",
    ("node -e 'require(\"./lib.js\").other(); process.exit(3)'", (15,)): "yes",
    ("node -e 'require(\"./lib.js\").add(-1, 2)'", (5,)): "yes",
    ("node -e '1'", (10,)): "no",
    ("node -e 'require(\"./lib.js\").add(1, 2)'", (2, 6, 12)): "unknown",
    ("node -e 'require(\"child_process\").execSync(`kill -9 ${process.pid}`)'", (10,)): "unknown",
    ("node -e 1; node -e 'require(\"child_process\").execSync(`kill -9 ${process.pid}`)'", (10,)): "unknown",
    ("true", (10,)): "unknown",
}


@node
async def test_node_is_watched_by_its_own_coverage(watching: Watching) -> None:
    assert await watching.all_reached("lib.js", NODE) == NODE


@node
async def test_modules_of_node_are_watched(watching: Watching) -> None:
    files = {"use.mjs": 'import { add } from "./lib.mjs";\nadd(1, 2);\n'}
    assert await watching.reached("node use.mjs", {"lib.mjs": (2,)}, files=files) == "yes"
    assert await watching.reached("node use.mjs", {"lib.mjs": (5,)}, files=files) == "no"
    started = {"start.mjs": 'import { spawnSync } from "child_process";\nspawnSync(process.execPath, ["use.mjs"]);\n'}
    assert await watching.reached("node start.mjs", {"lib.mjs": (2,)}, files=files | started) == "yes"


BASH = {
    ("bash greet.bash you", (11,)): "yes",
    ("chmod +x greet.bash; ./greet.bash you", (11,)): "yes",
    ("bash -c 'cd pkg; . ../greet.bash you'", (11,)): "yes",
    ("bash greet.bash nobody", (8,)): "yes",
    ("bash greet.bash you", (8,)): "unknown",
    ("bash greet.bash you", (15,)): "no",
    ("bash greet.bash you", (14, 15, 16)): "no",
    ("bash greet.bash you", (3, 16)): "unknown",
    ("bash -c true", (15,)): "unknown",
    ("sh greet.bash you", (15,)): "unknown",
}


@bash
async def test_bash_is_watched_by_its_commands(watching: Watching) -> None:
    assert await watching.all_reached("greet.bash", BASH) == BASH


async def test_a_shell_that_tells_nothing_is_unknown(watching: Watching) -> None:
    assert await watching.reached("sh greet.sh", {"greet.sh": (3,)}) == "unknown"


@perl
async def test_a_language_nobody_traces_is_unknown(watching: Watching) -> None:
    assert await watching.reached("perl tool.pl", {"tool.pl": (1,)}) == "unknown"


async def test_a_check_that_was_stopped_has_not_said_that_it_would_not_come_there(watching: Watching) -> None:
    stuck = "import app, threading\nthreading.Event().wait()\n"
    stopped = await watching.check("python3 way.py", RETURN, files={"way.py": stuck}, wall_s=1.5)
    assert (stopped.execution, stopped.reached) == ("BROKEN", "unknown")
    reached = "import app, threading\napp.double(2)\nthreading.Event().wait()\n"
    stopped = await watching.check("python3 way.py", RETURN, files={"way.py": reached}, wall_s=1.5)
    assert (stopped.execution, stopped.reached) == ("BROKEN", "yes")


SHOWS = """\
import os, sys, threading, traceback
print(sys.path, sys.flags, sorted(set(sys.argv)), sys.gettrace(), sys.own_site, sys.executable, os.getcwd())
print(sorted(os.listdir(os.environ["HOME"])), sorted(os.listdir(".")))
import app
print(app.double(3), threading.active_count(), threading.gettrace() if hasattr(threading, "gettrace") else None)
def deep(n): return deep(n + 1)
try: deep(0)
except RecursionError as error: print(len(traceback.extract_tb(error.__traceback__)) > 100)
app.double(-1)
"""
BASH_SHOWS = """\
set -u
source ./greet.bash you
echo "$? $# $_ ${PIPESTATUS[*]} $LINENO ${FUNCNAME-none}"
false | true; echo "${PIPESTATUS[*]}"
set -x; echo traced "$_"; set +x
x=$(greet me; echo "$BASH_SUBSHELL"); echo "$x"
trap 'echo failed $?' ERR; trap 'echo over $?' EXIT
( exit 4 )
ls /nowhere
"""
NODE_SHOWS = "console.log(process.argv, process.execArgv, require('./lib.js').add(1, 2)); require('./lib.js').add(-1)"


SAME: tuple[tuple[str, Lines], ...] = (
    ("python3 shows.py 1", RETURN),
    ("python3 shows.py 1", {"app.py": (22,)}),
    ("PYTHONPATH=pkg:${PYTHONPATH-} python3 shows.py 1", RETURN),
    ("python3 -c 'import app; app.double(-1)'", RETURN),
    ("python3 nothing.py", RETURN),
    ("python3 -m unittest -q nothing 2>&1 | sed /^Ran/d", RETURN),
    ("python3 -c 'import os; os.abort()'", RETURN),
    ("bash shows.bash", {"greet.bash": (11,)}),
    ("bash shows.bash", {"greet.bash": (15,)}),
    ("bash -x greet.bash you", {"greet.bash": (15,)}),
    ("node shows.js", {"lib.js": (10,)}),
    ("node shows.js 2>&1 >/dev/null", {"lib.js": (5,)}),
)


async def test_nobody_can_tell_from_the_evidence_whether_it_was_watched(watching: Watching) -> None:
    files = {"shows.py": SHOWS, "shows.bash": BASH_SHOWS, "shows.js": NODE_SHOWS}
    for command, watch in SAME:
        seen, unseen = await watching.check(command, watch, files=files), await watching.check(command, files=files)
        assert (seen.tail, seen.exit) == (unseen.tail, unseen.exit), command
        assert (seen.digest, seen.signature, seen.execution) == (unseen.digest, unseen.signature, unseen.execution)
        assert (seen.reached in ("yes", "no") or unseen.exit in (2, 127), unseen.reached) == (True, ""), command


REACH = '"$(dirname "$HOME")/reach"'
HOSTILE = {
    "removed": f"rm -rf {REACH}",
    "a link in its place": f"rm -rf {REACH}; ln -s /etc {REACH}",
    "a file in its place": f"rm -rf {REACH}; echo > {REACH}",
    "a link to itself": f"rm -rf {REACH}/seen; ln -s seen {REACH}/seen",
    "pipes": f"mkfifo {REACH}/node/coverage-1-1-1.json {REACH}/seen/python.hit.no",
    "links": f"ln -s /dev/zero {REACH}/node/coverage-1-1-1.json; ln -s / {REACH}/node/x",
    "garbage": f"head -c 100000 /dev/urandom > {REACH}/node/a; echo '{{\"result\": [1, {{}}]}}' > {REACH}/node/b",
    "deep": f"python3 -c 'print(\"[\" * 1000000)' > {REACH}/node/deep",
    "wrong kinds": f"echo '{{\"result\": [{{\"url\": \"file:///workspace/lib.js\", \"functions\": "
    f"[{{\"ranges\": [{{\"startOffset\": 1e9, \"endOffset\": null, \"count\": \"1\"}}, 3]}}, 4]}}]}}' > {REACH}/node/c",
    "large": f"truncate -s 8G {REACH}/node/large",
    "many": f"cd {REACH}/node; i=0; while [ $i -lt 1000 ]; do : > $i; i=$((i+1)); done",
    "closed": f"chmod 0 {REACH}/seen {REACH}/node {REACH}",
}  # fmt: skip


async def test_what_a_check_leaves_for_us_is_only_looked_at(watching: Watching) -> None:
    watch = {"app.py": (16,), "lib.js": (10,), "greet.bash": (11,)}
    for what, command in HOSTILE.items():
        evidence = await watching.check(command, watch)
        assert (evidence.exit, evidence.reached) == (0, "unknown"), (what, evidence.tail)


async def test_an_ask_without_lines_lays_nothing_and_says_nothing(watching: Watching) -> None:
    evidence = await watching.check('test ! -e "$HOME/../reach" && test -z "${PYTHONPATH-}${BASH_ENV-}"')
    assert (evidence.exit, evidence.reached) == (0, "")


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), sys.argv[2]))
    sys.stdout.write(PLAYED)
