"""Inside a check's own Python: leave a mark the moment a watched line is executed, and disturb nothing.

It runs in whatever Python the check brings, 3.6 and later, before anything else does. A mark is an empty file: nothing
is lost when the process is killed, and nothing has to be parsed.
"""

import os
import sys

# Taken now: a test may replace them for a while.
_OPEN, _CLOSE, _READ, _FSTAT = os.open, os.close, os.read, os.fstat
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
# Where the environment stands among the arguments of these events.
_SPAWNS = {"subprocess.Popen": 3, "os.exec": 2, "os.posix_spawn": 2}
_PRIME = 1073741789
_THREADING = frozenset((0,))
_TOOLS = (4, 3)
# A trace function sees every call of the process: beyond so many it gives up, before a check takes much longer.
_MOST_CALLS = 4000000
_begun: "list[Watch]" = []


class Watch:
    """What one process knows of the watched files; `files` are by their last name."""

    # Of a file: its path, its size and the remainder of its bytes, the lines that count, the names it binds.
    def __init__(self, place: str, files: "dict[str, list[tuple[str, int, int, list[int], list[str]]]]") -> None:
        self.place = place
        self.files = files
        self.done = False
        self.known = {}  # type: dict[str, frozenset[int] | None]

    def mark(self, what: str) -> None:
        """Say it, at once and for good."""
        try:
            _CLOSE(_OPEN(self.place + "/seen/python." + what, os.O_CREAT | os.O_WRONLY | _CLOEXEC, 0o600))
        except OSError:
            # A full disk is the check's own trouble.
            return

    def hit(self) -> None:
        """A watched line was executed: nobody needs to know more."""
        self.done = True
        self.mark("hit")

    def lines_of(self, name: str) -> "frozenset[int] | None":
        """The watched lines of the file that some code says it is of; None when it is another file."""
        if name in self.known:
            return self.known[name]
        last = name.rpartition("/")[2]
        lines = self._compared(name, self.files[last]) if last in self.files else None
        if lines is None and last == "threading.py":
            lines = _THREADING
        self.known[name] = lines
        return lines

    def _compared(
        self, name: str, files: "list[tuple[str, int, int, list[int], list[str]]]"
    ) -> "frozenset[int] | None":
        """By what is in it: a copy that was installed or built elsewhere is the same code."""
        size, remainder = _weighed(name)
        lines = frozenset()  # type: frozenset[int]
        for path, its_size, its_remainder, its_lines, _ in files:
            if (size, remainder) == (its_size, its_remainder):
                lines |= frozenset(its_lines)
            elif ("/" + name).endswith("/" + "/".join(path.split("/")[-2:])):
                # It may be the watched one in another shape: edited since, zipped, or gone.
                self.mark("doubt")
        return lines or None

    def resembles(self, code: object) -> bool:
        """Code of no file binds everything that a watched file does: it was read from there and then executed."""
        said = frozenset(getattr(code, "co_names", ()))
        return any(names and said.issuperset(names) for files in self.files.values() for *_, names in files)


def _weighed(name: str) -> "tuple[int, int]":
    """The size of a file and what is left of it by division, which takes no import; -1 when it cannot be read."""
    try:
        file = _OPEN(name, os.O_RDONLY | _CLOEXEC | getattr(os, "O_NONBLOCK", 0))
        try:
            size, content = _FSTAT(file).st_size, b""
            while size <= 1 << 20 and len(content) <= 1 << 20:
                more = _READ(file, 1 << 20)
                if not more:
                    return len(content), int.from_bytes(content, "little") % _PRIME
                content += more
        finally:
            _CLOSE(file)
    except (OSError, ValueError):
        # Many a name of code is no name of a file.
        pass
    return -1, -1


def begin(place: str, files: "dict[str, list[tuple[str, int, int, list[int], list[str]]]]") -> None:
    """Watch from now on; once, however often it is asked."""
    if _begun:
        return
    watch = Watch(place, files)
    _begun.append(watch)
    watch.mark("began")
    if os.path.lexists(place + "/seen/python.hit"):
        return
    monitored = hasattr(sys, "monitoring") and _monitor(watch)
    if hasattr(sys, "addaudithook"):
        sys.addaudithook(_listener(watch, None if monitored else _tracer(watch)))
    else:
        # Nothing tells what it starts, or who else traces.
        watch.mark("doubt")
        sys.settrace(_tracer(watch))


def _monitor(watch: Watch) -> bool:
    """Python 3.12 and later: each piece of code that is not watched pays once; False when others took all tools."""
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    free = [tool for tool in _TOOLS if monitoring.get_tool(tool) is None]
    if not free:
        return False
    tool, events, disable = free[0], monitoring.events, monitoring.DISABLE
    lines_of, known = watch.lines_of, watch.known

    def start(code, offset):  # type: ignore[no-untyped-def]
        if not watch.done and lines_of(code.co_filename):
            monitoring.set_local_events(tool, code, events.LINE)
        return disable

    def line(code, number):  # type: ignore[no-untyped-def]
        if not watch.done and number in (known.get(code.co_filename) or ()):
            watch.hit()
            monitoring.set_events(tool, 0)
        return disable

    monitoring.use_tool_id(tool, "resolvent")
    monitoring.register_callback(tool, events.PY_START, start)
    monitoring.register_callback(tool, events.LINE, line)
    monitoring.set_events(tool, events.PY_START)
    return True


def _tracer(watch: Watch):  # type: ignore[no-untyped-def]
    """A trace function that looks at lines in watched files only, and takes itself out when one was executed."""
    known, lines_of, settrace, left = watch.known, watch.lines_of, sys.settrace, [_MOST_CALLS]

    def line(frame, event, _):  # type: ignore[no-untyped-def]
        if watch.done:
            return None
        if event == "line" and frame.f_lineno in (known.get(frame.f_code.co_filename) or ()):
            watch.hit()
            settrace(None)
            return None
        return line

    def call(frame, event, _):  # type: ignore[no-untyped-def]
        name = frame.f_code.co_filename
        lines = known[name] if name in known else lines_of(name)
        left[0] -= 1
        if watch.done:
            settrace(None)
        elif left[0] < 0:
            watch.mark("doubt")
            settrace(None)
        elif lines is _THREADING:
            _follow(frame.f_globals, call)
        elif lines is not None:
            return line
        return None

    return call


def _follow(threading: "dict[str, object]", call) -> None:  # type: ignore[no-untyped-def]
    """Have the threads that are started from here on traced as well, without importing what the program did not."""
    if threading.get("_trace_hook", call) is None and threading.get("__name__") == "threading":
        threading["_trace_hook"] = call


def _listener(watch: Watch, call):  # type: ignore[no-untyped-def]
    """Hears what is about to happen: tracing begins with the first watched file, and what escapes it is a doubt."""
    frame_above, own = sys._getframe, [False]

    def heard(event, arguments):  # type: ignore[no-untyped-def]
        if watch.done:
            return
        if event == "exec":
            own[0] = True
            _executes(watch, arguments[0], call)
            own[0] = False
        elif event in _SPAWNS:
            if not _carries(watch.place, arguments[0], arguments[1], arguments[_SPAWNS[event]]):
                watch.mark("doubt")
        elif event == "sys.settrace" and call is not None and not own[0] and not _is_threading(frame_above(1)):
            watch.mark("doubt")

    return heard


def _executes(watch: Watch, code, call) -> None:  # type: ignore[no-untyped-def]
    """A whole module is about to be executed."""
    name = getattr(code, "co_filename", "")
    if name[:1] == "<":
        if watch.resembles(code):
            watch.mark("doubt")
    elif call is not None and watch.lines_of(name) not in (None, _THREADING):
        _trace(watch, call)


def _is_threading(frame) -> bool:  # type: ignore[no-untyped-def]
    # It has new threads traced, as we or others asked it to.
    return bool(frame.f_globals.get("__name__") == "threading")


def _trace(watch: Watch, call) -> None:  # type: ignore[no-untyped-def]
    """Begin to trace, unless somebody else does."""
    there = sys.gettrace()
    if there is None:
        sys.settrace(call)
    if there is not call and (there is not None or getattr(sys.modules.get("_thread"), "_count", int)()):
        # Another tracer, or threads that are under way: ours does not see everything.
        watch.mark("doubt")


def _carries(place: str, program, words, environment) -> bool:  # type: ignore[no-untyped-def]
    """A process that is started so would be watched too, if it is a Python."""
    words = [word for word in words if isinstance(word, str)][:6] if isinstance(words, (list, tuple)) else []
    first = program if isinstance(program, str) else words[0] if words else ""
    if first.rpartition("/")[2].startswith("py"):
        flags = [word[1:] for word in words[1:] if word[:1] == "-" and word[1:].isalpha()]
        if any(set(flag) & set("IES") for flag in flags):
            return False
    if environment is None:
        return True
    if isinstance(environment, dict):
        value = dict.get(environment, "PYTHONPATH") or dict.get(environment, b"PYTHONPATH")
    elif isinstance(environment, os._Environ):
        value = environment.get("PYTHONPATH")
    else:
        return False
    return place in (os.fsdecode(value) if isinstance(value, (str, bytes)) else "")
