#!/usr/bin/env python3
"""What partita refuses: a clear message that names what is at fault, and the documented exit code. See harness.py."""

import os
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import time

import harness
from harness import ELSEWHERE, QUICK, check, data, edited, lenet_plan, partita, refuses, run
from small_onnx import small_onnx


# ---------------------------------------------------------------------------------------------------- bad input


def test_unknown_names_list_the_valid_ones():
    refuses("plan lennet", 2, r"lennet.*lenet")
    refuses("plan lenet --machine nowhere", 2, r"nowhere.*p100-4x4")
    refuses(f"plan lenet {ELSEWHERE} --search guess", 2, r"guess.*mcmc")
    refuses(f"plan lenet {ELSEWHERE} --strategy hope", 2, r"hope.*data_parallel")
    refuses("plan lenet --optimizer magic", 2, r"magic.*adam")
    refuses("list everything", 2, r"everything.*operators")
    refuses("machine show nowhere", 2, r"nowhere.*p100-4x4")
    refuses("verify my_plan", 2, r"a plan is a file.*my_plan")
    refuses("run lenet", 2, r"'lenet' is a model; a plan of it is made by: partita plan lenet")
    refuses(f"run {lenet_plan()} --data wat", 3, r"(?s)no data 'wat'.*synthetic")
    path = edited(lenet_plan(), r'source: "lenet"', 'source: "lennet"', "renamed.textproto")
    refuses(f"verify {path}", 3, r"lennet.*lenet")


def test_absent_files_are_named():
    refuses("plan absent.onnx", 3, r"absent\.onnx")
    refuses("verify absent.textproto", 3, r"absent\.textproto")
    refuses("run absent.textproto", 3, r"absent\.textproto")
    refuses("simulate absent.textproto", 3, r"absent\.textproto")
    refuses("machine show absent.textproto", 3, r"absent\.textproto")
    refuses("verify --reference absent", 3, r"absent")
    refuses(f"run {lenet_plan()} --data absent.safetensors", 3, r"absent\.safetensors")


def test_broken_files_are_named():
    whole = pathlib.Path(data("models/mlp.onnx")).read_bytes()
    pathlib.Path("cut.onnx").write_bytes(whole[:len(whole) // 2])
    refuses("import cut.onnx", 3, r"cut\.onnx")
    pathlib.Path("noise.onnx").write_bytes(bytes(range(256)) * 40)
    refuses("import noise.onnx", 3, r"noise\.onnx")
    pathlib.Path("noise.textproto").write_text("ops { what: ")
    refuses("import noise.textproto", 3, r"noise\.textproto")
    refuses("verify noise.textproto", 3, r"noise\.textproto")
    pathlib.Path("noise.safetensors").write_bytes(b"\xff" * 100)
    refuses(f"run {lenet_plan()} --data noise.safetensors", 3, r"noise\.safetensors")


def test_what_is_no_regular_file_is_refused_at_once():
    for ending in ("onnx", "textproto", "safetensors", "db"):
        os.mkfifo(f"pipe.{ending}")
        os.symlink("/dev/zero", f"zeros.{ending}")
        os.mkdir(f"folder.{ending}")
    for name in ("pipe", "zeros", "folder"):
        for line in (f"import {name}.onnx", f"import {name}.textproto", f"verify {name}.textproto",
                     f"machine show {name}.textproto", f"run {lenet_plan()} --data {name}.safetensors",
                     f"run {lenet_plan()} --load {name}.safetensors",
                     f"plan mlp_tiny --devices 2 --oversubscribe --profile_time 0 --evaluations 9 --profile {name}.db"):
            start = time.monotonic()
            refuses(line, 3, name)
            # Both calls together; generous, as other programs run too.
            check(time.monotonic() - start < 20, f"partita {line} took {time.monotonic() - start} s")


def test_files_that_are_too_large_are_refused():
    for size in (20 << 30, (2 << 30) - 1):
        for ending in ("onnx", "textproto", "safetensors"):
            with open(f"huge.{ending}", "wb") as file:
                file.truncate(size)
        for line in ("import huge.onnx", "import huge.textproto", "verify huge.textproto",
                     "machine show huge.textproto", f"run {lenet_plan()} --data huge.safetensors"):
            refuses(line, 3, r"huge\.")
            command = [harness.BINARY] + line.split()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            kilobytes = os.wait4(process.pid, 0)[2].ru_maxrss
            check(kilobytes < 512 << 10, f"partita {line} took {kilobytes} kB")
    for ending in ("onnx", "textproto", "safetensors"):
        os.remove(f"huge.{ending}")


def test_models_with_wrong_contents_are_refused():
    partita("import lenet --batch 4 -o whole.textproto")
    for name, old, new, message in (
            ("negative", r"shape: \[4, ", "shape: [-4, ", r"-4"),
            ("giant", r"shape: \[4, ", "shape: [4000000000000, ", r"4000000000000"),
            ("mistyped", r"integer: 1", 'text: "one"', r"groups"),
            ("cyclic", r'input: "conv1"', 'input: "relu3"', r"relu3"),
            ("nameless", r'input: "conv1"', 'input: "nothing"', r"nothing"),
            ("strange", r'kind: "conv2d"', 'kind: "conv9d"', r"conv9d")):
        path = edited("whole.textproto", old, new, f"{name}.textproto")
        refuses(f"import {path}", 3, f"{name}.textproto.*{message}")


def test_data_that_cannot_be_read_are_named():
    os.mkdir("idx")
    pathlib.Path("idx/train-images-idx3-ubyte").write_bytes(b"\x00\x00\x08\x03" + bytes(12))
    pathlib.Path("idx/train-labels-idx1-ubyte").write_bytes(b"\x00\x00\x08\x01" + bytes(4))
    refuses(f"run {lenet_plan()} --data idx", 3, r"idx")
    os.makedirs("pictures/cats")
    for k in range(20):
        pathlib.Path(f"pictures/cats/{k}.jpg").write_bytes(b"no picture")
    pathlib.Path("pictures/wnids.txt").write_text("cats\n" + "\n".join("abcdefghi"))
    refuses(f"run {lenet_plan()} --data pictures", 3, r"pictures/cats/\d+\.jpg' is neither JPEG nor PNG")
    os.mkdir("empty")
    refuses(f"run {lenet_plan()} --data empty", 3, r"empty")


def test_places_that_cannot_be_written_are_named_before_the_work():
    start = time.monotonic()
    for line in ("plan alexnet --machine p100-4x4 --evaluations 1000000000 -o nowhere/x.textproto",
                 f"run {lenet_plan()} --steps 1000000000 --save nowhere/w.safetensors",
                 f"run {lenet_plan()} --steps 1000000000 --timeline nowhere/t.json",
                 f"simulate {lenet_plan()} -o nowhere/t.json",
                 "import lenet -o nowhere/l.textproto",
                 "machine discover -o nowhere/m.textproto"):
        refuses(line, 3, r"no folder 'nowhere'")
    check(time.monotonic() - start < 60, "it worked first")


def test_a_model_that_moved_is_found_by_its_flag():
    partita("import lenet --batch 8 -o here.textproto")
    partita(f"plan here.textproto --strategy data_parallel {QUICK} -o moved.plan.textproto")
    os.rename("here.textproto", "there.textproto")
    refuses("verify moved.plan.textproto --quick", 3, r"here\.textproto")
    for verb in ("verify --quick", "run --steps 1", "simulate"):
        partita(f"{verb} moved.plan.textproto --model there.textproto")


def test_plan_for_another_graph_is_refused():
    path = edited(lenet_plan(), r'fingerprint: "\w+"', 'fingerprint: "0123456789abcdef"', "other_graph.textproto")
    for verb in ("verify", "run", "simulate"):
        refuses(f"{verb} {path}", 3, r"fingerprint|another graph")
    refuses(f"verify {lenet_plan()} --model mlp_tiny", 3, r"fingerprint|another graph|operator")


def test_plan_with_broken_contents_is_refused():
    path = edited(lenet_plan(), r"degree: 2", "degree: 2000000", "degrees.textproto")
    refuses(f"verify {path}", 3, r"degree|parts|devices|cannot be split")
    path = edited(lenet_plan(), r"devices: \[0, 1\]", "devices: [0, 77]", "devices.textproto")
    refuses(f"verify {path}", 3, r"device")


def test_what_does_not_fit_in_memory_is_infeasible_by_how_much_and_where():
    partita("machine discover --devices 2 --oversubscribe -o full.textproto")
    path = edited("full.textproto", r"memory_bytes: \d+", "memory_bytes: 20000", "tiny.textproto")
    where = r"device [01] \(.*\) needs \d+ bytes and has 20000: \d+ too few"
    for search in ("--evaluations 30", "--strategy data_parallel"):
        refuses(f"plan lenet --profile_time 0 --machine {path} {search}", 4, where)


def test_an_expert_that_declines_says_why():
    refuses("plan mlp_tiny --machine p100-4x4 --devices 2 --strategy spatial", 2, r"declines: .*image")


def test_foreign_profile_is_refused_unless_asked_for():
    partita("profile mlp_tiny --devices 2 --oversubscribe --profile foreign.db --profile_time 1")
    with sqlite3.connect("foreign.db") as base:
        base.execute("delete from device")
        base.execute("insert into device (hardware, configuration) values ('another computer', 'cpu')")
    base.close()
    line = "plan mlp_tiny --devices 2 --oversubscribe --evaluations 20 --profile foreign.db --profile_time 0"
    refuses(line, 7, r"another computer")
    partita(line + " --foreign_profile")


def test_a_hang_is_a_failure_that_lists_the_lanes():
    flags = "--batch 16 --devices 2 --oversubscribe --profile_time 0 --strategy data_parallel"
    partita(f"plan alexnet_s56 {flags} -o hang.textproto")
    refuses("run hang.textproto --steps 1 --hang_seconds 0.000001", 5, r"no device made progress.*lanes")


def test_a_loss_that_is_not_a_number_stops_training_and_names_the_operator():
    partita(f"plan lenet --batch 8 {QUICK} -o nan.textproto")
    refuses("run nan.textproto --steps 40 --lr 3e38", 1, r"loss is -?(nan|inf).*operator")


def test_what_a_run_reads_is_not_overwritten():
    plan = pathlib.Path("read.plan.textproto")
    plan.write_bytes(lenet_plan().read_bytes())
    pathlib.Path("read.onnx").write_bytes(small_onnx())
    partita(f"plan read.onnx --strategy data_parallel {QUICK} -o of_file.textproto")
    os.symlink(plan, "link")
    before = {name: pathlib.Path(name).read_bytes() for name in (plan, "read.onnx", "of_file.textproto")}
    for line, what in ((f"run {plan} --save {plan}", "--save.*the plan"),
                       (f"run {plan} --save link", "--save.*the plan"),
                       (f"run {plan} --timeline ./{plan}", "--timeline.*the plan"),
                       (f"run {plan} --save new --timeline ./new", "--timeline.*--save"),
                       (f"run {plan} --data read.onnx --save read.onnx", "--save.*--data"),
                       (f"run {plan} --eval_data read.onnx --save read.onnx", "--save.*--eval_data"),
                       ("run of_file.textproto --save read.onnx", "--save.*the model"),
                       (f"simulate {plan} -o {plan}", "-o.*the plan")):
        refuses(line, 2, f"{what}: name another place")
    check(before == {name: pathlib.Path(name).read_bytes() for name in before}, "an input was overwritten")
    check(not pathlib.Path("new").exists(), "something was written")
    partita(f"run {plan} --steps 1 --save /dev/null --timeline /dev/null")
    partita(f"run {plan} --steps 1 --save twice --timeline none")
    partita(f"run {plan} --steps 1 --load twice --save twice --timeline none")


def test_the_files_of_a_models_weights_are_not_overwritten():
    pathlib.Path("models").mkdir()
    shutil.copy(data("batch_norm/unoptimized.onnx"), "models/outside.onnx")
    outside = pathlib.Path("models/unoptimized.onnx.data")
    outside.write_bytes(bytes(1152))
    partita("import models/outside.onnx -o models/inside.textproto")
    inside, = pathlib.Path("models").glob("inside.*.safetensors")
    for model, side in (("models/outside.onnx", outside), ("models/inside.textproto", inside)):
        partita(f"plan {model} --strategy data_parallel {QUICK} -o side.plan.textproto")
        before = side.read_bytes()
        os.symlink(side, f"to.{side.name}")
        for output in (side, f"./models/../{side}", f"to.{side.name}"):
            for line, flag in ((f"run side.plan.textproto --save {output}", "--save"),
                               (f"run side.plan.textproto --timeline {output}", "--timeline"),
                               (f"simulate side.plan.textproto -o {output}", "-o"),
                               (f"plan {model} --strategy data_parallel {QUICK} --replace -o {output}", "-o")):
                refuses(line, 2, f"{flag} .*would replace the file of the model's weights: name another place")
        refuses(f"run side.plan.textproto --model {model} --save {side}", 2, "the model's weights")
        # One that is absent, as a run that loads a checkpoint does not need it.
        partita("run side.plan.textproto --steps 1 --save start --timeline none")
        side.unlink()
        refuses(f"run side.plan.textproto --load start --save {side}", 2, "the model's weights")
        side.write_bytes(before)
        partita("run side.plan.textproto --steps 1 --save start --timeline none")


def test_files_in_a_folder_of_data_are_not_overwritten():
    folder = pathlib.Path("digits")
    folder.mkdir()
    for name, sizes, values in (("train-images-idx3-ubyte", (16, 28, 28), 16 * 28 * 28),
                                ("train-labels-idx1-ubyte", (16,), 16)):
        head = bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
        (folder / name).write_bytes(head + bytes(k % 10 for k in range(values)))
    labels = folder / "train-labels-idx1-ubyte"
    (folder / "other").write_text("kept")
    os.symlink(folder / "other", "to_other")
    shutil.copy(lenet_plan(), folder / "in.plan.textproto")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    run_it = f"run {folder}/in.plan.textproto --steps 1"
    for output in (labels, folder / "other", "to_other"):
        for flag in ("--save", "--timeline"):
            refuses(f"{run_it} --data {folder} {flag} {output}", 2, f"{flag}.*--data: name another place")
            refuses(f"{run_it} --data {folder} --eval_data ./{folder} {flag} {output}", 2, "name another place")
    refuses(f"{run_it} --data {folder}/train-images-idx3-ubyte --save {labels}", 2, "--save.*--data")
    check(before == {path: path.read_bytes() for path in before}, "an input was overwritten")
    # New names are none of the data's, nor is a timeline at its usual place, again and again.
    partita(f"{run_it} --data {folder} --save {folder}/new")
    partita(f"{run_it} --data {folder} --save {folder}/newer")
    check((folder / "in.plan.textproto.measured.json").exists(), "no timeline")


def test_a_dash_is_no_file():
    plan = lenet_plan()
    for line, said in ((f"run {plan} --save -", "--save.*/dev/stdout"), (f"run {plan} --timeline -", "/dev/stdout"),
                       (f"run {plan} --save=-", "--save.*/dev/stdout"), (f"simulate {plan} -o -", "/dev/stdout"),
                       (f"plan lenet {ELSEWHERE} -o -", "/dev/stdout"), ("machine discover -o -", "/dev/stdout"),
                       (f"launch -n 2 run {plan} --save -", "/dev/stdout"), ("import lenet -o -", "'-' is no name"),
                       (f"run {plan} --dump_dir -", "'-' is no name"), (f"run {plan} --profile -", "'-' is no name"),
                       ("profile lenet --profile -", "'-' is no name"), (f"verify {plan} --profile -", "'-' is no name")):
        refuses(line, 2, said)
    check(not pathlib.Path("-").exists(), "a file of this name was written")


def test_empty_values_are_wrong_usage():
    for words in (["run", str(lenet_plan()), "--save", ""], ["run", str(lenet_plan()), "--resume", "", "--steps", "1"],
                  ["run", str(lenet_plan()), "--save=", "--json"], ["plan", "lenet", "-o", ""],
                  ["launch", "-n", "2", "run", str(lenet_plan()), "--save", ""]):
        done = subprocess.run([harness.BINARY] + words, capture_output=True, text=True, timeout=600, check=False)
        check(done.returncode == 2 and re.search("wanted is a value, not ''", done.stderr), f"{words}: {done}")


def test_a_run_with_nothing_left_to_do_says_so():
    partita(f"run {lenet_plan()} --steps 4 --save four --timeline none")
    found = partita(f"run {lenet_plan()} --steps 3 --resume four --timeline none")
    check("no step was done" in found.out and "four is at step 4" in found.out and "nan" not in found.out, found.out)


def test_a_machine_that_does_not_fit_says_so_without_a_precision():
    plan = edited(lenet_plan(), 'machine: "local"', 'machine: "nowhere"', "nowhere.textproto")
    error = refuses(f"simulate {plan}", 3, "made for machine 'nowhere': unknown machine")
    check("precision" not in error["error"]["message"], error)
    error = refuses(f"simulate {lenet_plan()} --machine local --devices 99", 2, "99 devices are asked for")
    check("precision" not in error["error"]["message"], error)


if __name__ == "__main__":
    run(globals(), "BadInputTest")
