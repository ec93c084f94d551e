"""The session in the guide is what really happens when somebody types it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .place import Place

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "branch-server.md"
CHANGING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(?:-[0-9a-f]{20})?", "ID"),
    (r"explore-[0-9a-f]{8}-[0-9a-f]{8}", "NAME"),
    (r'(?<="display_name": ")[^"]*', "DISPLAY"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    (r"(?<=index )[0-9a-f]+\.\.[0-9a-f]+", "BLOBS"),
)


def normal(text: str) -> str:
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text)
    return text.strip()


def told(text: str) -> list[tuple[str, str]]:
    """Every command of the guide's console blocks with what it says it prints."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def typed(place: Place, commands: list[str], *, port: int) -> list[str]:
    """What each command prints, all typed into one shell."""
    mark = "=== next ==="
    script = "\n".join(f"{command.replace(':8000', f':{port}')}\necho '{mark}'" for command in commands)
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=place.project, env=place.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(f"{mark}\n")[:-1]


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl and jq are not both here")
def test_the_session_in_the_guide_happens_as_it_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path).set_up()
    (place.project / "resolvent.toml").write_text("", encoding="utf-8")
    commands, printed = zip(*told(GUIDE.read_text(encoding="utf-8")), strict=True)
    assert typed(place, [commands[0]], port=0) == [printed[0]]
    server = place.serve()
    try:
        happened = typed(place, list(commands[1:]), port=server.port)
    finally:
        server.kill()
    assert [normal(text) for text in happened] == [normal(text) for text in printed[1:]]
