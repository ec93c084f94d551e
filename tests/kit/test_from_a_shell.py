"""The scripted model as a program of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.kit.real import Program, program

from resolvent.testing.model import ScriptedModel

START = [sys.executable, "-m", "resolvent.testing.model"]


async def test_a_script_is_served_until_it_is_asked_to_end(tmp_path: Path) -> None:
    program("codex")
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps({"default": [{"bash": "echo hi > a"}, {"text": "From a shell."}]}))
    with subprocess.Popen([*START, "--script", script, "--log", log], stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            url = json.loads(served.stdout.readline())["url"]
            with ScriptedModel([{"text": "another one"}]) as here:
                agent = Program.at(tmp_path, "codex", here)
                argv, config = agent.argv(), agent.home / "config.toml"
                config.write_text(config.read_text().replace(here.url, url))
                started = await agent.start("Go.", argv)
                printed, _ = await started.communicate()
            assert b"From a shell." in printed
        finally:
            served.send_signal(signal.SIGTERM)
    assert served.returncode == 0
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [0, 1]


def test_a_script_that_makes_no_sense_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    for text, wrong in (("{", "is no JSON"), ('[{"txet": 1}]', "scenario default, step 0: a step knows no txet")):
        script.write_text(text)
        ended = subprocess.run([*START, "--script", script], capture_output=True, text=True, check=False)
        assert (ended.returncode, wrong in ended.stderr) == (2, True), ended.stderr
    ended = subprocess.run(START, capture_output=True, text=True, check=False)
    assert (ended.returncode, "either a script or the demo" in ended.stderr) == (2, True)
