#!/usr/bin/env python3
"""What the program says while it works and beside its answers: --quiet, --json_lines, tables, commands that it suggests,
plans and models that move. See harness.py."""

import json
import pathlib
import re
import shutil
import subprocess

import harness
from harness import ELSEWHERE, QUICK, answer, check, on_terminal, partita, refuses, run
from small_onnx import small_onnx


def started(words, folder=".", expect=0):
    """Runs the program with these words from a folder."""
    done = subprocess.run([harness.BINARY, *words], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    check(done.returncode == expect, f"{words} in {folder}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done


def model_at(path, classes=10):
    pathlib.Path(path).write_bytes(small_onnx(classes=classes))


def events(line, expect=0):
    """The events of a command, each of which is one line of JSON."""
    result = partita(line + " --json_lines", expect)
    found = [json.loads(one) for one in result.out.splitlines()]
    check(all("event" in one for one in found), f"{line}: a line is no event: {result.out[:500]}")
    check(found[0]["event"] == "begin" and found[0]["verb"] in line.split()[:2], f"{line}: begins with {found[0]}")
    return found


def named(found, name):
    return [one for one in found if one["event"] == name]


def without_event(one):
    return {key: value for key, value in one.items() if key != "event"}


def test_quiet_leaves_results_and_errors():
    line = f"plan lenet --batch 8 --strategy single_device {QUICK} -o quiet.plan.textproto"
    told, quiet = partita(line), partita(f"{line} --quiet")
    check("note: " in told.out and "next: " in told.out, told.out)
    check("note: " not in quiet.out and "next: " not in quiet.out, quiet.out)
    check("predicted step" in quiet.out and "written: " in quiet.out and quiet.err == "", quiet.out + quiet.err)
    check(answer(f"{line} --quiet", "notes")["notes"], "notes are data in JSON")
    line = "run quiet.plan.textproto --steps 2 --timeline none"
    told, quiet = partita(line), partita(f"{line} --quiet")
    check("step 1/2" in told.err and quiet.err == "", quiet.err)
    check("2 steps of" in quiet.out, quiet.out)
    result = partita("plan absent.onnx --quiet", 3)
    check("absent.onnx" in result.err, result.err)


def test_plan_streams_candidates_and_its_answer():
    found = events(f"plan lenet --batch 8 {ELSEWHERE} -o stream.plan.textproto")
    candidates = named(found, "candidate")
    times = [one["predicted_ns"] for one in candidates]
    check(times and times == sorted(times, reverse=True), f"{times}")
    check(found[-1]["event"] == "result" and len(named(found, "result")) == 1, f"{found[-1]}")
    check(found[-1]["predicted_ns"] <= times[-1] and found[-1]["plan"] == "stream.plan.textproto", f"{found[-1]}")
    for one in named(found, "progress"):
        check(one["done"] <= one["wanted"] and one["of"] == "search", f"{one}")
    found = events(f"plan lenet --batch 8 {ELSEWHERE} --strategy single_device -o {'x' * 300}.textproto", 3)
    check(found[-1]["event"] == "error" and found[-1]["error"]["exit_code"] == 3, f"{found[-1]}")


def test_run_streams_steps_and_says_when_none_is_left():
    partita(f"plan lenet --batch 8 --strategy data_parallel {QUICK} -o steps.plan.textproto")
    line = "run steps.plan.textproto --timeline none --steps 3 --data synthetic --save w.safetensors"
    found = events(f"{line} --eval_data synthetic --eval_every 2")
    check([one["step"] for one in named(found, "step")] == [1, 2, 3], f"{named(found, 'step')}")
    check([one["step"] for one in named(found, "evaluation")] == [2, 3], f"{named(found, 'evaluation')}")
    check(found[-1]["event"] == "result" and found[-1]["steps"] == 3, f"{found[-1]}")
    check([one["loss"] for one in named(found, "step")] == found[-1]["losses"], f"{found}")
    line = "run steps.plan.textproto --timeline none --steps 3 --resume w.safetensors"
    check("already has all 3 steps" in partita(line).out, "nothing is said of a run that is done")
    check(named(events(line), "resumed")[0]["step"] == 3, "no event of what is resumed")


def test_compare_and_profile_stream():
    found = events(f"compare lenet --batch 8 {ELSEWHERE}")
    rows = [without_event(one) for one in named(found, "strategy")]
    check([one["name"] for one in rows] == [one["name"] for one in found[-1]["strategies"]], f"{rows}")
    found = events("profile lenet --batch 2 --devices 1 --profile_time 1 --profile stream.db")
    progress = named(found, "progress")
    check(progress and all(one["of"] == "profile" for one in progress), f"{found}")
    check(any(one["seconds_left"] is not None for one in progress), f"{progress}")
    check(found[-1]["event"] == "result" and found[-1]["measured"] > 0, f"{found[-1]}")


def test_measuring_the_machine_shows_how_much_is_left():
    progress = named(events("machine discover --devices 2 --oversubscribe -o found.textproto"), "progress")
    done = [one["done"] for one in progress]
    check(len(done) > 2 and done[0] == 0 and done == sorted(done), f"{progress}")
    check(done[-1] == progress[-1]["wanted"] and any(one["seconds_left"] is not None for one in progress), f"{progress}")


def progress_of(line, columns):
    """What a command shows on a terminal of its stderr, a text for each time that it writes the line anew."""
    return [one for one in on_terminal(line, "stderr", columns).split("\r\x1b[K") if one]


def test_progress_has_the_time_left_and_fits_the_terminal():
    for line, begins in (("profile lenet --batch 2 --devices 1 --profile_time 3 --profile left.db", "profiling "),
                         ("plan alexnet --batch 32 --machine p100-4x4 --devices 2 --evaluations 3000 -o left.plan.textproto",
                          "searching: ")):
        shown = progress_of(line, 72)
        lines = [one for one in shown if one.startswith(begins)]
        check(lines, f"{line}: {shown[:5]}")
        check(all(len(one) < 72 for one in lines), f"{max(lines, key=len)}")
        check(any(one.endswith(" left") for one in lines) or begins == "searching: ", f"{lines[-3:]}")
    check(not progress_of(f"plan lenet --batch 8 {ELSEWHERE} --quiet -o left.plan.textproto", 72), "quiet shows progress")


def test_lines_fit_the_terminal_but_for_what_is_copied():
    plan = f"plan lenet --batch 8 {ELSEWHERE} -o wrapped.plan.textproto"
    long = [one for one in on_terminal(f"{plan} --replace", "stdout", 60).splitlines()
            if len(one) > 60 and not re.match(r" *(next|or|written|kept): ", one)]
    check(not long, f"{long}")
    for line in ("machine show local", "completion bash"):  # files
        check(on_terminal(line, "stdout", 80) == partita(line).out, f"{line}: lines are broken")
    whole = partita(f"{plan} --replace").out
    check(re.search(r"^next: .*verify --quick wrapped.plan.textproto$", whole, re.M), whole)
    check(re.search(r"^priced: \d+ tasks by roofline \(100 % of the time\)$", whole, re.M), whole)
    check(any(len(one) > 80 for one in whole.splitlines()), f"what is no terminal gets lines as they are: {whole}")


def test_tables_fit_80_columns():
    pathlib.Path("a/folder with a long name/and/another one below").mkdir(parents=True, exist_ok=True)
    path = pathlib.Path("a/folder with a long name/and/another one below/data_parallel.plan.textproto")
    started(["plan", "lenet", "--batch", "8", *ELSEWHERE.split(), "--strategy", "data_parallel", "-o", str(path)])
    text = started(["compare", "lenet", str(path), "--batch", "8", *ELSEWHERE.split()]).stdout
    table = text[text.index("received"):re.search(r"^searched .*$", text, re.M).end()]
    check(all(len(one) <= 80 for one in table.splitlines()), text)
    check("/device" in table and not re.search(r"\d [kM]B", table), f"one unit, and per device: {table}")
    for line in ("list models", "list operators", "list machines", "list searches", "doctor",
                 "import alexnet --batch 2", "machine show p100-4x4"):
        long = [one for one in partita(line).out.splitlines() if len(one) > 80 and not one.startswith("alexnet:")]
        check(not long or line.startswith("machine"), f"{line}: {long}")
        check(not [one for one in long if one.startswith("#")], f"{line}: {long}")
    found = partita("plan lenet --batch 8 --machine p100-4x4 --devices 1,2 --evaluations 20")
    check("/device" in found.out and all(len(one) <= 80 for one in found.out.splitlines()), found.out)


def test_shares_that_overlap_are_explained():
    found = partita("compare alexnet --batch 32 --machine p100-4x4 --devices 4 --evaluations 20").out
    shares = answer("compare alexnet --batch 32 --machine p100-4x4 --devices 4 --evaluations 20", "strategies")
    rows = [one for one in shares["strategies"] if one.get("overlap_share", 0) >= 0.01 and one["same_as"] is None]
    check(rows, f"no plan overlaps: {shares}")
    for one in rows:
        whole = one["compute_share"] + one["communication_share"] + one["idle_share"]
        check(abs(whole - 1 - one["overlap_share"]) < 1e-6, f"{one}")
    check("add up to more than 100 %" in found.replace("\n  ", " "), found)


def test_few_devices_are_said_with_a_hint():
    found = answer(f"plan lenet --batch 8 --strategy single_device {ELSEWHERE} -o few.plan.textproto", "notes")
    check(any("of 2 devices 1 does" in one and "Try" in one for one in found["notes"]), f"{found['notes']}")
    found = answer(f"plan lenet --batch 8 --strategy data_parallel {ELSEWHERE} -o few.plan.textproto", "notes")
    check(not any("of the work" in one for one in found["notes"]), f"{found['notes']}")


def test_suggested_commands_can_be_pasted():
    folder = pathlib.Path("with blanks & $(quotes)'/sub")
    folder.mkdir(parents=True, exist_ok=True)
    model_at(folder / "my net.onnx")
    for where, model in ((".", str(folder / "my net.onnx")), (str(folder), "my net.onnx"), (str(folder), "./my net.onnx")):
        text = started(["plan", model, *QUICK.split(), "--replace"], where).stdout
        commands = re.findall(r"^(?:next|  or): (.*)$", text, re.M)
        check(len(commands) == 2, text)
        for command in commands:
            command += " --steps 1"
            done = subprocess.run(["bash", "-c", command], cwd=where, capture_output=True, text=True, timeout=600)
            check(done.returncode == 0, f"{command} in {where}: {done.stdout}{done.stderr}")
    model_at("-dash.onnx")
    text = started(["plan", "./-dash.onnx", *QUICK.split(), "-o", "dash.plan.textproto"]).stdout
    command = re.search(r"^next: (.*)$", text, re.M)[1]
    check(subprocess.run(["bash", "-c", command], capture_output=True).returncode == 0, command)


def test_a_plan_finds_its_model_when_both_move():
    shutil.rmtree("old", ignore_errors=True)
    pathlib.Path("old/models").mkdir(parents=True)
    model_at("old/models/net.onnx")
    started(["plan", "models/net.onnx", *QUICK.split(), "-o", "plans.plan.textproto"], "old")
    started(["plan", "models/net.onnx", *QUICK.split()], "old")
    line = ["verify", "--quick", "--json"]
    for plan, folder in (("plans.plan.textproto", "old"), ("old/plans.plan.textproto", "."),
                         ("old/models/net.plan.textproto", "."), ("net.plan.textproto", "old/models")):
        found = json.loads(started([*line, plan], folder).stdout)
        check(found["equal"] and bool(found["notes"]) == (folder != "old"), f"{plan} in {folder}: {found}")
    pathlib.Path("old").rename("new")
    found = json.loads(started([*line, "new/models/net.plan.textproto"]).stdout)
    check(found["equal"] and "new/models/net.onnx" in found["notes"][0], f"{found}")
    # Another model at the place that the plan names is taken first, and refused by its fingerprint.
    pathlib.Path("models").mkdir()
    model_at("models/net.onnx", classes=9)
    error = started([*line, "new/models/net.plan.textproto"], expect=3).stderr
    check("new/models/net.onnx" in error and "--model" in error, error)
    shutil.copy("new/models/net.onnx", "models/net.onnx")
    found = json.loads(started([*line, "new/models/net.plan.textproto"]).stdout)
    check(found["equal"] and "there is another" in found["notes"][0], f"{found}")
    shutil.rmtree("models")
    pathlib.Path("new/models/net.onnx").unlink()
    error = started([*line, "new/models/net.plan.textproto"], expect=3).stderr
    check("nor is there 'new/models/net.onnx'" in error and "--model" in error, error)
    for name in ("new", "old"):
        shutil.rmtree(name, ignore_errors=True)


def test_wrong_usage_says_what_and_how():
    for line, pattern in (
            ("plan", r"plan: MODEL is missing: .*\nUsage: partita plan \[FLAGS\] MODEL\nTry: partita help plan"),
            ("launch run x.plan.textproto", r"launch: -n, --ranks INT is missing"),
            ("list", r"list: WHAT is missing: operators, "), ("machine", r"a verb is wanted: show, discover, create"),
            ("plan lenet --batch=8 --batch 16", r"--batch is given several times"),
            ("plan lenet -batch 8", r"unknown arguments: -batch 8; did you mean '--batch'"),
            ("plan lenet alexnet", r"unknown arguments: alexnet\nUsage: "),
            ("version", r"unknown verb 'version'; did you mean '--version'"),
            ("--verion", r"unknown arguments: --verion; did you mean '--version'"),
            ("launch -n 2 x.plan.textproto", r"launch wants what every rank shall do"),
            ("plan lenet --quiet=yes", r"--quiet takes no value"),
            ("plan lenet --time_limit 5s", r"a number from 0 on, not '5s'; digits alone, without a unit"),
            ("plan lenet --batch 1,000", r"not '1,000'; digits alone"),
            ("plan lenet --batch 99999999999999999999", r"a whole number from 1 to 1048576"),
            ("plan lenet --memory_limit 12Gb", r"such as 800MB or 12GiB")):
        refuses(line, 2, pattern)
    check("Try: partita help machine show" in partita("machine show nowhere", 2).err, "not the verb's own help")
    check(answer(f"plan lenet --batch 8 {ELSEWHERE} --memory_limit 12gb -o u.textproto", "options")["options"]
          ["memory_limit"] == "12000000000", "small letters of a unit")


def test_mistyped_paths_say_what_is_not_there():
    pathlib.Path("there").mkdir(exist_ok=True)
    model_at("there/alexnet_mine.onnx")
    pathlib.Path("folder").mkdir(exist_ok=True)
    pathlib.Path("none.plan.textproto").write_text("\n")
    for line, code, pattern in (
            ("plan there/alexnet_mien.onnx", 3, r"did you mean 'there/alexnet_mine.onnx'"),
            ("import there/alexnet_mien.onnx", 3, r"did you mean 'there/alexnet_mine.onnx'"),
            ("plan nowhere/net.onnx", 3, r"there is no file 'nowhere/net.onnx', and no folder 'nowhere'"),
            ("plan https://host.org/net.onnx", 3, r"nothing is fetched from elsewhere"),
            ("plan ~/net.onnx", 3, r"the shell leaves '~' alone"),
            ("plan folder", 2, r"'folder' is no known name; .* and this is a folder"),
            ("run folder", 3, r"'folder' is a folder"),
            ("run non.plan.textproto", 3, r"did you mean 'none.plan.textproto'"),
            ("run none.plan.textproto", 3, r"none.plan.textproto is empty")):
        refuses(line, code, pattern)


def test_output_has_no_colours_and_ends_with_its_reader():
    text = started(["list", "models"]).stdout
    check("\x1b" not in text, "an escape sequence")
    done = subprocess.run(["bash", "-c", f"set -o pipefail; '{harness.BINARY}' list onnx_operators | head -1 >&2"],
                          capture_output=True, text=True, timeout=60)
    check(len(done.stderr.splitlines()) == 1 and done.returncode in (0, 141), f"{done}")


if __name__ == "__main__":
    run(globals(), "MessagesTest")
