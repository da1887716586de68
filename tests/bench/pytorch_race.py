#!/usr/bin/env python3
"""AlexNet's training step against PyTorch: same weights, batch, loss and SGD with momentum, one device.

    tests/bench/pytorch_race.py [--build build] [--threads 1,2] [--steps 30]              this machine's cores
    tests/bench/pytorch_race.py --program build/tests/gpu/gpu_suite [--batch 64,128]      a GPU: part of tools/gpu_suite.sh

The programs stay up and take turns, so that what else the machine does touches all alike: on cores one step each, on a GPU a few
steps behind one that is not counted. First the losses of three steps must agree; then the median of the ratio ours / theirs is
printed for each number of threads, or each batch and precision. PyTorch has its best settings: on cores channels-last memory, a C
library that keeps its memory, and torch.compile where --compile is given; on a GPU the best of eager, channels-last, max-autotune
compiled and CUDA graphs, with cudnn.benchmark and its fused SGD; there both sides bring the batch from pinned memory beside
the step before. Exit status 1 where losses differ or a ratio is above --limit, 77
where this Python has no PyTorch for the device.

On cores PyTorch is installed into an environment of its own (--environment), from PyPI, the first time; PARTITA_TORCH_PYTHON names
a Python that has it already. With --program it is the Python that runs this. The model has no dropout, so that losses can be
compared. Without --program: needs `partita` and `step_bench` (-DPARTITA_BENCH=ON).
"""
import argparse
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time

TUNABLES = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
RATE, MOMENTUM = 0.01, 0.9
NO_PYTORCH = 77
# How far losses of the first three steps may be apart, by precision.
LOSS_TOLERANCE = {"float32": 1e-4, "tf32": 5e-3, "float16": 2e-2, "bfloat16": 5e-2}
# A turn: steps that are not counted, steps that are.
TURN_ON_CORES, TURN_ON_GPU = (0, 1), (1, 5)
LONGEST_STEP = 240  # seconds: the first one compiles
GPU_VARIANTS = ("eager", "channels_last", "compiled", "graph")

TORCH_SIDE = '''
import json, os, sys, time
import torch
options = json.loads(sys.argv[1])
folder, batch, device, variant = options["folder"], options["batch"], options["device"], options["variant"]
precision = options["precision"]
nn = torch.nn
if options["threads"]:
    torch.set_num_threads(options["threads"])
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
torch.backends.cudnn.benchmark = True

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
from safetensors.torch import load_file, save_file
if variant == "make":
    save_file({k: v.contiguous() for k, v in net.state_dict().items()}, folder + "/weights.safetensors")
    save_file({"x": torch.randn(batch, 3, 224, 224), "y": torch.randint(0, 1000, (batch,))}, folder + "/batch.safetensors")
    print(json.dumps({"torch": torch.__version__}))
    sys.exit(0)
weights = load_file(folder + "/weights.safetensors")
net.load_state_dict(weights)
data = load_file(folder + "/batch.safetensors")
layout = torch.contiguous_format if variant == "eager" and device != "cpu" else torch.channels_last
net = net.to(device=device, memory_format=layout)
x, y = data["x"].to(device=device, memory_format=layout), data["y"].to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=options["rate"], momentum=options["momentum"],
                            fused=device != "cpu" or variant == "fused optimizer")
loss_of = nn.CrossEntropyLoss()
forward = net.forward
if variant == "compiled":
    forward = torch.compile(lambda x: net.forward(x), mode="max-autotune" if device != "cpu" else None)
half = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(precision)
scaler = torch.amp.GradScaler(device, enabled=precision == "float16" and variant != "graph")

def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=half or torch.bfloat16, enabled=half is not None):
        loss = loss_of(forward(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss

def captured():
    """The step as one CUDA graph; the steps that warm up are undone."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for name, value in net.state_dict().items():
            value.copy_(weights[name])
        for state in optimizer.state.values():
            state["momentum_buffer"].zero_()
    def replay():
        graph.replay()
        return loss
    return replay

def staged():
    """What brings the batch from pinned memory beside the step before, as our side does."""
    pinned = [data["x"].contiguous(memory_format=layout).pin_memory(), data["y"].pin_memory()]
    ahead, copies = [x.clone(), y.clone()], torch.cuda.Stream()
    def feed():
        main = torch.cuda.current_stream()
        main.wait_stream(copies)
        x.copy_(ahead[0])
        y.copy_(ahead[1])
        copies.wait_stream(main)
        with torch.cuda.stream(copies):
            for to, source in zip(ahead, pinned):
                to.copy_(source, non_blocking=True)
    return feed

wait = torch.cuda.synchronize if device != "cpu" else lambda: None
make_step = captured() if variant == "graph" else step
feed = staged() if device != "cpu" else lambda: None
for line in sys.stdin:
    wait()
    start = time.perf_counter()
    feed()
    loss = make_step()
    wait()
    ms = (time.perf_counter() - start) * 1e3
    print(json.dumps({"ms": ms, "loss": float(loss.detach())}), flush=True)
if device != "cpu":
    print(f"{variant}: {torch.cuda.max_memory_allocated()} bytes at most", file=sys.stderr)
'''


def torch_command(python, options, folder, batch, variant, threads=0, precision="float32"):
    return [python, "-c", TORCH_SIDE,
            json.dumps({"folder": str(folder), "threads": threads, "batch": batch, "variant": variant, "precision": precision,
                        "device": options.torch_device, "rate": RATE, "momentum": MOMENTUM})]


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
        """{"ms", "loss"}; None once the program has ended, or was ended since it took too long."""
        try:
            self.process.stdin.write("step\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], LONGEST_STEP)[0]:
                self.process.kill()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else None

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=30)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
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


def take_out(sides, name, why):
    """PyTorch has not every variant everywhere."""
    print(f"PyTorch ({name}) {why}: left out", file=sys.stderr)
    sides.pop(name).close()


def compare_losses(sides, tolerance):
    """What is wrong, or None."""
    wrong = None
    for step in range(3):
        losses = {name: side.step() for name, side in list(sides.items())}
        mine = losses.pop("partita")
        if mine is None:
            return "partita ended"
        for name in [name for name, made in losses.items() if made is None]:
            take_out(sides, name, "ended")
            losses.pop(name)
        for name, made in losses.items():
            if abs(mine["loss"] - made["loss"]) <= tolerance:
                continue
            wrong = wrong or f"step {step}: loss {mine['loss']}, PyTorch ({name}) {made['loss']}"
    return wrong


def race(sides, steps, turn, tolerance):
    """{"losses": what is wrong or None, "ms": {side: [times]}}; ends the programs."""
    wrong = compare_losses(sides, tolerance)
    times = {name: [] for name in sides}
    while wrong != "partita ended" and len(times["partita"]) < steps:
        for name, side in list(sides.items()):
            made = [side.step() for _ in range(sum(turn))]
            if None not in made:
                times[name] += [one["ms"] for one in made[turn[0]:]]
            elif name == "partita":
                wrong = "partita ended"
            else:
                take_out(sides, name, "ended")
                times.pop(name)
    for side in sides.values():
        side.close()
    return {"losses": wrong, "ms": times}


def judge(result, label, options):
    """Prints a race, returns its figures."""
    times = result["ms"]
    figures = {"label": label, "losses_agree": result["losses"] is None,
               "median_ms": {name: statistics.median(list_) for name, list_ in times.items() if list_},
               "min_ms": {name: min(list_) for name, list_ in times.items() if list_}}
    out = sys.stderr if options.json else sys.stdout
    if result["losses"]:
        figures["difference"] = result["losses"]
        print(f"{label}  {result['losses']}", file=out)
    theirs = [name for name in figures["median_ms"] if name != "partita"]
    for name, median in figures["median_ms"].items():
        print(f"{label}  {name:16s} median {median:8.2f} ms  min {figures['min_ms'][name]:8.2f} ms", file=out)
    if not theirs or "partita" not in figures["median_ms"]:
        return figures
    best = min(theirs, key=figures["median_ms"].get)
    figures["best"] = best
    figures["ratio"] = statistics.median(a / b for a, b in zip(times["partita"], times[best]))
    if "eager" in theirs:
        figures["ratio_to_eager"] = statistics.median(a / b for a, b in zip(times["partita"], times["eager"]))
    print(f"{label}  ratio to PyTorch ({best}): median of {len(times[best])} pairs {figures['ratio']:.3f}, "
          f"of minima {figures['min_ms']['partita'] / figures['min_ms'][best]:.3f}", file=out)
    return figures


def make_data(python, options, folder, batch):
    made = subprocess.run(torch_command(python, options, folder, batch, "make"), check=True, capture_output=True, text=True)
    return json.loads(made.stdout)["torch"]


def race_on_cores(options, folder):
    python = python_with_torch(options.environment)
    partita, batch = options.build / "tools/partita", options.batch[0]
    print(f"AlexNet, batch {batch}, PyTorch {make_data(python, options, folder, batch)}")
    subprocess.run([partita, "import", "alexnet", "-o", folder / "alexnet.textproto"], check=True, capture_output=True)
    (folder / "model.textproto").write_text(without_dropout((folder / "alexnet.textproto").read_text()))
    figures = []
    for threads in dict.fromkeys(map(int, options.threads.split(","))):
        plan = write_plan(partita, folder, threads, batch)
        environment = dict(os.environ, GLIBC_TUNABLES=TUNABLES, OMP_NUM_THREADS=str(threads))
        sides = {"partita": Side([options.build / "tests/bench/step_bench", plan, folder / "model.textproto",
                                  folder / "weights.safetensors", folder / "batch.safetensors", RATE, MOMENTUM])}
        for variant in ["eager", "fused optimizer"] + ["compiled"] * options.compile:
            sides[variant] = Side(torch_command(python, options, folder, batch, variant, threads), environment)
        result = race(sides, options.steps, TURN_ON_CORES, LOSS_TOLERANCE["float32"])
        figures.append(judge(result, f"{threads} threads", options))
    return {"races": figures}


def race_on_gpu(options, folder):
    model = subprocess.run([options.program, "model", "alexnet"], check=True, capture_output=True, text=True).stdout
    (folder / "model.textproto").write_text(without_dropout(model))
    report, begin, longest = {"races": [], "no_time_for": []}, time.monotonic(), 0
    for batch in options.batch:
        report["torch"] = make_data(sys.executable, options, folder, batch)
        for precision in options.precisions.split(","):
            started = time.monotonic()
            if 0 < options.seconds < started - begin + longest:
                report["no_time_for"].append({"batch": batch, "precision": precision})
                continue
            sides = {"partita": Side([options.program, "turns", folder / "model.textproto", folder / "weights.safetensors",
                                      folder / "batch.safetensors", RATE, MOMENTUM, "--batch", batch, "--backend", options.backend,
                                      "--precision", precision, *options.program_flags.split()])}
            for variant in options.variants.split(","):
                if variant == "graph" and options.torch_device == "cpu":
                    continue
                command = torch_command(sys.executable, options, folder, batch, variant, precision=precision)
                sides[variant] = Side(command)
            figures = judge(race(sides, options.steps, TURN_ON_GPU, LOSS_TOLERANCE[precision]), f"batch {batch} {precision}", options)
            longest = max(longest, time.monotonic() - started)
            report["races"].append({"batch": batch, "precision": precision, "seconds": time.monotonic() - started, **figures})
            if options.json:
                print(json.dumps(report), flush=True)
    return report


def torch_is_missing(options):
    """Why this Python has no PyTorch for the device; None if it has."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
        import safetensors.torch  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        return f"{sys.executable}: {error}"
    if options.torch_device != "cpu" and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} of {sys.executable} sees no GPU"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--environment", type=pathlib.Path, default=pathlib.Path.home() / ".cache/partita/torch")
    parser.add_argument("--folder", type=pathlib.Path, help="for models and data; default build/race, or a temporary one")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--batch", default="", help="default 32, on a GPU 64,128,256,512")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--compile", action="store_true", help="on cores: try torch.compile too")
    parser.add_argument("--json", action="store_true", help="print the figures in JSON: a line behind each race, each with all so far")
    parser.add_argument("--seconds", type=float, default=0, help="on a GPU: races that would take longer are left out; default no limit")
    parser.add_argument("--program", type=pathlib.Path, help="gpu_suite: the race on a GPU")
    parser.add_argument("--program_flags", default="", help="more flags for it")
    parser.add_argument("--backend", default="cuda", help="of gpu_suite")
    parser.add_argument("--torch_device", help="default cuda with --program, else cpu")
    parser.add_argument("--variants", default=",".join(GPU_VARIANTS), help="of PyTorch, on a GPU; compiled takes minutes")
    parser.add_argument("--precisions", default="float32,tf32", help="on a GPU: any of " + ", ".join(LOSS_TOLERANCE))
    options = parser.parse_args()
    options.torch_device = options.torch_device or ("cuda" if options.program else "cpu")
    options.batch = [int(b) for b in (options.batch or ("64,128,256,512" if options.program else "32")).split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        if options.program:
            options.program = options.program.resolve()
            missing = torch_is_missing(options)
            if missing:
                print(missing, file=sys.stderr)
                return NO_PYTORCH
            options.folder = options.folder or pathlib.Path(temporary)
        options.build, folder = options.build.resolve(), (options.folder or pathlib.Path("build/race")).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        report = race_on_gpu(options, folder) if options.program else race_on_cores(options, folder)
    if options.json:
        print(json.dumps(report))
    return 0 if all(one["losses_agree"] and one.get("ratio", 0) <= options.limit for one in report["races"]) else 1


if __name__ == "__main__":
    sys.exit(main())
