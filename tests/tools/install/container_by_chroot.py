#!/usr/bin/env python3
"""Carries out a Containerfile where there is no docker: container_by_chroot.py CONTAINERFILE CONTEXT FOLDER.

Each stage becomes a folder of FOLDER, made by debootstrap as Debian's smallest system (FROM's own name of the image says
only which release), in which RUN is started by chroot. Knows FROM, WORKDIR, COPY, ARG and RUN as tools/install/Containerfile
has them, and refuses what else there is, but for CMD, which it prints. CONTEXT is copied as git lists it. Wants root,
debootstrap and a network; MIRROR, DEBOOTSTRAP and APT_FILES (files to copy into /etc/apt/apt.conf.d) are taken from the
environment. By hand: no test starts it.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys


class Stage:
    def __init__(self, folder, release):
        self.folder, self.work, self.variables = folder, "/", {}
        if folder.exists():
            sys.exit(f"{folder} is there already: name another folder, or remove it")
        debootstrap = shlex.split(os.environ.get("DEBOOTSTRAP", "debootstrap"))
        mirror = os.environ.get("MIRROR", "http://deb.debian.org/debian")
        # In a namespace of its own, with which what it mounts goes.
        subprocess.run(["unshare", "--mount"] + debootstrap + ["--variant=minbase", release, folder, mirror], check=True)
        for name in os.environ.get("APT_FILES", "").split():
            shutil.copy(name, folder / "etc/apt/apt.conf.d")

    def inside(self, path):
        return self.folder / os.path.join(self.work, path).lstrip("/")

    def run(self, command):
        script = f'mount -t proc proc "{self.folder}/proc" && exec chroot "{self.folder}" sh -c "$0"'
        settings = "".join(f"{name}={shlex.quote(value)}; " for name, value in self.variables.items())
        subprocess.run(["unshare", "--mount", "sh", "-c", script, f"{settings}cd {self.work} && {command}"], check=True)

    def copy(self, source, to):
        target = self.inside(to)
        folder = target if to.endswith(("/", ".")) or source.is_dir() else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
        else:
            shutil.copy(source, target)


def copy_context(context, stage, to):
    names = subprocess.run(["git", "-C", context, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        stage.copy(context / name, os.path.join(to, name))


def carry_out(line, stages, folder, context):
    word, rest = line.split(None, 1)
    stage = next(reversed(stages.values())) if stages else None
    if word == "FROM":
        found = re.fullmatch(r"debian:(\d+)(?:-slim)?(?: AS (\w+))?", rest)
        releases = {"12": "bookworm", "13": "trixie"}
        stages[found[2] or str(len(stages))] = Stage(folder / (found[2] or "last"), releases[found[1]])
    elif word == "WORKDIR":
        stage.work = rest
        stage.inside(".").mkdir(parents=True, exist_ok=True)
    elif word == "ARG":
        name, value = rest.split("=")
        stage.variables[name] = value
    elif word == "COPY" and rest.startswith("--from="):
        other, source, to = re.fullmatch(r"--from=(\w+) (\S+) (\S+)", rest).groups()
        stage.copy(stages[other].folder / source.lstrip("/"), to)
    elif word == "COPY":
        *sources, to = rest.split()
        for source in sources:
            if source == ".":
                copy_context(context, stage, to)
            else:
                stage.copy(context / source, to)
    elif word == "RUN":
        stage.run(rest)
    elif word == "CMD":
        print(f"by default a container starts {rest}")
    else:
        sys.exit(f"'{line}': {word} is not known here")


def main(containerfile, context, folder):
    text = pathlib.Path(containerfile).read_text().replace("\\\n", " ")
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    stages = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            print(f"== {line}", flush=True)
            carry_out(line, stages, folder, pathlib.Path(context))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
