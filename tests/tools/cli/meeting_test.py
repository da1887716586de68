"""Ranks that meet without MPI, as torchrun starts them: what they are told, who is let in, and strangers at the door.

Called as harness.py says. All traffic is of the loopback interface.
"""

import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import harness
from harness import QUICK, check, partita

KEY = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "OMPI_", "PMI", "TORCHELASTIC_", "PARTITA_KEY")


def two_devices():
    """A plan that splits lenet over two of this machine's devices, made once."""
    path = pathlib.Path("two.plan.textproto")
    if not path.exists():
        partita(f"plan lenet --batch 16 --strategy one_weird_trick {QUICK} -o {path}")
    return path


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def environment(variables):
    """This one, without what a launcher may have said, and with these variables."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**plain, **variables}


class Rank:
    """A process of two."""

    def __init__(self, rank, arguments, **variables):
        said = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", **variables}
        self.process = subprocess.Popen([harness.BINARY] + arguments.split(), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment(said))

    def end(self):
        """Exit code, stdout and stderr."""
        try:
            out, err = self.process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"a rank did not end: {self.process.communicate()}") from None
        return self.process.returncode, out, err


def sockets_of(process, state):
    """Local IPv4 addresses ('127.0.0.1', port) of a process's TCP sockets in this state of /proc/net/tcp."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    addresses = []
    for line in pathlib.Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[9] in inodes and words[3] == state:
            address, port = words[1].split(":")
            addresses.append((socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)))
    return addresses


def catches(process, number):
    caught = re.search(r"SigCgt:\s*([0-9a-f]+)", pathlib.Path(f"/proc/{process}/status").read_text())
    return int(caught[1], 16) >> (number - 1) & 1 == 1


LISTENS, CONNECTED = "0A", "01"


def trained(arguments_of_rank=lambda rank: "", **variables):
    """Losses of two ranks that train lenet."""
    run = f"run {two_devices()} --steps 5 --init_seed 3 --timeline none --json"
    variables = {"MASTER_PORT": str(free_port()), **variables}
    ranks = [Rank(rank, f"{run} {arguments_of_rank(rank)}", **variables) for rank in (0, 1)]
    ends = [rank.end() for rank in ranks]
    check([code for code, _, _ in ends] == [0, 0], f"{ends}")
    return json.loads(ends[0][1])["losses"]


def alone():
    run = f"run {two_devices()} --steps 5 --init_seed 3 --timeline none --json"
    return partita(run).json()["losses"]


def refused(code, pattern, **variables):
    done = subprocess.run([harness.BINARY, "run", str(two_devices()), "--steps", "1", "--timeline", "none"],
                          capture_output=True, text=True, timeout=60, check=False, env=environment(variables))
    check(done.returncode == code, f"{variables}: exit {done.returncode} instead of {code}: {done.stderr}")
    check(re.search(pattern, done.stderr), f"{variables}: '{pattern}' is not in: {done.stderr}")
    check(done.stdout == "", f"an error wrote to stdout: {done.stdout}")


def test_what_a_launcher_cannot_mean_is_wrong_usage():
    two = {"RANK": "0", "WORLD_SIZE": "2"}
    refused(2, r"RANK='x' and no WORLD_SIZE", RANK="x")
    refused(2, r"RANK='x'; wanted: a whole number from 0 to 1", RANK="x", WORLD_SIZE="2")
    refused(2, r"WORLD_SIZE='2' and no RANK", WORLD_SIZE="2")
    refused(2, r"RANK='2'.*from 0 to 1", RANK="2", WORLD_SIZE="2")
    refused(2, r"MASTER_PORT='70000'.*from 1 to 65535", MASTER_PORT="70000", **two)
    refused(2, r"MASTER_PORT='65535'.*from 1 to 65534", MASTER_PORT="65535", TORCHELASTIC_USE_AGENT_STORE="True", **two)
    refused(2, r"MASTER_ADDR='a b'.*host's name", MASTER_ADDR="a b", **two)
    refused(2, r"OMPI_COMM_WORLD_SIZE='two'", OMPI_COMM_WORLD_SIZE="two", OMPI_COMM_WORLD_RANK="0")
    refused(2, r"PMI_RANK='5'.*from 0 to 1", PMI_SIZE="2", PMI_RANK="5")


def test_keys_that_are_none_are_refused():
    path = pathlib.Path("short.key")
    refused(2, r"PARTITA_KEY: the key has 5 characters; wanted: 32", PARTITA_KEY="short")
    for text, mode, pattern in (("short", 0o600, "the key has 5 characters"), (KEY, 0o644, "chmod 600")):
        path.write_text(text)
        path.chmod(mode)
        result = partita(f"run {two_devices()} --steps 1 --timeline none --key_file {path}", 3)
        check(re.search(pattern, result.err), result.err)
        check(KEY not in result.err, "the key is printed")
    result = partita(f"run {two_devices()} --steps 1 --timeline none --key_file absent.key", 3)
    check("absent.key" in result.err, result.err)


def test_ranks_with_a_key_in_the_environment_train_as_one_process_does():
    check(trained(PARTITA_KEY=KEY) == alone(), "other losses")


def test_ranks_with_a_key_file_train_as_one_process_does():
    path = pathlib.Path("run.key")
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    check(trained(lambda rank: f"--key_file {path}") == alone(), "other losses")


def test_ranks_without_a_key_stay_on_loopback_whatever_the_address_is():
    for address in ("203.0.113.7", "no-such-host.invalid"):
        check(trained(MASTER_ADDR=address) == alone(), "other losses")
    port = str(free_port())
    run = f"run {two_devices()} --steps 1000000 --timeline none"
    ranks = [Rank(rank, run, MASTER_ADDR="203.0.113.7", MASTER_PORT=port) for rank in (0, 1)]
    try:
        for line in ranks[0].process.stderr:
            if "step 1/" in line:
                break
        for rank in ranks:
            check(not sockets_of(rank.process.pid, LISTENS), "a rank listens after the meeting")
            outside = [at for at in sockets_of(rank.process.pid, CONNECTED) if at[0] != "127.0.0.1"]
            check(not outside, f"connections at {outside}")
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.end()


def test_ranks_of_several_hosts_without_a_key_are_refused_with_what_to_do():
    refused(2, r"of 2 ranks 1 are of this host.*PARTITA_KEY.*--key_file", RANK="0", WORLD_SIZE="2",
            LOCAL_WORLD_SIZE="1", MASTER_PORT=str(free_port()))


def test_a_rank_that_waits_for_others_ends_when_it_is_asked_to():
    run = f"run {two_devices()} --steps 1 --timeline none --json"
    for asked in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for rank in (0, 1):
            for key in ({}, {"PARTITA_KEY": KEY}):
                waiting = Rank(rank, run, MASTER_PORT=str(free_port()), MASTER_ADDR="127.0.0.1", **key)
                # Soon after the program has begun it waits; before, it ends alike.
                deadline = time.monotonic() + 60
                while not catches(waiting.process.pid, asked) and time.monotonic() < deadline:
                    time.sleep(0.01)
                time.sleep(0.3)
                waiting.process.send_signal(asked)
                code, out, err = waiting.end()
                check(code == 130, f"{asked}, rank {rank}: exit {code}: {err}")
                check("partita: interrupted while waiting for the other ranks" in err, err)
                check(json.loads(out)["error"]["exit_code"] == 130, out)


def test_another_key_is_told_in_words():
    port = str(free_port())
    run = f"run {two_devices()} --steps 1 --timeline none"
    rank_0 = Rank(0, run, MASTER_PORT=port, PARTITA_KEY=KEY)
    try:
        code, _, err = Rank(1, run, MASTER_PORT=port, PARTITA_KEY=KEY[::-1]).end()
        check(code == 5 and "has another key than this rank" in err, f"exit {code}: {err}")
        check(rank_0.process.poll() is None, "rank 0 ended as well")
    finally:
        rank_0.process.kill()
        rank_0.end()


def test_the_key_is_neither_inherited_nor_shown():
    port = str(free_port())
    run = f"run {two_devices()} --steps 1000000 --timeline none"
    ranks = [Rank(rank, run, MASTER_PORT=port, PARTITA_KEY=KEY) for rank in (0, 1)]
    try:
        for line in ranks[0].process.stderr:
            if "step 1/" in line:
                break
        for rank in ranks:
            for name in ("environ", "cmdline"):
                shown = pathlib.Path(f"/proc/{rank.process.pid}/{name}").read_bytes()
                check(KEY.encode() not in shown, f"the key is in {name}")
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.end()


class Strangers:
    """Threads that connect to a port and say what is no handshake, until close()."""

    SIZES = (0, 1, 53, 64, 65, 1 << 20, 1 << 31, (1 << 32) - 1)

    def __init__(self, port, seeds):
        self.port, self.stop, self.connections = port, False, 0
        self.threads = [threading.Thread(target=self._run, args=(seed,)) for seed in seeds]
        for thread in self.threads:
            thread.start()

    def _run(self, seed):
        choice = random.Random(seed)
        kept = []
        while not self.stop:
            try:
                stranger = socket.create_connection(("127.0.0.1", self.port), timeout=0.2)
                self.connections += 1
                said = choice.randrange(4)
                if said == 0:
                    stranger.sendall(struct.pack("<I", choice.choice(self.SIZES)) + choice.randbytes(2000))
                elif said == 1:  # a hello of some purpose and rank, then another message
                    hello = b"partita1" + bytes([choice.randrange(1, 6)])
                    hello += struct.pack("<3I", choice.randrange(3), 0, 2) + choice.randbytes(32)
                    stranger.sendall(struct.pack("<I", len(hello)) + hello)
                    stranger.recv(100)
                    stranger.sendall(struct.pack("<I", 32) + choice.randbytes(32))
                elif said == 2:
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                kept.append(stranger)
                del kept[:-40]
            except OSError:
                time.sleep(0.01)

    def close(self):
        self.stop = True
        for thread in self.threads:
            thread.join()


def memory_of(process):
    """Bytes that it holds."""
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process}/status").read_text())[1])


def test_strangers_at_the_meeting_neither_disturb_nor_grow_it():
    port = free_port()
    run = f"run {two_devices()} --steps 5 --init_seed 3 --timeline none --json"
    rank_0 = Rank(0, run, MASTER_PORT=str(port), PARTITA_KEY=KEY)
    end = time.monotonic() + 30
    while not sockets_of(rank_0.process.pid, LISTENS) and time.monotonic() < end:
        time.sleep(0.02)
    before = memory_of(rank_0.process.pid)
    strangers = Strangers(port, range(4))
    try:
        time.sleep(2)
        grown = memory_of(rank_0.process.pid) - before
        rank_1 = Rank(1, run, MASTER_PORT=str(port), PARTITA_KEY=KEY)
        ends = [rank_0.end(), rank_1.end()]
    finally:
        strangers.close()
    check([code for code, _, _ in ends] == [0, 0], f"{ends}")
    check(json.loads(ends[0][1])["losses"] == alone(), "other losses")
    check(strangers.connections > 50, f"only {strangers.connections} connections")
    check(grown < 16 << 20, f"rank 0 has grown by {grown} bytes")
    print(f"{strangers.connections} connections of strangers with seeds 0 to 3; rank 0 grew by {grown} bytes")


if __name__ == "__main__":
    harness.run(globals(), "MeetingTest")
