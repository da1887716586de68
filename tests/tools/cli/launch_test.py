"""Plans over several processes, as users start them; and what happens when one of these fails.

Called as harness.py says. The cases that break a rank do so as often as LAUNCH_FAULTS says (3 times without it).
"""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import QUICK, check, data, partita, refuses

FAULTS = int(os.environ.get("LAUNCH_FAULTS", "3"))
DEADLINE = 5  # seconds until a rank that failed is named
# A grey image of 8 x 8 pixels.
JPEG = base64.b64decode("""
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19i
Z2hnPk1xeXBkeFxlZ2P/wAALCAAIAAgBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUF
BAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVW
V1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi
4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AI6//9k=
""")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = "mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1"


def two_devices():
    """A plan that splits lenet over two of this machine's devices, made once."""
    path = pathlib.Path("two.plan.textproto")
    if not path.exists():
        partita(f"plan lenet --batch 16 --strategy one_weird_trick {QUICK} -o {path}")
    return path


def rank_processes(plan):
    """{rank: process id} of the processes that run this plan."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode().split("\0")
            environment = (folder / "environ").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        rank = [v.split("=")[1] for v in environment if v.startswith("OMPI_COMM_WORLD_RANK=")]
        if rank and "run" in command and any(word.endswith(str(plan)) for word in command) \
                and os.path.basename(command[0]) == os.path.basename(harness.BINARY):
            found[int(rank[0])] = int(folder.name)
    return found


class Running:
    """A launch under way."""

    def __init__(self, words, env=None, said="said.txt"):
        self.said = pathlib.Path(said)
        with self.said.open("w") as said:
            self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said,
                                            env={**os.environ, **(env or {})})

    def wait_for(self, pattern, seconds):
        """Until stderr has the pattern; fails after so many seconds."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.said.read_text()):
            if time.monotonic() > end:
                self.process.terminate()
                raise AssertionError(f"'{pattern}' was not said within {seconds} s; said was: {self.said.read_text()}")
            time.sleep(0.02)

    def code(self):
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the launch did not end; said was: {self.said.read_text()}") from None


def launched(plan, arguments=""):
    running = Running([harness.BINARY, "launch", "-n", "2", "run", str(plan)] + arguments.split())
    running.wait_for("step 1/", 60)
    return running


def nothing_is_left(plan):
    end = time.monotonic() + 5
    while rank_processes(plan) and time.monotonic() < end:
        time.sleep(0.05)
    check(not rank_processes(plan), f"processes are left: {rank_processes(plan)}")


def break_rank(rank, action, pattern):
    """Training goes on until `action(process id)`; then the rank is named, all end with 5, nothing is left."""
    plan = two_devices()
    for _ in range(FAULTS):
        running = launched(plan, "--steps 1000000 --timeline none")
        action(rank_processes(plan)[rank])
        running.wait_for(rf"partita: rank {rank} .*{pattern}", DEADLINE)
        code = running.code()
        check(code == 5, f"exit {code} instead of 5")
        nothing_is_left(plan)


def test_processes_train_as_threads_do():
    plan = two_devices()
    arguments = f"run {plan} --steps 7 --init_seed 3 --timeline none --json"
    alone = partita(f"{arguments} --save alone.safetensors").json()
    together = partita(f"launch -n 2 {arguments} --save together.safetensors").json()
    check(alone["losses"] == together["losses"], f"{alone['losses']} and {together['losses']}")
    check(together["written"] == ["together.safetensors"], f"{together['written']}")
    same = pathlib.Path("alone.safetensors").read_bytes() == pathlib.Path("together.safetensors").read_bytes()
    check(same, "the checkpoints differ")


def test_ranks_killed_on_the_way_resume_from_one_step():
    plan = two_devices()
    for every in ("20", "100ms"):  # by the clock, rank 0's counts
        name = f"ranks.{every}.st"
        running = launched(plan, f"--steps 1000000 --timeline none --save {name} --save_every {every}")
        running.wait_for("checkpoint: .*step-.*(.|\n)*checkpoint: .*step-", 30)
        for process in rank_processes(plan).values():
            os.kill(process, signal.SIGKILL)
        running.code()
        nothing_is_left(plan)
        newest = max(pathlib.Path(".").glob(f"{name}.step-*"))
        step = int(newest.name[-6:])
        line = f"run {plan} --steps {step + 30} --timeline none"
        found = partita(f"launch -n 2 {line} --save {name} --save_every {every} --resume {name}")
        check(f"resumed: {newest}, step {step}\n" in found.err, found.err)
        partita(f"{line} --save one_process.st")
        same = pathlib.Path(name).read_bytes() == pathlib.Path("one_process.st").read_bytes()
        check(same, f"--save_every {every}: other weights than of the run in one process that was not killed")


def test_rank_0_reads_what_a_run_starts_from():
    plan = two_devices().absolute()
    elsewhere = pathlib.Path("elsewhere")
    elsewhere.mkdir(exist_ok=True)
    partita(f"run {plan} --steps 5 --timeline none --save five.st")
    partita(f"run {plan} --steps 9 --timeline none --save nine.st")
    run = f"{harness.BINARY} run {plan} --steps 9 --timeline none --save ranks_nine.st --resume"

    def resumed(path):
        words = f"{MPIRUN} -n 1 {run} {path} : -n 1 --wdir {elsewhere.absolute()} {run} {path}".split()
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, **AS_ROOT})

    done = resumed("five.st")
    check(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    check(pathlib.Path("nine.st").read_bytes() == pathlib.Path("ranks_nine.st").read_bytes(), "other weights")
    done = resumed("absent.st")
    check(done.returncode == 3 and "absent.st" in done.stderr, f"exit {done.returncode}: {done.stderr}")


def test_the_timeline_has_all_ranks():
    plan = two_devices()
    partita(f"launch -n 2 run {plan} --steps 2 --timeline ranks.json")
    events = json.loads(pathlib.Path("ranks.json").read_text())["traceEvents"]
    devices = {event["pid"] for event in events if event.get("ph") == "X"}
    check(len(devices) == 2, f"the timeline has devices {devices}")


def test_ranks_under_mpirun_itself():
    plan = two_devices()
    done = subprocess.run(f"{MPIRUN} -n 2 {harness.BINARY} run {plan} --steps 2 --timeline none --json".split(),
                          capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **AS_ROOT})
    check(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    check(len(json.loads(done.stdout)["losses"]) == 2, done.stdout)


def test_ranks_in_the_environment_of_torchrun():
    plan = two_devices()
    arguments = f"run {plan} --steps 7 --init_seed 3 --timeline none --json"
    alone = partita(arguments).json()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([harness.BINARY] + arguments.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                              "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
             for rank in (0, 1)]
    said = [rank.communicate(timeout=60) for rank in ranks]
    check([rank.returncode for rank in ranks] == [0, 0], f"{said}")
    check(said[1][0] == "", f"rank 1 wrote: {said[1][0]}")
    check(json.loads(said[0][0])["losses"] == alone["losses"], f"{said[0][0]} and {alone['losses']}")


def test_wrong_numbers_of_ranks_are_refused():
    result = partita(f"launch -n 3 run {two_devices()} --steps 2", 3)
    check(re.search("has 2 devices and the run 3 processes", result.err), result.err)
    check(result.err.count("has 2 devices") == 1, f"said more than once: {result.err}")
    refuses(f"launch -n 0 run {two_devices()}", 2, "0")
    refuses("launch -n 2", 2, "launch wants what every rank shall do")
    refuses("launch -n 2 plan lenet", 2, "launch wants what every rank shall do")


def test_a_rank_that_a_library_ends_is_told_from_one_that_ends_by_itself():
    # What mpirun ends in is what the first rank has ended in that failed.
    folder = pathlib.Path("other_mpirun")
    folder.mkdir(exist_ok=True)
    path = {**os.environ, "PATH": f"{folder.absolute()}:{os.environ['PATH']}"}
    pathlib.Path("empty.plan.textproto").touch()
    for code_of_rank, wanted in ((3, 5), (1, 5), (130, 5), (137, 5), (64 + 1, 1), (64 + 3, 3), (0, 0)):
        (folder / "mpirun").write_text(f"#!/bin/sh\nexit {code_of_rank}\n")
        (folder / "mpirun").chmod(0o755)
        done = subprocess.run([harness.BINARY, "launch", "-n", "2", "run", "empty.plan.textproto"], env=path, check=False)
        check(done.returncode == wanted, f"exit {done.returncode} instead of {wanted} where a rank ends in {code_of_rank}")


def test_a_rank_is_named_where_mpirun_forwards_nothing():
    folder = pathlib.Path("silent_mpirun")
    folder.mkdir(exist_ok=True)
    forwarded = pathlib.Path("forwarded.txt").absolute()
    forwarded.write_text("")
    (folder / "mpirun").write_text(f"#!/bin/sh\nexec {shutil.which('mpirun')} \"$@\" 2>{forwarded}\n")
    (folder / "mpirun").chmod(0o755)
    plan = two_devices()
    running = Running([harness.BINARY, "launch", "-n", "2", "run", str(plan), "--steps", "1000000"],
                      {"PATH": f"{folder.absolute()}:{os.environ['PATH']}"}, "named.txt")
    end = time.monotonic() + 60
    while "step 1/" not in forwarded.read_text() and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(rank_processes(plan)[1], signal.SIGKILL)
    running.wait_for("partita: rank 1 .*has ended without a word", DEADLINE)
    code = running.code()
    check(code == 5, f"exit {code} instead of 5")
    check("without a word" not in forwarded.read_text(), "said more than once")


def test_an_agent_starts_ranks_on_other_hosts():
    pathlib.Path("hosts.txt").write_text("elsewhere slots=2\n")
    agent = pathlib.Path("agent.sh")
    agent.write_text("#!/bin/sh\necho \"$1\" >reached.txt\nshift\nexec sh -c \"$*\"\n")
    agent.chmod(0o755)
    partita(f"launch -n 2 --hosts hosts.txt --agent {agent.absolute()} run {two_devices()} --steps 2 --timeline none")
    check(pathlib.Path("reached.txt").read_text() == "elsewhere\n", "another host was asked for")
    refuses(f"launch -n 2 --agent {agent} run {two_devices()}", 2, "--hosts")


def test_the_key_of_a_launch_is_in_no_argument():
    plan = two_devices()
    pathlib.Path("hosts.txt").write_text("elsewhere slots=2\n")
    agent = pathlib.Path("telling_agent.sh")
    agent.write_text("#!/bin/sh\necho \"$*\" >commands.txt\nshift\nexec sh -c \"$*\"\n")
    agent.chmod(0o755)
    running = Running([harness.BINARY, "launch", "-n", "2", "--hosts", "hosts.txt", "--agent", str(agent.absolute()),
                       "run", str(plan), "--steps", "1000000", "--timeline", "none"])
    running.wait_for("step 1/", 60)
    key = re.compile(rb"[0-9a-f]{64}")
    ranks = rank_processes(plan)
    check(sorted(ranks) == [0, 1], f"ranks {ranks}")
    for process in ranks.values():
        environment = pathlib.Path(f"/proc/{process}/environ").read_bytes()
        check(b"PARTITA_KEY=" in environment, "a rank was given no key")
        check(not key.search(environment), "a rank shows its key")
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        check(not (str(plan).encode() in command and key.search(command)), f"the key is in {command}")
    check(not key.search(pathlib.Path("commands.txt").read_bytes()), "the agent was told the key")
    os.kill(ranks[1], signal.SIGKILL)
    running.wait_for("partita: rank 1 .*has ended without a word", DEADLINE)
    check(running.code() == 5, "other exit code")


def test_an_error_of_all_ranks_keeps_its_code():
    result = partita("launch -n 2 run absent.plan.textproto", 3)
    check(result.err.count("absent.plan.textproto") == 1, f"said more than once: {result.err}")


def test_ranks_refuse_folded_batch_normalisation_unless_told():
    plan = "folded.plan.textproto"
    partita(f"plan {data('batch_norm/default.onnx')} --strategy data_parallel --devices 2 --profile_time 0 -o {plan}")
    result = partita(f"launch -n 2 run {plan} --steps 2 --timeline none", 3)
    check("folded batch normalisation" in result.err and "--accept_folded" in result.err, result.err)
    result = partita(f"launch -n 2 run {plan} --steps 2 --timeline none --accept_folded")
    check(result.err.count("warning: ") == 1 and result.err.count("loss: mean cross-entropy") == 1, result.err)


def test_a_nan_is_a_failed_check_that_names_the_operator():
    plan = two_devices()
    result = partita(f"launch -n 2 run {plan} --steps 500 --lr 1e38 --timeline none", 1)
    check(re.search(r"the loss is .*: in step \d+ .* operator '\w+' part \d on device [01] produced NaN or infinity, in tensor",
                    result.err), result.err)
    nothing_is_left(plan)


def test_weights_that_are_not_finite_are_found_where_the_loss_still_is():
    plan = two_devices()
    for begin in ["", "launch -n 2 "]:
        result = partita(f"{begin}run {plan} --steps 1 --lr 1e300 --timeline none --save not_finite.safetensors", 1)
        check(re.search(r"after step 1 '.*' .* on device \d holds NaN or infinity: in step 0 .* operator '[\w.]+' part \d "
                        r"on device \d produced NaN or infinity, in tensor '[\w.]+'", result.err), result.err)
        check(not pathlib.Path("not_finite.safetensors").exists(), "weights that are not finite were saved")
    nothing_is_left(plan)


def test_ranks_with_other_options_are_refused():
    plan = two_devices()
    line = f"{harness.BINARY} run {plan} --timeline none --steps"
    done = subprocess.run(f"{MPIRUN} -n 1 {line} 5 : -n 1 {line} 6".split(), capture_output=True, text=True,
                          timeout=120, check=False, env={**os.environ, **AS_ROOT})
    check(done.returncode == 3, f"exit {done.returncode}")
    check(re.search("rank 1 has another options? than rank 0", done.stderr), done.stderr)


def ends_all_ranks_and_saves(number):
    plan = two_devices()
    running = launched(plan, "--steps 1000000 --timeline none --save interrupted.safetensors")
    running.process.send_signal(number)
    code = running.code()
    check(code == 130, f"exit {code}")
    check(pathlib.Path("interrupted.safetensors").exists(), "nothing was saved")
    nothing_is_left(plan)
    os.remove("interrupted.safetensors")


def test_interrupted_ranks_end_after_the_same_step_and_save():
    ends_all_ranks_and_saves(signal.SIGINT)


def test_a_hangup_ends_all_ranks_after_the_same_step_and_saves():
    ends_all_ranks_and_saves(signal.SIGHUP)


def test_a_launch_whose_messages_nobody_reads_ends_as_at_ctrl_c():
    plan = two_devices()
    words = ["launch", "-n", "2", "run", str(plan), "--steps", "1000000", "--timeline", "none", "--save", "unheard"]
    process = subprocess.Popen([harness.BINARY] + words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    check(any(b"step 1/" in line for line in process.stderr), "it did not train")
    process.stderr.close()
    code = process.wait(60)
    check(code == 130 and pathlib.Path("unheard").exists(), f"exit {code}, or nothing was saved")
    nothing_is_left(plan)


def test_an_mpirun_that_is_killed_is_named():
    plan = two_devices()
    running = launched(plan, "--steps 1000000 --timeline none")
    for process, name in processes_with(str(plan)).items():
        if name == "mpirun":
            os.kill(process, signal.SIGKILL)
    code = running.code()
    check(code == 5 and "mpirun was ended by signal 9" in running.said.read_text(),
          f"exit {code}: {running.said.read_text()}")
    nothing_is_left(plan)


def processes_with(word):
    """{process id: command} of the processes that have this word in their command line."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if word in command and int(folder.name) != os.getpid():
            found[int(folder.name)] = os.path.basename(command[0])
    return found


def test_when_the_launch_is_killed_nothing_goes_on():
    pathlib.Path("elsewhere.txt").write_text("elsewhere slots=2\n")
    agent = pathlib.Path("elsewhere.sh")
    agent.write_text("#!/bin/sh\nshift\nexec sh -c \"$*\"\n")
    agent.chmod(0o755)
    temporary = pathlib.Path("temporary").absolute()
    temporary.mkdir()
    shutil.copy(two_devices(), "killed.plan.textproto")
    plan = str(pathlib.Path("killed.plan.textproto").absolute())
    shared = []  # what launches have in shared memory
    for hosts in ("", f"--hosts elsewhere.txt --agent {agent.absolute()}"):
        for also in ("", "mpirun"):  # what else is killed, as by the kernel when memory ends
            running = Running([harness.BINARY, "launch", "-n", "2"] + hosts.split() +
                              ["run", plan, "--steps", "1000000", "--timeline", "none"], {"TMPDIR": str(temporary)})
            running.wait_for("step 1/", 60)
            there = processes_with(plan)
            check(len(there) >= 4, f"not all run: {there}")
            shared += pathlib.Path("/dev/shm").glob(f".partita-*-{running.process.pid}-*")
            for process, name in there.items():
                if process == running.process.pid or name == also:
                    os.kill(process, signal.SIGKILL)
            running.process.wait()
            end = time.monotonic() + DEADLINE
            while processes_with(plan) and time.monotonic() < end:
                time.sleep(0.05)
            check(not processes_with(plan), f"{hosts} {also}: left are {processes_with(plan)}")
            nothing_is_left(plan)
    # The next one removes what they could not, and leaves nothing itself.
    partita_in(temporary, f"launch -n 2 run {plan} --steps 2 --timeline none")
    check(shared and not any(folder.exists() for folder in shared), f"left of {shared}")
    check(not list(temporary.glob("*partita*")) and not list(temporary.glob("ompi*/*")),
          f"left: {list(temporary.rglob('*'))}")


def partita_in(temporary, line, expect=0):
    """As partita(), with another folder for temporary files."""
    done = subprocess.run([harness.BINARY] + line.split(), capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "TMPDIR": str(temporary)})
    check(done.returncode == expect, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return harness.Result(done)


def test_the_folder_for_temporary_files_is_left_as_it_was():
    temporary = pathlib.Path("tmp_of_launch").absolute()
    temporary.mkdir()
    partita_in(temporary, f"launch -n 2 run {two_devices()} --steps 2 --timeline none")
    partita_in(temporary, "launch -n 2 run absent.plan.textproto", 3)
    check(not list(temporary.iterdir()), f"left: {list(temporary.rglob('*'))}")


def without_banners(said):
    check(not re.search(r"-{40}|mpirun|Primary job|MPI_ABORT|MCA|ORTE", said), f"it speaks of mpirun: {said}")


def test_what_mpirun_says_of_itself_is_not_shown():
    without_banners(partita("launch -n 2 run absent.plan.textproto", 3).err)
    without_banners(partita(f"launch -n 3 run {two_devices()} --steps 2", 3).err)
    running = launched(two_devices(), "--steps 1000000 --timeline none")
    os.kill(rank_processes(two_devices())[1], signal.SIGKILL)
    check(running.code() == 5, "it was not noticed")
    without_banners(running.said.read_text())
    # What keeps ranks from starting is said in its words.
    pathlib.Path("unreachable.txt").write_text("elsewhere slots=2\n")
    agent = pathlib.Path("broken_agent.sh")
    agent.write_text("#!/bin/sh\nexit 1\n")
    agent.chmod(0o755)
    result = partita(f"launch -n 2 --hosts unreachable.txt --agent {agent.absolute()} run {two_devices()} --steps 2", 5)
    check("ORTE" in result.err or "daemon" in result.err, f"nothing says why: {result.err}")


def test_wrong_flags_of_the_ranks_are_said_once():
    for flags, pattern in (("--lr -1", "--lr: wanted is a number from 0 on"), ("--no_such_flag", "unknown arguments"),
                           ("--save=", "--save: wanted is a value")):
        harness.refuses(f"launch -n 2 run {two_devices()} {flags}", 2, pattern)
        result = partita(f"launch -n 2 run {two_devices()} {flags}", 2)
        check(len(re.findall("partita: ", result.err)) == 1, result.err)


def test_places_that_cannot_be_written_give_the_same_code_as_alone():
    plan = two_devices()
    pathlib.Path("a_folder").mkdir()
    for output in ("--timeline nowhere/t.json", "--timeline a_folder", "--save nowhere/w.safetensors",
                   "--timeline none --save a_folder"):
        messages = []
        for launch in ("", "launch -n 2 "):
            result = partita(f"{launch}run {plan} --steps 2 {output}", 3)
            said = [line for line in result.err.splitlines() if line.startswith("partita: cannot write")]
            check(len(said) == 1, f"{launch}{output}: {result.err}")
            messages += said
        check(messages[0] == messages[1], f"other messages: {messages}")


def test_a_killed_rank_is_named():
    break_rank(1, lambda process: os.kill(process, signal.SIGKILL), "has ended without a word")


def test_a_killed_rank_0_is_named():
    break_rank(0, lambda process: os.kill(process, signal.SIGKILL), "has ended without a word")


def test_a_stopped_rank_is_named():
    break_rank(1, lambda process: os.kill(process, signal.SIGSTOP), "no sign of life")


def test_a_stopped_rank_0_is_named():
    break_rank(0, lambda process: os.kill(process, signal.SIGSTOP), "no sign of life")


def test_a_rank_that_exits_early_is_named():
    def exits(process):
        os.kill(process, signal.SIGUSR1)  # rank 1 is not asked whether to stop
        time.sleep(0.7)  # sooner it would be a copy of the first
        os.kill(process, signal.SIGUSR1)  # the second time, it exits at once
    break_rank(1, exits, "has ended without a word")


def test_a_full_disk_is_named():
    plan = two_devices()
    folder = pathlib.Path("full")
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise harness.Skipped("only root can mount a small disk")
    try:
        for _ in range(FAULTS):
            result = partita(f"launch -n 2 run {plan} --steps 2 --timeline none --save {folder}/w.safetensors", 5)
            check(re.search(r"partita: rank 0 .*has failed: .*full/w.safetensors.*[Nn]o space", result.err), result.err)
            nothing_is_left(plan)
    finally:
        subprocess.run(["umount", str(folder)], check=False)


def test_an_unreadable_batch_on_one_rank_is_named():
    plan = two_devices()
    for folder in ("good", "bad"):
        for label in range(10):
            images = pathlib.Path(folder) / f"class{label}"
            images.mkdir(parents=True, exist_ok=True)
            for k in range(8):
                broken = folder == "bad" and label == 7 and k == 5
                (images / f"{k}.jpg").write_bytes(JPEG[:30] if broken else JPEG)
    run = f"{harness.BINARY} run {plan} --timeline none --steps 100000 --data good"
    words = MPIRUN.split() + ["-n", "1"] + run.split() + [":", "-n", "1", "unshare", "-m", "sh", "-c",
                                                        f"mount --bind bad good && exec {run}"]
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        raise harness.Skipped("only root can give a rank other files")
    for _ in range(FAULTS):
        running = Running(words, AS_ROOT)
        running.wait_for(r"partita: rank 1 .*has failed: .*good/class7/5.jpg", 60)
        code = running.code()
        check(code == 5, f"exit {code}")
        nothing_is_left(plan)


if __name__ == "__main__":
    harness.run(globals(), "LaunchTest")
