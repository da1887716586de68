#!/usr/bin/env python3
"""All-reduce between hosts over shaped links: every algorithm beside the MPI library's, in turns.

    tests/bench/allreduce_hosts.py build/tests/bench/allreduce_bench [--hosts 4 8] [--mbit 1000 400 100]
                                   [--megabytes 1 8 64] [--algorithms NAME ...] [--ways mpi tcp] [--seconds 20]

Needs root: the hosts are namespaces of this machine (tests/end_to_end/network.py), one rank each, and share its cores.
What allreduce_bench prints for each number of hosts and speed: minima and medians of the slowest rank's time, and how
many times as fast as the library's all-reduce. Sizes that take a ring longer than --longest seconds are left out.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
import network  # noqa: E402

PORT = 29517  # where rank 0 listens for connections of our own
ALGORITHMS = ("ring", "halving_doubling", "scatter_gather", "multicolor_tree", "hierarchical")


def flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--hosts", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--mbit", type=int, nargs="+", default=[1000, 400, 100])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS)
    parser.add_argument("--ways", nargs="+", choices=["mpi", "tcp"], default=["mpi", "tcp"])
    parser.add_argument("--seconds", type=float, default=20, help="for each size, at most; three rounds at least")
    parser.add_argument("--longest", type=float, default=2)
    return parser.parse_args()


def sizes(megabytes, hosts, mbit, longest):
    """In bytes, without those of which a ring would take longer than so many seconds."""
    fastest = network.payload_bytes_per_second(mbit) * hosts / (2 * (hosts - 1))
    return [m << 20 for m in megabytes if (m << 20) / fastest <= longest]


def measure(wanted, count, mbit):
    """Prints the table of so many hosts at one speed."""
    print(f"{count} hosts, {mbit} Mbit/s: ", end="", flush=True)
    with network.Network(count, ".") as hosts:
        hosts.shape(mbit)
        done = hosts.run_on_first(
            ["mpirun", "--allow-run-as-root", "-n", count, "--oversubscribe", "--bind-to", "none", "--mca",
             "mpi_yield_when_idle", "1", "--hostfile", hosts.hostfile, "--mca", "plm_rsh_agent", hosts.agent,
             wanted.bench, *sizes(wanted.megabytes, count, mbit, wanted.longest), "--algorithms", *wanted.algorithms,
             "--ways", *wanted.ways, "--tcp", f"{hosts.hosts[0].address}:{PORT}", "--seconds", wanted.seconds], 900)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    REASON = network.why_not()
    if REASON is not None:
        sys.exit(f"no hosts can be made: {REASON}")
    network.enter()
    WANTED = flags()
    WANTED.bench = WANTED.bench.absolute()
    for COUNT in WANTED.hosts:
        for MBIT in WANTED.mbit:
            measure(WANTED, COUNT, MBIT)
