"""AlexNet-S trained by four hosts over links of 100, 400 and 1000 Mbit/s: what crosses them, and how long steps take.

Called as tests/tools/cli/harness.py says; PATTERN selects speeds and models. The hosts are namespaces of this machine
(network.py), so their ranks share its cores, and the machine file that the plans are made for says so: every device has
its own node, and all name one host. Bytes are payload: what the interface of each host has received without the
packets' heads, from the difference of a long and a short run, so that what starting and ending cost is left out. A
plan's prediction has the bytes that each device receives in a step.
"""

import json
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "cli"))
import harness  # noqa: E402
import network  # noqa: E402
from harness import check, partita  # noqa: E402

HOSTS = 4
BATCH = 64
STRATEGIES = ("data_parallel", "one_weird_trick", "single_device", "searched")
BYTES_TOLERANCE = 0.05
# Besides the plan's: messages about stopping, results and signs of life, for each host and step.
OTHER_BYTES = 20_000
ORDER_MARGIN = 1.10  # predictions closer than that need not be in the measured order
LATENCY_NS = 50_000  # of a host's link, a half of a small message's
MEMORY = 4_000_000_000
PROFILE = "hosts.profile.db"
PLAN_SECONDS = 10


def device_class():
    """The text of this machine's device class, and its cores."""
    text = partita("machine show local").out
    begin = text.index("device_classes {")
    end = text.index("\n}", begin) + 2
    return text[begin:end], [int(core) for core in re.findall(r"cores: (\d+)", text)]


def machine_file(mbit):
    """Four nodes whose devices take turns on the cores of this machine, each with a link to a switch."""
    described, cores = device_class()
    path = pathlib.Path(f"machine_{mbit}.textproto")
    speed = int(network.payload_bytes_per_second(mbit))
    devices, links = "", ""
    for n in range(HOSTS):
        devices += (f'  devices {{ name: "cpu{n}" kind: CPU device_class: "cpu" node: {n} memory_bytes: {MEMORY} '
                    f'cores: {cores[n % len(cores)]} threads: 1 host: "this computer" }}\n')
        links += (f'  links {{ name: "eth{n}" ends: "cpu{n}" ends: "switch" bytes_per_second: {speed} '
                  f'latency_ns: {LATENCY_NS} }}\n')
    path.write_text(f'name: "four_hosts"\ntopology {{\n{devices}{links}}}\n{described}\n')
    return path


def profiled(model, batch, seconds):
    """Measures the model's kernels, once; the speed of the links does not matter to them."""
    done = pathlib.Path(f"{model}.{batch}.profiled")
    if not done.exists():
        partita(f"profile {model} --batch {batch} --machine {machine_file(1000)} --profile {PROFILE} "
                f"--profile_time {seconds}")
        done.touch()


class Planned:
    """A strategy's plan for a machine, and what it predicts for a step."""

    def __init__(self, model, batch, strategy, machine):
        self.strategy = strategy
        self.path = pathlib.Path(f"{model}.{strategy}.{machine.stem}.plan.textproto")
        how = f"--strategy {strategy} --profile_time 0"
        if strategy == "searched":  # what the profile lacks of its kernels is measured
            how = f"--evaluations 1000 --profile_time {PLAN_SECONDS}"
        partita(f"plan {model} --batch {batch} --machine {machine} --profile {PROFILE} {how} -o {self.path} "
                "--replace")
        prediction = re.search(r"\nprediction {(.*?)\n}", self.path.read_text(), re.DOTALL)[1]
        self.seconds = int(re.search(r"time_ns: (\d+)", prediction)[1]) / 1e9
        received = re.search(r"received_bytes: \[(.*)\]", prediction)
        self.received = [int(number) for number in received[1].split(",")]
        check(len(self.received) == HOSTS, f"{self.path} has bytes for {len(self.received)} devices")


class Measured:
    """Two runs of a plan on the hosts: bytes for each host and seconds of a step."""

    def __init__(self, hosts, planned, steps):
        short, _ = launched(hosts, planned.path, steps[0])
        long, answer = launched(hosts, planned.path, steps[1])
        self.received = [(b - a) / (steps[1] - steps[0]) for a, b in zip(short, long)]
        self.seconds = answer["median_step_ms"] / 1e3


def launched(hosts, plan, steps):
    """(payload that each host has received, what `run --json` answers)."""
    before = hosts.received()
    done = hosts.run_on_first([harness.BINARY, "launch", "-n", HOSTS, "--hosts", hosts.hostfile, "--agent", hosts.agent,
                               "run", plan, "--steps", steps, "--timeline", "none", "--json"], 600)
    check(done.returncode == 0, f"launch of {plan}: exit {done.returncode}: {done.stderr}")
    return [b - a for a, b in zip(before, hosts.received())], json.loads(done.stdout)


def faults_of_bytes(planned, measured):
    """One line for each host whose interface has received more or less than the plan says."""
    lines = []
    for number, (wanted, found) in enumerate(zip(planned.received, measured.received)):
        if abs(found - wanted) > BYTES_TOLERANCE * wanted + OTHER_BYTES:
            lines.append(f"{planned.strategy}: host {number} has received {found:,.0f} bytes in a step; the plan says "
                         f"{wanted:,}")
    return lines


def faults_of_order(rows):
    """One line for each pair of strategies that the measurement puts the other way round."""
    lines = []
    for a, measured_a in rows:
        for b, measured_b in rows:
            if a.seconds * ORDER_MARGIN < b.seconds and measured_a.seconds > measured_b.seconds:
                lines.append(f"{a.strategy} is predicted to be faster than {b.strategy} ({a.seconds:.3f} s, "
                             f"{b.seconds:.3f} s) and was slower ({measured_a.seconds:.3f} s, {measured_b.seconds:.3f} s)")
    return lines


def print_table(title, rows):
    print(title)
    print(f"  {'strategy':16} {'predicted':>10} {'measured':>10} {'ratio':>6} {'planned MB':>11} {'received MB':>12}")
    for planned, measured in rows:
        print(f"  {planned.strategy:16} {planned.seconds:8.3f} s {measured.seconds:8.3f} s "
              f"{planned.seconds / measured.seconds:6.2f} {sum(planned.received) / 1e6:11.2f} "
              f"{sum(measured.received) / 1e6:12.2f}", flush=True)


# A step takes half a minute where links are slow.
STEPS = {1000: (2, 8), 400: (2, 6), 100: (1, 3)}


def compare(mbit, pixels, batch=BATCH, steps=None, profile_seconds=60):
    """Every strategy planned and run on hosts with links of so many Mbit/s: [(planned, measured)]. Checks the bytes."""
    model = f"alexnet_s{pixels}"
    profiled(model, batch, profile_seconds)
    machine = machine_file(mbit)
    rows = []
    with network.Network(HOSTS, ".") as hosts:
        hosts.shape(mbit)
        for strategy in STRATEGIES:
            planned = Planned(model, batch, strategy, machine)
            rows.append((planned, Measured(hosts, planned, steps or STEPS[mbit])))
    print_table(f"{model}, batch {batch}, 4 hosts, {mbit} Mbit/s:", rows)
    faults = [line for row in rows for line in faults_of_bytes(*row)]
    check(not faults, "\n".join(faults))
    return rows


def check_order(mbit, pixels):
    faults = faults_of_order(compare(mbit, pixels))
    check(not faults, "\n".join(faults))


# What takes how long is no matter for continuous integration, where machines are shared; most bytes are of gradients,
# whatever the batch.
def test_bytes_at_1000_mbit_of_56_pixels():
    compare(1000, 56, batch=16, steps=(1, 3), profile_seconds=10)


def test_order_at_1000_mbit_of_56_pixels():
    check_order(1000, 56)


def test_order_at_400_mbit_of_56_pixels():
    check_order(400, 56)


def test_order_at_100_mbit_of_56_pixels():
    check_order(100, 56)


def test_order_at_1000_mbit_of_128_pixels():
    check_order(1000, 128)


def test_order_at_400_mbit_of_128_pixels():
    check_order(400, 128)


def test_order_at_100_mbit_of_128_pixels():
    check_order(100, 128)


if __name__ == "__main__":
    REASON = network.why_not()
    if REASON is not None:
        harness.run(harness.skipping(globals(), REASON), "FourHostsTest")
    network.enter()
    harness.run(globals(), "FourHostsTest")
