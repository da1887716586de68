#!/usr/bin/env python3
"""AlexNet's training step against PyTorch's CPU build: same weights, batch, loss and SGD with momentum, one device.

    tests/bench/pytorch_race.py [--build build] [--threads 1,2] [--steps 30]

Both programs stay up and take turns, one step each, so that what else the machine does touches both alike. First the losses of
three steps must agree to 1e-4; then the median of the ratio ours / theirs is printed for each number of threads. PyTorch has its
best settings: channels-last memory, a C library that keeps its memory, and torch.compile where --compile is given. Exit status 1
where losses differ or a ratio is above --limit.

PyTorch is installed into an environment of its own (--environment), from PyPI, the first time; PARTITA_TORCH_PYTHON names a Python
that has it already. The model has no dropout, so that losses can be compared. Needs `partita` and `step_bench` (-DPARTITA_BENCH=ON).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

TUNABLES = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
RATE, MOMENTUM = 0.01, 0.9

TORCH_SIDE = '''
import json, os, sys, time
import torch
from safetensors.torch import load_file, save_file
folder, threads, batch, compiled, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "yes", sys.argv[5]
torch.set_num_threads(threads)
nn = torch.nn

def network():
    def conv(i, o, k, s=1, p=0):
        return [nn.Conv2d(i, o, k, s, p), nn.ReLU(inplace=True)]
    pool = lambda: nn.MaxPool2d(3, 2)
    net = nn.Module()
    net.features = nn.Sequential(*conv(3, 64, 11, 4, 2), pool(), *conv(64, 192, 5, 1, 2), pool(), *conv(192, 384, 3, 1, 1),
                                 *conv(384, 256, 3, 1, 1), *conv(256, 256, 3, 1, 1), pool())
    net.classifier = nn.Sequential(nn.Identity(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Identity(),
                                   nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000))
    net.forward = lambda x: net.classifier(torch.flatten(net.features(x), 1))
    return net

torch.manual_seed(0)
net = network()
if mode == "make":
    save_file({k: v.contiguous() for k, v in net.state_dict().items()}, folder + "/weights.safetensors")
    save_file({"x": torch.randn(batch, 3, 224, 224), "y": torch.randint(0, 1000, (batch,))}, folder + "/batch.safetensors")
    print(json.dumps({"torch": torch.__version__}))
    sys.exit(0)
net.load_state_dict(load_file(folder + "/weights.safetensors"))
data = load_file(folder + "/batch.safetensors")
net = net.to(memory_format=torch.channels_last)
x, y = data["x"].to(memory_format=torch.channels_last), data["y"]
optimizer = torch.optim.SGD(net.parameters(), lr=float(sys.argv[6]), momentum=float(sys.argv[7]), fused=mode == "fused")
loss_of = nn.CrossEntropyLoss()
forward = torch.compile(lambda x: net(x)) if compiled else net
for line in sys.stdin:
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(forward(x), y)
    loss.backward()
    optimizer.step()
    print(json.dumps({"ms": (time.perf_counter() - start) * 1e3, "loss": float(loss.detach())}), flush=True)
'''


def python_with_torch(environment):
    named = os.environ.get("PARTITA_TORCH_PYTHON")
    if named:
        return named
    python = environment / "bin" / "python"
    if subprocess.run([python, "-c", "import torch, safetensors"], capture_output=True, check=False).returncode == 0 \
            if python.exists() else False:
        return str(python)
    print(f"installing PyTorch into {environment}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "torch", "safetensors", "numpy"]
    if subprocess.run(install + ["--index-url", "https://download.pytorch.org/whl/cpu", "--extra-index-url",
                                 "https://pypi.org/simple"], check=False).returncode != 0:
        subprocess.run(install, check=True)
    return str(python)


def without_dropout(text):
    """The native form of a model, its dropout operators taken out."""
    replaced, kept = {}, []
    for item in re.split(r"(?m)^(?=item \{)", text):
        for name, source in replaced.items():
            item = item.replace(f'input: "{name}"', f'input: "{source}"')
        if 'kind: "dropout"' in item:
            replaced[re.search(r'name: "([^"]+)"', item).group(1)] = re.search(r'input: "([^"]+)"', item).group(1)
        else:
            kept.append(item)
    return "".join(kept)


class Side:
    """A program that makes a step for each line that it is sent."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a program ended: {self.process.args}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def write_plan(partita, folder, threads, batch):
    """A plan for one device of `threads` threads."""
    machine = folder / f"machine{threads}.textproto"
    plan = folder / f"plan{threads}.textproto"
    run = lambda *command: subprocess.run([partita, *map(str, command)], check=True, capture_output=True, cwd=folder)
    run("machine", "discover", "--devices", 1, "-o", machine)
    text = machine.read_text()
    cores = re.findall(r"cores: (\d+)", text)
    if threads > len(cores):
        sys.exit(f"{threads} threads asked for, this machine has {len(cores)} cores")
    for core in cores[threads:]:
        text = re.sub(rf"\n\s*cores: {core}\b", "", text)
    machine.write_text(re.sub(r"threads: \d+", f"threads: {threads}", text))
    run("plan", folder / "model.textproto", "--batch", batch, "--machine", machine, "--strategy", "single_device",
        "--profile_time", 0, "-o", plan)
    return plan


def race(options, folder, python, threads):
    plan = write_plan(options.build / "tools/partita", folder, threads, options.batch)
    common = [folder, threads, options.batch]
    environment = dict(os.environ, GLIBC_TUNABLES=TUNABLES, OMP_NUM_THREADS=str(threads))
    theirs = {"eager": Side([python, "-c", TORCH_SIDE, *common, "no", "eager", RATE, MOMENTUM], environment)}
    if options.compile:
        theirs["compiled"] = Side([python, "-c", TORCH_SIDE, *common, "yes", "eager", RATE, MOMENTUM], environment)
    theirs["fused optimizer"] = Side([python, "-c", TORCH_SIDE, *common, "no", "fused", RATE, MOMENTUM], environment)
    ours = Side([options.build / "tests/bench/step_bench", plan, folder / "model.textproto", folder / "weights.safetensors",
                 folder / "batch.safetensors", RATE, MOMENTUM])
    good = True
    for step in range(3):
        mine = ours.step()["loss"]
        for name, side in theirs.items():
            loss = side.step()["loss"]
            if abs(mine - loss) > 1e-4:
                print(f"{threads} threads, step {step}: loss {mine}, PyTorch ({name}) {loss}")
                good = False
    times = {name: [] for name in [*theirs, "partita"]}
    for _ in range(options.steps):
        times["partita"].append(ours.step()["ms"])
        for name, side in theirs.items():
            times[name].append(side.step()["ms"])
    for side in [ours, *theirs.values()]:
        side.close()
    best = min(theirs, key=lambda name: statistics.median(times[name]))
    ratio = statistics.median(a / b for a, b in zip(times["partita"], times[best]))
    for name, list_ in times.items():
        print(f"{threads} threads  {name:16s} median {statistics.median(list_):8.1f} ms  min {min(list_):8.1f} ms")
    print(f"{threads} threads  ratio to PyTorch ({best}): median of {options.steps} pairs {ratio:.3f}, "
          f"of minima {min(times['partita']) / min(times[best]):.3f}")
    return good and ratio <= options.limit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--environment", type=pathlib.Path, default=pathlib.Path.home() / ".cache/partita/torch")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/race"), help="for models and data")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--compile", action="store_true", help="try torch.compile too")
    options = parser.parse_args()
    options.build, folder = options.build.resolve(), options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = python_with_torch(options.environment)
    made = subprocess.run([python, "-c", TORCH_SIDE, folder, "1", str(options.batch), "no", "make"], check=True,
                          capture_output=True, text=True)
    print(f"AlexNet, batch {options.batch}, PyTorch {json.loads(made.stdout)['torch']}")
    subprocess.run([options.build / "tools/partita", "import", "alexnet", "-o", folder / "alexnet.textproto"], check=True,
                   capture_output=True)
    (folder / "model.textproto").write_text(without_dropout((folder / "alexnet.textproto").read_text()))
    good = [race(options, folder, python, int(threads)) for threads in dict.fromkeys(options.threads.split(","))]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
