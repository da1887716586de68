"""Four computers made of one: network namespaces behind a bridge, each with a host name of its own and a shaped link.

All of it lives in namespaces of one process (see enter()): when that ends, however it ends, the kernel takes
everything back, and the network of this machine is never touched.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

# Of every counted packet: Ethernet 14, IPv4 20, TCP with time stamps 32. What arrives as one packet has one head, also
# where the kernel has joined several; so what is left of the counted bytes is payload, exactly.
HEADERS = 66
FRAME = 1514  # what a full packet takes of a shaped link, as tc counts it
TOOLS = ("unshare", "nsenter", "ip", "tc", "mount", "mpirun")
NAMESPACES = ["unshare", "--net", "--uts", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child=KILL"]
INSIDE = "inside"


def run(*words, **options):
    """Runs a command; raises RuntimeError with what it says where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def why_not():
    """Why hosts cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"this machine lacks {', '.join(absent)}"
    probe = ("ip link add port0 type veth peer name eth0 && ip link add switch type bridge && "
             "tc qdisc add dev eth0 root tbf rate 1mbit burst 32kb limit 64kb")
    done = subprocess.run(NAMESPACES + ["sh", "-c", probe], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"no shaped links between namespaces here: {done.stderr.strip()}"
    return None


def enter():
    """Starts this program again as the first process of namespaces of its own; returns there only."""
    if sys.argv[-1] != INSIDE:
        os.execvp(NAMESPACES[0], NAMESPACES + [sys.executable] + sys.argv + [INSIDE])
    sys.argv.pop()


def payload_bytes_per_second(mbit):
    """What a link of so many Mbit/s carries: 1448 bytes of every full packet."""
    return mbit * 1_000_000 / 8 * (FRAME - HEADERS) / FRAME


class Host:
    """A network and a host name, kept by a process that sleeps."""

    def __init__(self, number):
        self.name = f"host{number}"
        self.address = f"10.77.0.{number + 1}"
        self.keeper = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c",
                                        f"hostname {self.name} && echo ready && exec sleep infinity"],
                                       stdout=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "ready\n":
            raise RuntimeError("a namespace cannot be made")

    def enter(self):
        """The words before a command that is to run there."""
        return ["nsenter", "--target", str(self.keeper.pid), "--net", "--uts"]

    def connect(self, switch_port):
        run("ip", "link", "add", switch_port, "type", "veth", "peer", "name", "eth0", "netns", self.keeper.pid)
        run("ip", "link", "set", switch_port, "master", "switch", "up")
        run(*self.enter(), "ip", "link", "set", "lo", "up")
        run(*self.enter(), "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.enter(), "ip", "link", "set", "eth0", "up")

    def received(self):
        """Bytes of payload so far."""
        link = json.loads(run(*self.enter(), "ip", "-j", "-s", "link", "show", "eth0"))[0]["stats64"]["rx"]
        return link["bytes"] - HEADERS * link["packets"]

    def close(self):
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stdout.close()


class Network:
    """Hosts on one switch, full duplex. `folder`: for files that programs on them need. Use after enter()."""

    def __init__(self, count, folder):
        self.folder = pathlib.Path(folder).absolute()
        self.hosts = []
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "link", "set", "switch", "up")
        for number in range(count):
            self.hosts.append(Host(number))
            self.hosts[-1].connect(f"port{number}")
        self._name_hosts()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number, host in enumerate(self.hosts):
            host.close()  # the kernel takes the port back some time later
            subprocess.run(["ip", "link", "delete", f"port{number}"], capture_output=True, check=False)
        run("ip", "link", "delete", "switch")
        run("umount", "/etc/hosts")  # the next ones have names of their own

    def _name_hosts(self):
        names = "".join(f"{host.address} {host.name}\n" for host in self.hosts)
        (self.folder / "etc_hosts").write_text("127.0.0.1 localhost\n" + names)
        run("mount", "--bind", self.folder / "etc_hosts", "/etc/hosts")
        self.hostfile = self.folder / "hostfile"
        self.hostfile.write_text("".join(f"{host.name} slots=1\n" for host in self.hosts))
        self.agent = self.folder / "agent.sh"
        cases = "".join(f"  {host.name}) keeper={host.keeper.pid} ;;\n" for host in self.hosts)
        self.agent.write_text(f'#!/bin/sh\n# Called as ssh is: HOST COMMAND...\ncase $1 in\n{cases}esac\nshift\n'
                              'exec nsenter --target "$keeper" --net --uts sh -c "$*"\n')
        self.agent.chmod(0o755)

    def shape(self, mbit):
        """Every link from now on carries so many Mbit/s in each direction."""
        # Bytes: a millisecond, but what the kernel joins to one packet at least. It would cut up larger ones, and
        # timers for every frame take more processor time than the ranks leave.
        burst = max(72_000, mbit * 125)
        for number, host in enumerate(self.hosts):
            for place, device in ((host.enter(), "eth0"), ([], f"port{number}")):
                run(*place, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit",
                    "burst", burst, "limit", 4_000_000)

    def received(self):
        return [host.received() for host in self.hosts]

    def environment(self):
        """For programs that use MPI: all messages as TCP."""
        return {**os.environ, "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "TMPDIR": str(self.folder)}

    def run_on_first(self, words, timeout):
        """Runs a command on host 0; its CompletedProcess."""
        return subprocess.run(self.hosts[0].enter() + [str(word) for word in words], capture_output=True, text=True,
                              timeout=timeout, check=False, env=self.environment())
