"""Secrets of a job are blotted out of all that its supervisor writes down."""

import base64
import json
import re
import resource
import signal
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resolvent.adapters.jobs.blotting import MARK, Blotter, forms
from resolvent.adapters.jobs.output import Output
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import Job

SECRET = 'sk-planted-"0123456789"/ü+XYZ='


@pytest.fixture
def jobs(tmp_path: Path) -> SupervisedJobs:
    return SupervisedJobs(tmp_path / "jobs")


def spelt() -> list[str]:
    """The secret as programs print it."""
    coded = SECRET.encode()
    return [
        SECRET,
        json.dumps({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False).replace("/", "\\/"),
        urllib.parse.quote(SECRET),
        urllib.parse.quote(SECRET, safe=""),
        *(base64.b64encode(before + coded + b":after").decode() for before in (b"", b"u", b"us", b"use")),
        base64.urlsafe_b64encode(b"user:" + coded).decode(),
    ]


@pytest.mark.parametrize("said", spelt())
def test_a_secret_is_found_however_it_is_spelt(said: str) -> None:
    shown = Blotter((SECRET,)).whole(f"before {said} after")
    assert "[redacted]" in shown and shown.startswith("before ") and shown.endswith(" after")
    inner = max(re.findall(r"[\w+/=%-]{6,}", said), key=len)
    assert inner not in shown


@pytest.mark.spec("B18")
@pytest.mark.parametrize("streams", ["merged", "apart"])
async def test_neither_output_nor_errors_hold_a_secret(jobs: SupervisedJobs, tmp_path: Path, streams: str) -> None:
    script = 'printf "1 %s 2\\n" "$KEY"; printf "3 %s 4\\n" "$KEY" >&2; printf %s "$KEY" | base64 -w 0'
    job = Job(
        id="job",
        argv=("/bin/sh", "-c", script),
        cwd=str(tmp_path),
        environment={"KEY": SECRET, "PATH": "/usr/bin:/bin"},
        secrets=(SECRET,),
        streams=streams,  # type: ignore[arg-type]
    )
    assert (await jobs.ensure(job)).exit == 0
    said = jobs.output("job").read_text()
    if streams == "apart":
        said += (tmp_path / "jobs/job/errors").read_text()
    assert said.count("[redacted]") == 3 and "1 [redacted] 2\n" in said and "3 [redacted] 4\n" in said
    for file in filter(Path.is_file, (tmp_path / "jobs/job").iterdir()):
        assert not any(form in file.read_bytes() for form in forms(SECRET)), file


async def test_the_message_of_an_exit_holds_no_secret(jobs: SupervisedJobs, tmp_path: Path) -> None:
    plain = "sk-planted-0123456789"
    job = Job(id="job", argv=(f"/nowhere/{plain}/program",), cwd=str(tmp_path), secrets=(plain,))
    exit = await jobs.ensure(job)
    assert exit.ending == "unstartable" and "/nowhere/[redacted]/program" in exit.message
    assert plain not in (tmp_path / "jobs/job/exit.json").read_text()


async def test_what_crashes_leaves_no_image_of_its_memory(jobs: SupervisedJobs, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        about = {"cwd": str(tmp_path), "environment": {"KEY": "sk-planted-0123456789"}}
        exit = await jobs.ensure(Job(id="job", argv=("/bin/sh", "-c", "ulimit -c; kill -SEGV $$"), **about))
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert exit.exit == 128 + signal.SIGSEGV and jobs.output("job").read_text().split()[0] == "0"
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == []


async def test_short_values_are_left_alone_and_without_secrets_nothing_is_touched(
    jobs: SupervisedJobs, tmp_path: Path
) -> None:
    for name, secrets in (("short", ("secret",)), ("none", ())):
        job = Job(id=name, argv=("/bin/echo", "a secret"), cwd=str(tmp_path), secrets=secrets)
        await jobs.ensure(job)
        assert jobs.output(name).read_text() == "a secret\n"


@pytest.mark.spec("B18")
def test_a_secret_in_pieces_is_held_back_and_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = Output(("output",), 1000, ("a-long-secret",))
    (source,), (end,) = output.files, output.ends
    shown = []
    for piece in (b"line\na-lo", b"ng-sec", b"ret\na-l", b"ine\na-long"):
        with open(end, "wb", closefd=False) as pipe:
            pipe.write(piece)
        assert output.take(source)
        shown.append((tmp_path / "output").read_bytes())
    assert shown == [b"line\n", b"line\n", b"line\n[redacted]\n", b"line\n[redacted]\na-line\n"]
    # Its writer goes on for ever, and what was held back was no secret after all.
    output.settle()
    assert (tmp_path / "output").read_bytes() == b"line\n[redacted]\na-line\na-long"


ALPHABET = st.sampled_from("ab/")
SECRETS = st.lists(st.text(ALPHABET, min_size=8, max_size=14), min_size=1, max_size=3)


@settings(max_examples=50, deadline=None)
@given(secrets=SECRETS, draw=st.data())
def test_pieces_of_any_size_are_blotted_like_the_whole(secrets: list[str], draw: st.DataObject) -> None:
    # In this order an expression takes the longest of those that begin at the same place.
    every = sorted({form for secret in secrets for form in forms(secret)}, key=lambda form: (-len(form), form))
    part = st.one_of(st.sampled_from(every), st.binary(max_size=4), st.text(ALPHABET, max_size=9).map(str.encode))
    said = b"".join(draw.draw(st.lists(part, max_size=12)))
    sizes = draw.draw(st.lists(st.integers(1, 9), min_size=1, max_size=9))
    blotter, shown, at, turn = Blotter(tuple(secrets)), b"", 0, 0
    while at < len(said):
        size = sizes[turn % len(sizes)]
        shown += blotter.take(said[at : at + size])
        at, turn = at + size, turn + 1
    shown += blotter.take(b"", last=True)
    assert shown == re.sub(b"|".join(map(re.escape, every)), MARK, said)
