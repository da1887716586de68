#!/usr/bin/env python3
"""Partita as it is installed: the program from its new place, and the libraries from projects of their own.

Called as tests/tools/cli/harness.py says; the program lies in the build folder that is installed.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness  # noqa: E402
from harness import check, partita, run  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve().parents[1]
EXAMPLE = "tools/install/example"
INSTALL = "tools/install/install.cmake"
CONSUMER = "tests/tools/install/consumer"


def call(*command, expect=0, **environment):
    """The output of a command, stderr included."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, **environment})
    if done.returncode != expect:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@functools.cache
def installed():
    """The folder that Partita was installed into, component by component, and moved to. From then on the program that
    cases run is that one."""
    staged = pathlib.Path("staged/opt/first")
    for component, entries in (("program", ["bin", "share"]), ("development", ["bin", "include", "lib", "share"])):
        call("cmake", "--install", BUILD, "--prefix", "/opt/first", "--component", component,
             DESTDIR=os.path.abspath("staged"))
        found = [name if name != "lib64" else "lib" for name in names(staged)]
        check(found == entries, f"after component {component}: {found}")
    check(names(pathlib.Path(".")) == ["staged"] and names(pathlib.Path("staged")) == ["opt"], "files beside DESTDIR")
    prefix = pathlib.Path("moved").resolve()
    staged.rename(prefix)
    harness.BINARY = str(prefix / "bin" / "partita")
    return prefix


def built(source, generator="Ninja"):
    """The build folder of a project that finds the installed Partita, and what CMake said."""
    prefix, folder = installed(), pathlib.Path("build_" + pathlib.Path(source).name).resolve()
    if generator != "Ninja" and shutil.which("make") is None:
        generator = "Ninja"
    said = call("cmake", "-S", f"{harness.SOURCES}/{source}", "-B", folder, "-G", generator,
                f"-DCMAKE_PREFIX_PATH={prefix}")
    said += call("cmake", "--build", folder, "--parallel", 2)
    return folder, said


@functools.cache
def planned():
    """The plan that the example made, and what it said."""
    folder, _ = built(EXAMPLE)
    path = pathlib.Path("lenet.plan.textproto").resolve()
    return path, call(folder / "plan_from_cpp", "lenet", "p100-4x4", path)


def test_the_program_and_what_it_prints_of_itself():
    share = installed() / "share"
    version = partita("--version").out
    check(re.fullmatch(r"partita \d+\.\d+\.\d+\n", version), version)
    rows = re.search(r"set\(printed_files(.*?)\)\n", pathlib.Path(harness.SOURCES, INSTALL).read_text(), re.S)[1]
    printed = re.findall(r'"(\S+)\|(.+)"', rows)
    check(len(printed) >= 3, rows)
    for place, arguments in printed:
        text = (share / place).read_text()
        check(len(text) > 100 and text == partita(arguments).out, f"{place} is not what 'partita {arguments}' prints")
    for document in ("README.md", "third_party/README.md"):
        text = pathlib.Path(harness.SOURCES, document).read_text()
        check((share / "doc/partita" / document).read_text() == text, f"another {document}")


def test_nothing_points_to_the_folder_of_the_build():
    prefix = installed()
    for line in call("readelf", "-d", prefix / "bin/partita").splitlines():
        check("PATH" not in line or harness.SOURCES not in line, f"the program looks for libraries there: {line}")
    scripts = [path for ending in ("cmake", "partita", "fish") for path in prefix.rglob(f"*.{ending}")]
    check(len(scripts) > 5, f"{scripts}")
    for path in scripts:
        found = re.search(rf".*({re.escape(harness.SOURCES)}|/opt/first).*", path.read_text())
        check(not found, f"{path}: {found and found[0]}")


def test_headers_include_what_is_installed():
    include = installed() / "include/partita"
    headers = list(include.rglob("*.h"))
    check(len(headers) > 300 and (include / "proto/plan.pb.h") in headers, f"{len(headers)} headers")
    for header in headers:
        for name in re.findall(r'^#include "((?:graph|cost_model|planner|runtime|proto|tools|tests)/[^"]+)"', header.read_text(), re.M):
            check((include / name).is_file(), f"{header.relative_to(include)} includes {name}, which is not installed")


def test_the_example_plans_and_the_program_takes_its_plan():
    path, said = planned()
    found = re.fullmatch(r"a step of lenet takes ([\d.]+) ms on 4 devices of p100-4x4\nas data parallelism: ([\d.]+) ms\n", said)
    check(found and 0 < float(found[1]) <= float(found[2]), said)
    simulated = partita(f"simulate {path} --json").json()
    check(abs(simulated["predicted_ns"] / 1e6 - float(found[1])) < 1e-3, f"{said} {simulated['predicted_ns']}")
    check(partita(f"verify {path} --json").json()["equal"] is True, "the plan is not equal to the serial model")
    made = partita("plan lenet --batch 64 --machine p100-4x4 --devices 4 --evaluations 500 -o other.plan.textproto --json").json()
    check(abs(made["predicted_ns"] / 1e6 - float(found[1])) < 1e-3, f"{said}, and by the program {made['predicted_ns']} ns")


def test_the_example_says_what_is_wrong():
    folder, _ = built(EXAMPLE)
    said = call(folder / "plan_from_cpp", "lenett", expect=1)
    check("unknown model 'lenett'" in said and "did you mean 'lenet'?" in said, said)


def test_runtime_and_workflow_are_of_use_too():
    path, _ = planned()
    folder, said = built(CONSUMER, "Unix Makefiles")
    check(f"version {partita('--version').out.split()[1]}\n" in said, f"another version than the program's: {said}")
    check(re.search(r"another version: found 0, .* of \d+\.\d+\.\d+", said), said)
    check(re.search(r"an unknown part: found 0, because .*no component 'runtim'.*partita, runtime, workflow", said), said)
    backends = call(folder / "list_backends").split()
    answer = partita("list backends --json").json()
    check("reference" in backends and set(backends) <= {row["name"] for row in answer["backends"]}, f"{backends} {answer}")
    check(call(folder / "verify_plan", path) == "equal\n", "not equal")


def test_as_a_part_of_another_build_it_is_refused_with_what_to_do():
    os.mkdir("outer")
    pathlib.Path("outer/CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(outer LANGUAGES CXX)\n"
                                                    f"add_subdirectory({harness.SOURCES} partita)\n")
    said = call("cmake", "-S", "outer", "-B", "outer/build", "-G", "Ninja", expect=1)
    check("find_package(partita)" in said and "tools/install/README.md" in said, said)


def test_the_packages_that_a_program_runs_with():
    if shutil.which("dpkg-query") is None:
        raise harness.Skipped("this is no Debian")
    script = f"{harness.SOURCES}/tools/install/runtime_packages.sh"
    packages = call(script, harness.BINARY).split()
    check({"libc6", "libstdc++6"} < set(packages) and len(packages) > 8, f"{packages}")
    states = call("dpkg-query", "-W", "-f", "${db:Status-Status}\\n", *packages).split()
    check(set(states) == {"installed"} and not any(name.endswith("-dev") for name in packages), f"{packages} are {states}")
    pathlib.Path("own.cc").write_text("int Own() { return 0; }")
    pathlib.Path("main.cc").write_text("int Own();\nint main() { return Own(); }")
    call("c++", "-shared", "-fPIC", "-o", "libown.so", "own.cc")
    call("c++", "-o", "main", "main.cc", "libown.so", f"-Wl,-rpath,{os.getcwd()}")
    check("no package has" in call(script, "./main", expect=1), "a library of no package passed")
    os.remove("libown.so")
    check("libown.so, which ./main is linked to, is not there" in call(script, "./main", expect=1), "an absent library passed")
    check("wants one program" in call(script, "main.cc", expect=2), "a source passed")


def test_the_container_file_fits_this_build():
    """Its packages are those of tools/packages.sh; the options and scripts that it names are there."""
    text = pathlib.Path(harness.SOURCES, "tools/install/Containerfile").read_text()
    steps = re.findall(r"^RUN (.+)$", text, re.M)
    check(steps[0] == "tools/quickstart.sh --packages_only", steps[0])
    named = [word for step in steps for found in re.findall(r"apt-get install([^&]*)", step) for word in found.split()
             if not word.startswith("-")]
    check(named == [], f"it names packages itself: {named}")
    options = re.findall(r"-D(PARTITA_\w+)=", text)
    cache = (BUILD / "CMakeCache.txt").read_text()
    unknown = [option for option in options if not re.search(rf"^{option}:BOOL=", cache, re.M)]
    check(len(options) > 3 and unknown == [], f"options {unknown} are not this build's")
    for script in re.findall(r"\btools/[\w./]+\.sh\b", text):
        check((pathlib.Path(harness.SOURCES) / script).is_file(), f"{script} is not there")
    components = re.findall(r"--component (\w+)", text)
    check(components == ["program"], f"{components}")


run(globals(), "InstallTest")
