"""Attacks on the walls themselves: what a box can see, touch and reach. Each is judged by what the host saw."""

import os
import secrets
from pathlib import Path

from resolvent.domain.job import Branch, Job
from resolvent.testing.escape.arena import Arena, Attack
from resolvent.testing.escape.found import Broken, Found, Untried, escaped, refused, safe
from resolvent.testing.processes import with_words

PLACES = ("/", "/usr", "/usr/bin", "/etc", "/var", "/opt", "/root", "/home", "/dev", "/proc", "/sys", "/run", "/tmp")
KERNEL_FILES = (
    "/etc/passwd", "/usr/bin/env", "/bin/sh", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
    "/proc/sys/vm/drop_caches", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper", "/dev/mem", "/dev/kmsg",
)  # fmt: skip
SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/proc/kcore")
WAYS_AROUND = (
    "/proc/1/root",
    "/proc/self/root",
    "/proc/self/cwd/../../../..",
    "/proc/1/cwd/..",
    "/.oldroot",
    "/newroot",
)
RACES = 300


async def write_outside(arena: Arena) -> Found:
    """Leave a file in every place of the host."""
    name = f".resolvent-prove-{secrets.token_hex(6)}"
    places = dict.fromkeys((*PLACES, str(Path.home()), str(arena.canary("x").parent), str(arena.directory)))
    report = await arena.attack("write", {"places": list(places), "name": name})
    left = [place for place in places if os.path.lexists(os.path.join(place, name))]
    for place in left:
        os.unlink(os.path.join(place, name))
    if left:
        return escaped(f"left a file in {', '.join(left)}")
    answers = dict.fromkeys(came for came in report.said.values() if came != "done")
    inside = [place for place, came in report.said.items() if came == "done"]
    return safe(", ".join(answers) + (f"; writable, but only inside: {' '.join(inside)}" if inside else ""))


async def open_kernel_files(arena: Arena) -> Found:
    """Open what the system and the kernel are governed by for writing."""
    probe = arena.canary("write-probe")
    probe.touch()
    probe.chmod(0o666)
    paths = (*KERNEL_FILES, str(probe), f"/proc/1/root{probe}")
    return refused((await arena.attack("overwrite", {"paths": paths})).said)


async def change_modes(arena: Arena) -> Found:
    """Change modes and times of files of the host that belong to the very user the box runs as."""
    place = arena.canary("mode-probe")
    place.write_text("same")
    if arena.rung.user is not None:
        os.chown(place, arena.rung.user, arena.rung.user)
    before = place.stat()
    report = await arena.attack("change_modes", {"paths": [str(place), f"/proc/1/root{place}"]})
    after = place.stat()
    if (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns):
        return refused(report.said)
    if arena.rung.name == "landlock":
        said = "Landlock does not see it: modes and times of the user's own files changed, not what is in them"
        return Found("LIMITED", said)
    return escaped(f"the mode or the time of {place.name} changed")


async def read_home(arena: Arena) -> Found:
    """List and open what lies in the home of whoever started us."""
    home = Path.home()
    theirs = sorted(os.listdir(home))[:200] if os.access(home, os.R_OK) else []
    paths = [str(home), *(str(home / name) for name in theirs)]
    said = (await arena.attack("read", {"paths": paths})).said
    shown = [path for path, came in said.items() if came.startswith(("reads ", "holds ")) and path != str(home)]
    # What the box was told to show is no secret: the interpreter, where the system has none.
    shown = [path for path in shown if not any(read.startswith(path) for read in arena.reads)]
    listed = set(said[str(home)].removeprefix("holds ").split()) & set(theirs) if "holds" in said[str(home)] else set()
    hidden = listed - {Path(read).relative_to(home).parts[0] for read in arena.reads if Path(read).is_relative_to(home)}
    if shown or hidden:
        return escaped(f"read {', '.join([*shown, *hidden][:10])}")
    return safe(said[str(home)][:60])


async def read_secrets(arena: Arena) -> Found:
    """Open what only root may, and a secret that everybody may, by every path that could lead to it."""
    around = [f"{way}{arena.secret_file}" for way in WAYS_AROUND] + [f"{way}/etc/shadow" for way in WAYS_AROUND]
    said = (await arena.attack("read", {"paths": [str(arena.secret_file), *SECRETS, *around]})).said
    shown = [path for path, came in said.items() if arena.secret in came or came.startswith("reads ")]
    return escaped(f"read {', '.join(shown)}") if shown else safe(", ".join(dict.fromkeys(said.values())))


async def read_neighbours(arena: Arena) -> Found:
    """Look into another job's private directory, another branch's files and the store."""
    neighbour, private, _ = await arena.prepare("links", {}, branch=None)
    (private / "home/token").write_text(arena.secret)
    state, sandbox = arena.home.state, Path(arena.rung.sandbox)
    paths = [private / "home/token", private, state, state / "private", state / "jobs", state / "repo.git/config"]
    paths += [sandbox, sandbox / "layers", sandbox / "branches.db", state / "branches", state / "jobs" / neighbour.id]
    inside = arena.workspace.inside(str(private))
    paths += [Path("/sys/layers"), Path("/sys/private"), Path(f"{inside}/../{neighbour.id}"), Path("/run/private")]
    ways = [f"{way}{path}" for way in ("", "/proc/1/root") for path in paths if str(path) != inside]
    said = (await arena.attack("read", {"paths": ways})).said
    shown = [path for path, came in said.items() if came.startswith(("reads ", "holds "))]
    return escaped(f"read {', '.join(shown)}") if shown else safe(", ".join(dict.fromkeys(said.values())))


async def read_exports(arena: Arena) -> Found:
    """Find in the borrowed objects what another branch became, which nobody published."""
    own = f"work-{secrets.token_hex(12)}"
    sibling = await arena.attack("later", {"paths": ["unpublished.txt"], "text": own})
    if await arena.workspace.export(sibling.branch, message="unpublished", at=1) is None:
        raise Broken("nothing was exported")
    seen = (await arena.attack("search_objects", {"backwards": own[::-1]})).said
    if not seen:
        return safe("not there")
    return escaped("read what another branch became")


async def search_environment(arena: Arena) -> Found:
    """Find a variable of the process that started the job, in the own environment or in another's."""
    # A process that was started with it, as any program of the person's is.
    with arena.victim():
        seen = (await arena.attack("search", {"backwards": arena.backwards})).said
    return escaped(f"found in {', '.join(seen)}") if seen else safe("not there")


async def search_command_lines(arena: Arena) -> Found:
    """Find a job's own secret in the list of processes, which everybody on the host can read."""
    own = f"token-{secrets.token_hex(12)}"

    def with_secret(job: Job) -> Job:
        return job.model_copy(update={"environment": job.environment | {"API_KEY": own}})

    async def look(job: Job, _: Branch) -> list[str]:
        told = [f"/proc/{pid}/cmdline" for pid in with_words(own.encode())]
        record = arena.home.jobs().output(job.id).parent
        return told + [path.name for path in record.iterdir() if path.is_file() and own.encode() in path.read_bytes()]

    seen = await arena.watched(look, adjust=with_secret)
    inside = (await arena.attack("search", {"backwards": own[::-1]}, adjust=with_secret)).said
    seen += [path for path in inside if path.endswith("cmdline")]
    return escaped(f"found in {', '.join(seen)}") if seen else safe("neither on the host nor inside")


async def reopen_descriptors(arena: Arena) -> Found:
    """Find descriptors that were left open, and open their files again for writing."""
    word = f"word-{secrets.token_hex(8)}"
    report = await arena.attack("descriptors", {"word": word})
    record = arena.home.jobs().output(report.job).parent
    spoiled = [path.name for path in record.iterdir() if path.is_file() and word.encode() in path.read_bytes()]
    spoiled = [name for name in spoiled if name not in ("output", "stdin")] + _spoiled_input(record, word)
    strange = [name for name, came in report.said.items() if _strange(name, came)]
    if spoiled or strange:
        return escaped(f"left open: {', '.join(strange)}; written to: {', '.join(spoiled)}")
    return safe(f"{sum(name.startswith('self ') for name in report.said)} descriptors, pipes and memory only")


def _strange(name: str, came: str) -> bool:
    """Not one of the three that every process has; of another process's, only what can be opened again matters."""
    owner, _, target = name.partition(" ")
    ordinary = target.partition(" ")[2].startswith(("pipe:", "/memfd:", "/dev/null"))
    return bool(target) and not ordinary and (owner == "self" or came == "done")


def _spoiled_input(record: Path, word: str) -> list[str]:
    """Our own record of what it was asked holds the word once, in the question; written again it was reached."""
    return ["stdin"] if (record / "stdin").read_text().count(word) > 1 else []


async def race_the_owner(arena: Arena) -> Found:
    """Swap a directory for a link while root, asked again for the same job, hands the private directory over."""
    if arena.rung.user is None:
        raise Untried("only root hands directories over, and we are not")
    treasure = arena.outside / "owned-by-root"
    treasure.mkdir()
    (treasure / "file").write_text("root's")

    async def ask_again(job: Job, branch: Branch) -> bool:
        assert job.box is not None
        for _ in range(RACES):
            await arena.workspace.enter(branch, job, private=job.box.private)
            if any(place.stat().st_uid != os.geteuid() for place in (treasure, treasure / "file")):
                return True
        return False

    if await arena.watched(ask_again, act="swap_directories", given={"target": str(treasure)}):
        return escaped("files of root now belong to the box's user")
    return safe(f"asked {RACES} times while it swapped")


async def spoil_objects(arena: Arena) -> Found:
    """Change the objects of the trusted repository, which the box borrows."""
    place = arena.repository.upstream / "objects"
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    inside = ["/run/objects", str(place)]
    files = [f"{top}/{path.relative_to(place)}" for path in list(before)[:3] for top in inside]
    said = (await arena.attack("spoil", {"paths": files})).said
    planted = (await arena.attack("write", {"places": inside, "name": "planted"})).said
    changed = [path.name for path, content in before.items() if not path.exists() or path.read_bytes() != content]
    if changed or (place / "planted").exists():
        return escaped(f"changed {', '.join(changed) or 'the directory'}")
    return refused(said | planted)


async def spoil_layers(arena: Arena) -> Found:
    """Change what other branches stand on, through the own files and by every path to the store."""
    sibling = await arena.branch("sibling")
    await arena.attack("later", {"paths": ["mine.txt"]}, branch=sibling)
    before = (await arena.attack("survey")).said
    await arena.attack("edit_everything")
    sandbox, state = arena.rung.sandbox, arena.home.state
    places = [sandbox, f"{sandbox}/layers", str(state / "branches"), "/sys/layers", "/sys", "/layers", "/work"]
    places += [str(place) for place in (Path(sandbox) / "layers").glob("*/up")]
    said = (
        await arena.attack("write", {"places": places, "name": "mine.txt"}, branch=await arena.branch("spoiler"))
    ).said
    after = (await arena.attack("survey")).said
    kept = await arena.workspace.read(sibling, "mine.txt")
    if before != after or kept != b"hello\n":
        return escaped(f"others see {[path for path in before if before[path] != after.get(path)] or 'another file'}")
    return refused(said)


ATTACKS = (
    Attack("write to /usr, /etc, $HOME, / and the store", "a root built from nothing, read-only", write_outside),
    Attack(
        "open system and kernel files for writing", "read-only binds, a /proc and a /dev of its own", open_kernel_files
    ),
    Attack("change modes and times of the user's files", "they are not there", change_modes),
    Attack("read $HOME", "it is not there", read_home),
    Attack("read /etc/shadow, keys, and by /proc/1/root", "a furnished /etc, a /proc of its own", read_secrets),
    Attack("read other jobs' files, layers, the store", "only its own are bound", read_neighbours),
    Attack(
        "read what other branches were exported as", "they lie in another repository, which no box sees", read_exports
    ),
    Attack("find secrets in the environment", "a cleared environment and an allow-list", search_environment),
    Attack("find secrets in command lines (ps, /proc)", "arguments by descriptor", search_command_lines),
    Attack("use inherited descriptors", "all but 0 to 2 are closed; those are pipes and memory", reopen_descriptors),
    Attack("race root for the owner of a file", "handed over once, before the job starts", race_the_owner),
    Attack("change the trusted repository's objects", "bound read-only", spoil_objects),
    Attack("change a lower layer or a sibling's files", "layers are sealed; the store is not there", spoil_layers),
)
