"""Ranks on two hosts that no MPI connects: they meet where they have the run's key, and are refused where they do not.

Called as tests/tools/cli/harness.py says. The hosts are namespaces of this machine (network.py).
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "cli"))
import harness  # noqa: E402
import network  # noqa: E402
from harness import check, partita  # noqa: E402
from meeting_test import KEY, environment, two_devices  # noqa: E402

PORT = "29511"


def ends(hosts, arguments, **variables):
    """(exit code, stdout, stderr) of rank 0 on host 0 and rank 1 on host 1."""
    ranks = []
    for rank, host in enumerate(hosts.hosts):
        said = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": hosts.hosts[0].address, "MASTER_PORT": PORT}
        ranks.append(subprocess.Popen(host.enter() + [harness.BINARY] + arguments.split(), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, env=environment({**said, **variables})))
    said = [rank.communicate(timeout=120) for rank in ranks]
    return [(rank.returncode, *words) for rank, words in zip(ranks, said)]


def test_with_a_key_ranks_of_two_hosts_train_as_one_process_does():
    run = f"run {two_devices()} --steps 5 --init_seed 3 --timeline none --json"
    alone = partita(run).json()["losses"]
    with network.Network(2, ".") as hosts:
        before = hosts.received()
        done = ends(hosts, run, PARTITA_KEY=KEY)
        moved = [now - then for now, then in zip(hosts.received(), before)]
    check([code for code, _, _ in done] == [0, 0], f"{done}")
    check(json.loads(done[0][1])["losses"] == alone, "other losses")
    check(min(moved) > 10_000, f"the hosts exchanged {moved} bytes only")


def test_without_a_key_they_are_told_how_to_give_one():
    with network.Network(2, ".") as hosts:
        done = ends(hosts, f"run {two_devices()} --steps 5 --timeline none")
    for code, out, err in done:
        check(code == 5 and out == "", f"exit {code}: {out}")
        check("PARTITA_KEY" in err and "--key_file" in err, err)


if __name__ == "__main__":
    REASON = network.why_not()
    if REASON is not None:
        harness.run(harness.skipping(globals(), REASON), "KeyedHostsTest")
    network.enter()
    harness.run(globals(), "KeyedHostsTest")
