"""Importing does nothing, and the front door is quick."""

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.architecture import source

# Watches every write, process, connection, and reading of the environment that our own files do at import.
WATCH = """
import importlib, json, os, sys, sysconfig
package, names, done = sys.argv[1], sys.argv[2].split(), []
standard = sysconfig.get_path("stdlib")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ACTS = {"os.mkdir", "os.remove", "os.rename", "os.chmod", "os.chdir", "os.putenv", "os.fork", "os.forkpty", "os.system",
        "os.posix_spawn", "subprocess.Popen", "socket.connect", "socket.bind", "sqlite3.connect"}

def ours():
    # What the standard library does belongs to who called it; other libraries are not ours to judge.
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(package):
            return True
        if not file.startswith(("<", standard)) or "-packages" in file:
            return False
        frame = frame.f_back
    return False

def watch(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING
    if (writes or event in ACTS) and ours():
        done.append(f"{event} {args!r}")

def spy(method):
    real = getattr(os._Environ, method)
    def spied(self, *args):
        if ours():
            done.append(f"environment {args!r}")
        return real(self, *args)
    setattr(os._Environ, method, spied)

sys.addaudithook(watch)
for method in ("__getitem__", "__iter__"):
    spy(method)
for name in names:
    importlib.import_module(name)
print(json.dumps(done))
"""


def dotted(path: Path) -> str:
    parts = path.relative_to(source.PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run(code: str, *args: str, home: Path) -> str:
    environ = {"HOME": str(home), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    ended = subprocess.run(command, check=False, env=environ, cwd=home, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.spec("C12")
def test_importing_every_module_does_nothing(tmp_path: Path) -> None:
    names = [dotted(path) for path in source.modules() if path.name != "__main__.py"]
    told = run(WATCH, str(source.PACKAGE), " ".join(names), home=tmp_path)
    assert json.loads(told.splitlines()[-1]) == []
    assert told.count("\n") == 1, "an import printed something"
    assert list(tmp_path.iterdir()) == []


def test_the_watch_sees_what_an_import_must_not_do(tmp_path: Path) -> None:
    (tmp_path / "loud").mkdir()
    acts = "os.environ.get('X'); os.getenv('Y'); 'Z' in os.environ; pathlib.Path('made').write_text(''); os.mkdir('d')"
    (tmp_path / "loud/__init__.py").write_text(f"import os, pathlib; {acts}; os.system('true')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WATCH}"
    told = json.loads(run(code, str(tmp_path / "loud"), "loud", home=tmp_path))
    assert [line.split()[0] for line in told] == [*["environment"] * 3, "open", "os.mkdir", "os.system"]


@pytest.mark.spec("K6")
def test_the_front_door_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import resolvent.cli.main, sys; print(*sys.modules)"
    heavy = {"dbos", "sqlalchemy", "pydantic", "rich", "asyncio", "psycopg", "jinja2"}
    assert heavy & set(run(code, home=tmp_path).split()) == set()


def test_the_durable_execution_library_stands_in_one_module() -> None:
    found = set()
    for path in source.modules():
        for node in ast.walk(source.tree(path)):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(one.split(".")[0] == "dbos" for one in named):
                found.add(source.name(path))
    assert found == {"src/resolvent/engine/durable.py"}


@pytest.mark.spec("G1")
def test_domain_modules_know_pydantic_and_the_standard_library_only(tmp_path: Path) -> None:
    allowed = {"resolvent", "pydantic", "pydantic_core", *sys.stdlib_module_names}
    impure = {"os", "time", "datetime", "random", "asyncio", "subprocess", "socket", "sqlite3", "pathlib", "uuid"}
    for path in sorted((source.PACKAGE / "domain").glob("*.py")):
        for node in ast.walk(source.tree(path)):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for one in named:
                top = one.split(".")[0]
                assert top in allowed - impure, f"{source.name(path)} imports {one}"
                assert top != "resolvent" or one.startswith(("resolvent.domain", "resolvent.errors")), one
