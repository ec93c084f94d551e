"""Inside a check's own Python: the search path and the sitecustomize that it would have without us."""

import os
import sys


def stand_aside(folder: str) -> None:
    """Take our directory off the search path, and load the sitecustomize that ours stands before, if there is one."""
    library, named = os.path.dirname(os.__file__), []
    for entry in sys.path:
        if entry == library or entry.endswith(".zip"):
            break
        named.append(entry)
    # Added to an empty PYTHONPATH ours is alone; joined to others it stands where an empty entry would mean: here.
    if folder in sys.path:
        here = _here()
        at = sys.path.index(folder)
        sys.path[at : at + 1] = [] if named == [folder] or here in sys.path else [here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def leave(site: str) -> None:
    """Take the directory that only our own file lies in off the search path."""
    try:
        alone = len(os.listdir(site)) == 1
    except OSError:
        alone = False
    if alone and site in sys.path:
        sys.path.remove(site)
