#!/usr/bin/env python3
"""What partita has to do with the system around it: files that are not ordinary, standard streams, signals.

Called as harness.py says.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import threading
import time

import harness
from harness import QUICK, Skipped, check, lenet_plan, partita, refuses, run

NOBODY = 65534


def start(line, **more):
    return subprocess.Popen([harness.BINARY] + line.split(), **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                                                **more})


def ended(process, seconds=60):
    """(exit status, stdout, stderr) of a process that ends by itself."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"it did not end within {seconds} s") from None
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def wait_for(path, pattern, seconds=60):
    end = time.monotonic() + seconds
    while not re.search(pattern, pathlib.Path(path).read_text()):
        check(time.monotonic() < end, f"'{pattern}' was not said: {pathlib.Path(path).read_text()}")
        time.sleep(0.02)


def outputs(path):
    """Command lines that write a file there."""
    plan = lenet_plan()
    return (f"plan mlp_tiny --strategy data_parallel {QUICK} --replace -o {path}",
            f"simulate {plan} -o {path}",
            f"run {plan} --steps 1 --timeline none --save {path}",
            f"run {plan} --steps 1 --timeline {path}")


# ------------------------------------------------------------------------------------------------------------ files


def test_a_device_is_written_and_stays():
    device = pathlib.Path("null")
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # one of its own, lest a fault costs the machine's
        device.write_text("x")
    except OSError:
        raise Skipped("only root can make a device") from None
    for line in outputs(device):
        partita(line)
        check(device.is_char_device(), f"partita {line} has replaced the device")


def test_links_stay_and_modes_are_kept():
    for k, line in enumerate(outputs("link")):
        real = pathlib.Path(f"real{k}")
        real.write_text("old")
        real.chmod(0o640)
        pathlib.Path("link").unlink(missing_ok=True)
        pathlib.Path("link").symlink_to(real)
        partita(line)
        check(pathlib.Path("link").is_symlink() and not real.is_symlink(), f"partita {line} has replaced the link")
        check(real.read_bytes() != b"old", f"partita {line} did not write what the link leads to")
        check(stat.S_IMODE(real.stat().st_mode) == 0o640, f"partita {line} has changed the mode")


def test_pipes_get_what_a_file_would():
    os.mkfifo("fifo")
    for line in outputs("fifo")[:3]:
        got = []
        reader = threading.Thread(target=lambda sink=got: sink.append(pathlib.Path("fifo").read_bytes()))
        reader.start()
        partita(line)
        reader.join(10)
        check(got and len(got[0]) > 100, f"partita {line} wrote {got} into the pipe")
        check(pathlib.Path("fifo").is_fifo(), f"partita {line} has replaced the pipe")
    shown = partita(f"simulate {lenet_plan()} -o /dev/stdout")
    check("traceEvents" in json.loads(shown.out), shown.out)
    check("written: /dev/stdout" in shown.err, shown.err)
    shown = partita(f"plan mlp_tiny --strategy data_parallel {QUICK} -o /dev/stdout")
    pathlib.Path("through_stdout.plan.textproto").write_text(shown.out, encoding="utf-8")
    partita("verify --quick through_stdout.plan.textproto")
    check("next:" not in shown.err, shown.err)
    refused = partita(f"simulate {lenet_plan()} -o /dev/stdout --json", 2)
    check("/dev/stdout is where the answer of --json goes" in refused.json()["error"]["message"], refused.out)


def test_a_plan_from_a_stream_has_no_files_beside_it():
    refuses("simulate /dev/stdin", 2, "-o is missing")


def test_a_full_device_is_a_failure_of_the_device():
    for line in outputs("/dev/full"):
        result = partita(line, 5)
        check(re.search("cannot write '/dev/full': No space left", result.err), result.err)
    check(pathlib.Path("/dev/full").is_char_device(), "the device was replaced")


def test_data_that_shrink_during_a_run_are_named():
    for name, cut in (("train-images-idx3-ubyte", 5000), ("train-labels-idx1-ubyte", 20)):
        folder = pathlib.Path(f"digits_{cut}")
        folder.mkdir()
        samples = 2000
        (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, samples, 28, 28) +
                                                         bytes(samples * 784))
        (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, samples) +
                                                         bytes(k % 10 for k in range(samples)))
        with open("shrinks.txt", "w", encoding="utf-8") as said:
            process = start(f"run {lenet_plan()} --data {folder} --steps 1000000 --timeline none", stderr=said)
        wait_for("shrinks.txt", "step 1/")
        os.truncate(folder / name, cut)
        code, _, _ = ended(process)
        said = pathlib.Path("shrinks.txt").read_text()
        check(code == 3, f"exit {code}: {said}")
        check(re.search(rf"partita: .*{folder}/{name}.*cut it off", said), said)


def as_nobody(line, expect):
    """Runs a copy of the program, in the folder above, without privileges."""
    unprivileged = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(["../partita"] + line.split(), capture_output=True, text=True, timeout=120, check=False,
                          **unprivileged)
    check(done.returncode == expect, f"partita {line}: exit {done.returncode} instead of {expect}: {done.stderr}")
    return harness.Result(done)


def test_read_only_folders_are_answered_with_flags_that_the_verb_has():
    here, plan = os.getcwd(), lenet_plan().absolute()
    base = pathlib.Path(tempfile.mkdtemp())
    folder = base / "read_only"
    folder.mkdir()
    base.chmod(0o755)
    shutil.copy(harness.BINARY, base / "partita")
    shutil.copy(plan, folder / "p.textproto")
    folder.chmod(0o555)
    os.chdir(folder)
    try:
        for line in ("plan mlp_tiny --devices 2 --oversubscribe --profile_time 0 --evaluations 9",
                     "plan mlp_tiny --devices 2 --oversubscribe --profile_time 5 --evaluations 9 -o /dev/null",
                     "compare mlp_tiny --devices 2 --oversubscribe --profile_time 5 --evaluations 9",
                     "profile mlp_tiny --devices 2 --oversubscribe", "simulate p.textproto",
                     "import lenet -o lenet.textproto",
                     "run p.textproto --steps 1 --save w.safetensors",
                     "run p.textproto --steps 1 --timeline t.json", "machine discover"):
            result = as_nobody(line, 3)
            flag = re.search(r"Try (-\w|--\w+) with another place", result.err)
            check(flag, f"partita {line} names no flag: {result.err}")
            verb = " ".join(line.split()[:2]) if line.startswith("machine") else line.split()[0]
            check(re.search(rf"(^|\s|,){flag[1]}\b", as_nobody(f"{verb} --help", 0).out),
                  f"partita {verb} has no flag {flag[1]}: {result.err}")
        result = as_nobody("run p.textproto --steps 1", 0)
        check(re.search(r"note: no measured timeline: .*p\.textproto\.measured\.json.*Try --timeline", result.out),
              result.out)
    finally:
        os.chdir(here)
        folder.chmod(0o755)
        shutil.rmtree(base)


# ---------------------------------------------------------------------------------------------------------- streams


def test_stdout_that_cannot_be_written_ends_with_5():
    for line in ("list models", "list models --json", "--help", "--version", "plan --help", "import lenet"):
        with open("/dev/full", "wb") as full:
            code, _, err = ended(start(line, stdout=full))
        check(code == 5 and "cannot write to stdout: No space left" in err, f"partita {line}: exit {code}: {err}")
        code, _, err = ended(start(line, stdout=None, preexec_fn=lambda: os.close(1)))
        check(code == 5 and "cannot write to stdout" in err, f"partita {line} >&-: exit {code}: {err}")
    with open("/dev/full", "wb") as full:
        code, _, err = ended(start("plan lennet --json", stdout=full))
    check(code == 2 and "lennet" in err, f"an error's own code: exit {code}: {err}")


def test_a_file_that_is_written_does_not_take_the_place_of_a_closed_stream():
    def close_all():
        os.closerange(0, 3)
    code, _, _ = ended(start(f"simulate {lenet_plan()} -o closed.json", stdout=None, stderr=None, preexec_fn=close_all))
    check(code == 5, f"exit {code}: the answer was lost")
    whole = pathlib.Path("closed.json").read_text()
    check(whole.startswith("{") and whole.rstrip().endswith("}") and "predicted step" not in whole, whole[-200:])


def test_a_pipe_whose_reader_goes_ends_it_without_a_word():
    for line in ("list operators", "list models --json", "plan --help"):
        process = start(line)
        process.stdout.close()
        err = process.stderr.read().decode()
        code = process.wait(60)
        check(code == -signal.SIGPIPE and err == "", f"partita {line}: exit {code}: {err}")
        process = start(line, restore_signals=False)  # SIGPIPE is ignored here
        process.stdout.close()
        err = process.stderr.read().decode()
        code = process.wait(60)
        check(code == 5 and "Broken pipe" in err, f"partita {line}: exit {code}: {err}")


def test_a_run_whose_messages_nobody_reads_ends_as_at_ctrl_c():
    process = start(f"run {lenet_plan()} --steps 1000000 --timeline none --save unheard.safetensors")
    check(any(b"step 1/" in line for line in process.stderr), "it did not train")
    process.stderr.close()
    process.stdout.read()
    code = process.wait(60)
    check(code == 130, f"exit {code}")
    check(pathlib.Path("unheard.safetensors").exists(), "nothing was saved")


# ---------------------------------------------------------------------------------------------------------- signals


def training(name, ignored=()):
    def ignore():
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
    with open(f"{name}.txt", "w", encoding="utf-8") as said:
        process = start(f"run {lenet_plan()} --steps 1000000 --timeline none --save {name}.safetensors", stderr=said,
                        preexec_fn=ignore)
    wait_for(f"{name}.txt", "step 1/")
    return process


def test_a_hangup_saves_as_ctrl_c_does():
    """One that comes twice, as `timeout` sends its own to the process and to its group, is one."""
    for numbers in ((signal.SIGHUP,), (signal.SIGHUP, signal.SIGHUP), (signal.SIGINT,), (signal.SIGTERM,),
                    (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
        process = training("hangup")
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.002)  # two at once would be one for the system, too
        code, out, _ = ended(process)
        check(code == 130 and "written: hangup.safetensors" in out, f"{numbers}: exit {code}: {out}")
        os.remove("hangup.safetensors")


def test_signals_that_were_ignored_at_the_beginning_stay_so():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        process = training("ignored", [number])
        process.send_signal(number)
        time.sleep(0.5)
        check(process.poll() is None, f"signal {number} has ended it")
        process.send_signal(signal.SIGTERM if number == signal.SIGINT else signal.SIGINT)
        code, _, _ = ended(process)
        check(code == 130, f"exit {code}")


def test_nohup_goes_on_when_the_terminal_closes():
    said = pathlib.Path("nohup.txt")
    with said.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(["nohup", harness.BINARY, "run", str(lenet_plan()), "--steps", "1000000",
                                    "--timeline", "none"], stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    wait_for(said, "step 1/")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    check(process.poll() is None, "nohup did not help")
    process.send_signal(signal.SIGINT)
    check(process.wait(60) == 130, "it does not end")


if __name__ == "__main__":
    run(globals(), "SurroundingsTest")
