"""The machine that a prediction is of, through the command line: its devices, its cores and its rates."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness
from harness import ELSEWHERE, Skipped, answer, check, partita, refuses, run

FEW = "--profile_time 0 --evaluations 20"


def cores():
    """How many devices `local` has by itself."""
    return len(answer("machine show local", "devices shared_cores")["devices"])


def test_local_has_as_many_devices_as_cores():
    own = cores()
    check(own >= 1, f"{own} cores")
    for verb in (f"plan mlp_tiny {FEW} -o never.textproto", f"compare mlp_tiny {FEW}", "profile mlp_tiny",
                 "machine show local", "machine discover -o never.textproto"):
        for devices in (own + 1, 99):
            refuses(f"{verb} --devices {devices}", 2, rf"may use {own} cores?, and {devices} .*--oversubscribe")
    refuses(f"plan mlp_tiny {FEW} --machine p100-4x4 --oversubscribe -o never.textproto", 2, "leave it away")
    check(not pathlib.Path("never.textproto").exists(), "nothing is written")


def test_devices_that_share_cores_are_named_in_every_answer():
    shared = f"--devices {cores() + 1} --oversubscribe"
    said = "2 devices share 1 core: "
    wanted = {"devices": 2, "cores": 1}
    lines = [f"plan mlp_tiny {FEW} {shared} --strategy data_parallel -o shared.textproto",
             f"compare mlp_tiny {FEW} {shared}",
             "simulate shared.textproto -o shared.json",
             f"profile mlp_tiny {shared} --profile shared.db --profile_time 1",
             f"machine show local {shared}"]
    for line in lines:
        check(said in partita(line).out, f"{line} does not say: {said}")
        check(answer(line, "shared_cores")["shared_cores"] == wanted, line)
    refuses("simulate shared.textproto --devices 99 -o never.json", 2, "--oversubscribe")
    found = answer(f"machine discover {shared} -o shared_machine.textproto", "shared_cores")
    check(found["shared_cores"] == wanted, f"{found}")
    trained = partita("run shared.textproto --steps 1 --timeline none --json")
    check(said in trained.err and trained.json()["shared_cores"] == wanted, trained.err)
    alone = answer(f"plan mlp_tiny {FEW} --devices 1 -o alone.textproto", "shared_cores notes")
    check(alone["shared_cores"] is None and alone["notes"] == [], f"{alone}")


def test_a_run_on_fewer_cores_than_its_plan_has_says_that_devices_share_them():
    if cores() < 2:
        raise Skipped("one core: the plan itself shares it")
    partita(f"plan lenet --batch 8 {FEW} --devices 2 -o two.textproto")
    first = min(os.sched_getaffinity(0))
    line = "run two.textproto --steps 2 --timeline none --json".split()
    ways = [(["taskset", "-c", str(first)], line), (["taskset", "-c", str(first)], ["launch", "-n", "2"] + line)]
    for way, words in ways:
        if shutil.which(way[0]) is None:
            raise Skipped(f"no {way[0]}")
        done = harness.Result(subprocess.run(way + [harness.BINARY] + words, capture_output=True, text=True, check=False))
        check(done.code == 0 and "note: 2 devices share 1 core: " in done.err, f"{words}: {done.code} {done.err}")
        found = done.json()
        check(found["shared_cores"] == {"devices": 2, "cores": 1}, f"{found['shared_cores']}")
        check(any("2 devices share 1 core: " in note for note in found["notes"]), f"{found['notes']}")
    found = answer("run two.textproto --steps 2 --timeline none", "shared_cores notes")
    check(found["shared_cores"] is None and not any("share" in note for note in found["notes"]), f"{found}")


def test_a_run_stays_on_the_cores_that_it_was_left_with():
    if cores() < 2:
        raise Skipped("one core")
    partita(f"plan lenet --batch 8 {FEW} --devices 2 -o stay.textproto")
    first = min(os.sched_getaffinity(0))
    running = subprocess.Popen([harness.BINARY] + "run stay.textproto --steps 1000000 --timeline none".split(),
                               stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {first}))
    try:
        for line in running.stderr:
            if "step 1/" in line:
                break
        used = {tuple(os.sched_getaffinity(int(thread))) for thread in os.listdir(f"/proc/{running.pid}/task")}
        check(used == {(first,)}, f"threads on {used}")
    finally:
        running.kill()
        running.communicate()


def test_a_machine_without_a_rate_for_the_precision_is_refused():
    wanted = r"'p100'; it would be priced as float32. Add .*precision_rates { precision: \"float16\""
    refuses(f"plan mlp_tiny {ELSEWHERE} --precision float16 -o never.textproto", 3, wanted)
    refuses(f"compare mlp_tiny {ELSEWHERE} --precision float16", 3, wanted)
    text = partita("machine show p100-4x4 --devices 2").out
    pathlib.Path("file.textproto").write_text(text)
    flags = f"mlp_tiny --machine file.textproto {FEW}"
    refuses(f"plan {flags} --precision float16 -o never.textproto", 3, wanted)
    partita(f"plan {flags} -o plain.textproto")
    refuses("simulate plain.textproto --precision float16 -o never.json", 3, wanted)
    rate = 'precision_rates { precision: "float16" matrix_flops: 2e13 }'
    pathlib.Path("file.textproto").write_text(text.replace("device_classes {", "device_classes { " + rate))
    found = answer(f"plan {flags} --precision float16 -o half.textproto", "precision notes")
    check(found["precision"] == "float16" and found["notes"] == [], f"{found}")


def test_whether_gpus_are_deterministic_is_remembered_and_said():
    flags = f"mlp_tiny {ELSEWHERE} --batch 8 --replace -o kind.textproto"
    for option, other in (("", " --nondeterministic"), (" --nondeterministic", "")):
        found = answer(f"plan {flags}{option}", "predicted_ns nondeterministic")
        check(found["nondeterministic"] == bool(option), f"{found}")
        again = answer("simulate kind.textproto -o kind.json", "predicted_ns nondeterministic")
        for key in ("predicted_ns", "nondeterministic"):
            check(again[key] == found[key], f"{key}: {again[key]} is not {found[key]}")
        line = "run kind.textproto --backend cpu --steps 1 --timeline none"
        alike = partita(line + option)
        check("deterministic" not in alike.err, alike.err)
        differs = partita(line + other)
        check("note: the plan was priced " in differs.err and "--nondeterministic" in differs.err, differs.err)
    # Of cores there is one kind.
    partita(f"plan mlp_tiny --devices 1 {FEW} --nondeterministic --replace -o cores.textproto")
    check("deterministic" not in partita("run cores.textproto --steps 1 --timeline none").err, "a note about cores")


def tensor_machine(precision):
    """A file of two GPUs with a rate for a precision."""
    path = f"{precision}_machine.textproto"
    machine = partita("machine show p100-4x4 --devices 2").out
    rate = f'precision_rates {{ precision: "{precision}" matrix_flops: 1e14 }}'
    pathlib.Path(path).write_text(machine.replace("device_classes {", "device_classes { " + rate))
    return path


def test_a_plan_is_priced_in_a_precision_and_run_in_it():
    flags = f"alexnet --batch 64 --strategy data_parallel {ELSEWHERE}"
    partita(f"plan {flags} -o plain.textproto")
    check("precision" not in pathlib.Path("plain.textproto").read_text(), "float32 is what a plan says nothing of")
    flags = flags.replace("p100-4x4", tensor_machine("bfloat16")) + " --precision bfloat16"
    planned = answer(f"plan {flags} -o half.textproto", "precision predicted_ms")
    check(planned["precision"] == "bfloat16", planned)
    check('precision: "bfloat16"' in pathlib.Path("half.textproto").read_text(), "the plan says bfloat16")
    times = {}
    for plan, precision in (("half", "bfloat16"), ("half", "float32"), ("plain", "float32")):
        asked = "" if (plan, precision) != ("half", "float32") else "--precision float32"
        found = answer(f"simulate {plan}.textproto {asked} -o s.json", "precision predicted_ms")
        check(found["precision"] == precision, found)
        times[plan, precision] = found["predicted_ms"]
    check(times["half", "bfloat16"] < min(times["half", "float32"], times["plain", "float32"]), times)
    refuses("simulate half.textproto --machine ethernet-4x1g -o s.json", 2, "in bfloat16.*--precision float32")


def test_a_plan_priced_in_another_precision_runs_in_float32_on_cores_and_says_so():
    machine = tensor_machine("tf32")
    flags = f"lenet --batch 8 --strategy data_parallel {ELSEWHERE}".replace("p100-4x4", machine)
    partita(f"plan {flags} --precision tf32 -o tf32.textproto")
    run = partita("run tf32.textproto --steps 1 --backend cpu --timeline none --json")
    check("priced in tf32 and runs in float32" in run.err and run.json()["precision"] == "float32", run.err)
    refuses("run tf32.textproto --steps 1 --backend cpu --precision tf32", 2, "the cpu backend computes in float32")
    found = partita("verify tf32.textproto --quick")
    check("priced in tf32 and runs in float32" in found.out and "equal" in found.out, found.out)


def test_classes_that_stay_with_float32_are_named():
    text = partita("machine show p100-4x4 --devices 2").out
    own = re.search(r"device_classes \{.*?\n\}\n", text, re.S).group(0)
    rate = 'precision_rates { precision: "tf32" matrix_flops: 2e13 }'
    second = text.index('name: "n0.gpu1"')
    text = text[:second] + text[second:].replace('device_class: "p100"', 'device_class: "other"', 1)
    text = text.replace("device_classes {", "device_classes { " + rate)
    text += own.replace('name: "p100"', 'name: "other"', 1)
    pathlib.Path("mixed.textproto").write_text(text)
    line = f"plan mlp_tiny --machine mixed.textproto {FEW} --precision tf32 --backend other=cpu -o mixed.plan.textproto"
    said = "tf32 on devices of class p100; those of class other compute in float32"
    check(said in partita(line).out and said in answer(line, "notes")["notes"], f"plan does not say: {said}")
    plan = pathlib.Path("mixed.plan.textproto").read_text()
    check('float32_classes: "other"' in plan and 'precision: "tf32"' in plan, plan)


@contextlib.contextmanager
def busy_cores():
    """Processes that compute, two for each core."""
    spin = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(spin) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_profiling_beside_busy_processes_warns():
    with busy_cores():
        done = partita("profile mlp_tiny --devices 1 --profile busy.db --profile_time 1 --json")
    found = done.json()
    check(re.search("other processes kept .* cores busy", str(found["warnings"])), f"{found}")
    check("warning: while measuring" in done.err, done.err)


def test_two_processes_that_profile_notice_each_other():
    line = "profile lenet --devices 1 --profile_time 3 --json --profile"
    both = [subprocess.Popen([harness.BINARY, *line.split(), f"{name}.db"], stdout=subprocess.PIPE, text=True)
            for name in ("one", "other")]
    for process, peer in zip(both, reversed(both)):
        answered = json.loads(process.communicate(timeout=600)[0])
        found = re.search(r"another partita measured too \(process ([^)]*)\)", str(answered["warnings"]))
        # Who was there before both, another test's, is the one that both find.
        named = {int(number) for number in re.findall(r"\d+", found[1])} if found else set()
        noticed = peer.pid in named or named - {one.pid for one in both}
        check(noticed, f"{process.pid} did not notice {peer.pid}: {answered}")


def chain(count):
    """The text of a machine whose devices have a switch each, in a row."""
    parts = []
    for d in range(count):
        parts.append(f'devices {{ name: "d{d}" kind: GPU device_class: "gpu" node: {d} memory_bytes: 16000000000 }}')
        speed = "bytes_per_second: 10000000000 latency_ns: 1000"
        parts.append(f'links {{ name: "port{d}" ends: "d{d}" ends: "s{d}" {speed} }}')
        if d > 0:
            parts.append(f'links {{ name: "wire{d}" ends: "s{d - 1}" ends: "s{d}" {speed} }}')
    line = "{ latency_ns: 5000 bytes_per_second: 2e11 }"
    figures = f"matrix_flops: 1e13 other_flops: 5e12 memory_bytes_per_second: 7e11 copy {line} add {line} fill {line}"
    devices = "\n  ".join(parts)
    return f'name: "chain"\ntopology {{\n  {devices}\n}}\ndevice_classes {{ name: "gpu" {figures} }}\n'


def megabytes(line):
    """What the program takes at most for a command line that succeeds."""
    process = subprocess.Popen([harness.BINARY, *line.split()], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == 0, f"partita {line}: exit {process.returncode}")
    return usage.ru_maxrss / 1024


def test_a_chain_of_4096_devices_takes_little_memory():
    pathlib.Path("chain.textproto").write_text(chain(4096))
    plan = f"plan mlp_tiny --batch 32 --machine ./chain.textproto --devices 32 {FEW} -o chain.plan.textproto"
    for line in ("machine show ./chain.textproto", plan, "simulate chain.plan.textproto -o chain.json"):
        taken = megabytes(line)
        check(taken < 300, f"partita {line} took {taken:.0f} MB")


def test_a_plan_beside_data_parallelism_on_all_of_4096_devices_takes_little_memory():
    """Pricing the baseline is pricing sums of 4,096 ranks in which everybody sends to everybody."""
    pathlib.Path("chain.textproto").write_text(chain(4096))
    line = "plan lenet --batch 4096 --machine ./chain.textproto --strategy data_parallel -o all.plan.textproto"
    taken = megabytes(line)
    check(taken < 1300, f"partita {line} took {taken:.0f} MB")


def test_a_machine_is_created_in_one_line_and_planned_for():
    line = "machine create --nodes 2 --gpus 8 --gpu h100-sxm --network 400Gb/s -o made.textproto"
    said = partita(line).out
    check("written: made.textproto" in said and "n0.gpu0..n1.gpu7" in said, said)
    text = pathlib.Path("made.textproto").read_text()
    check('device_class: "h100"' in text and "bytes_per_second: 50000000000" in text, text)
    check(len(text.splitlines()) < 90, f"{len(text.splitlines())} lines")
    found = answer(line, "devices written options name")
    devices = found["devices"]
    check(len(devices) == 1 and devices[0]["count"] == 16 and devices[0]["last_node"] == 1, f"{devices}")
    check(partita("machine show ./made.textproto").out.startswith("# h100-2x8: 2 nodes of 8"), "show")
    planned = answer(f"plan lenet --batch 64 --machine ./made.textproto --precision bfloat16 {FEW} -o made.plan.textproto",
                     "predicted_ms precision")
    check(planned["precision"] == "bfloat16", f"{planned}")
    again = answer("simulate made.plan.textproto -o made.json", "predicted_ms")
    check(again["predicted_ms"] == planned["predicted_ms"], f"{again['predicted_ms']} {planned['predicted_ms']}")
    partita(line + " --set h100.matrix_flops=1e12 --set leaf.latency_ns=77")
    changed = pathlib.Path("made.textproto").read_text()
    check("matrix_flops: 1000000000000" in changed and "latency_ns: 77" in changed, changed)
    check("replaced: made.textproto, which described 'h100-2x8'" in partita(line).out, "what was there is not named")
    pathlib.Path("mine.textproto").write_text("my notes\n", encoding="utf-8")
    refuses("machine create -o mine.textproto", 2, "'mine.textproto' is there and no machine file: it would be lost")
    check(pathlib.Path("mine.textproto").read_text() == "my notes\n", "the notes are gone")


def test_a_profile_of_this_host_is_not_for_other_machines():
    line = f"plan lenet --machine p100-4x4 --devices 2 {FEW} -o of_p100.plan.textproto --json"
    found = answer(line + " --profile mine.db", "notes")
    check(any("'mine.db' is not looked at" in note for note in found["notes"]), f"{found['notes']}")
    check(not any("is not looked at" in note for note in answer(line, "notes")["notes"]), "a note without a reason")


def test_what_cannot_be_created_is_refused():
    create = "machine create -o never.textproto"
    refuses(f"{create} --gpus 9", 2, "on a switch up to 8; wanted are 9.*--link pcie")
    refuses(f"{create} --gpu h1000", 2, "h1000")
    refuses(f"{create} --network 400", 2, "400Gb/s or 50GB/s")
    refuses(f"{create} --set h100.speed=1", 2, "matrix_flops, other_flops")
    refuses(f"{create} --set a100.matrix_flops=1", 2, "there are: h100")
    refuses(f"{create} --nodes 100000", 2, "131072")
    check(not pathlib.Path("never.textproto").exists(), "nothing is written")


def test_all_faults_of_a_machine_file_are_named_at_once():
    text = partita("machine show ethernet-4x1g").out
    for old, new in (('name: "eth2"', 'name: "eth1"'), ("other_flops: 500000000000", "other_flops: -1"),
                     ('device_class: "xeon32"', 'device_class: "xeon"')):
        check(old in text, old)
        text = text.replace(old, new)
    pathlib.Path("faulty.textproto").write_text(text)
    refuses("machine show ./faulty.textproto", 3,
            r"(?s)6 faults:.*'eth1' is there twice.*other_flops -1.*'host0' is of class.*'host3' is of class")


def test_machines_of_65536_devices_take_little_memory():
    for name in ("h100-8192x8", "tpu-32x32x64", "ethernet-65536"):
        partita(f"machine show {name} --devices 8")
        taken = megabytes(f"machine show {name}")
        check(taken < 100, f"partita machine show {name} took {taken:.0f} MB")
    listed = partita("list machines").out
    check("h100-Nx8" in listed and "p100-4x4" in listed, listed)
    refuses("machine show h100-2x9", 2, "h100-Nx8")


if __name__ == "__main__":
    run(globals(), "MachineTest")
