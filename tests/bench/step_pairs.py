#!/usr/bin/env python3
"""Steps of two builds of Partita in turns, a step each: a change that touches kernels, before and after.

    tests/bench/step_pairs.py BEFORE AFTER [--model resnet18] [--batch 8] [--steps 30] [--limit 1.02]
    tests/bench/step_pairs.py BEFORE AFTER --classes 1000 --features 16 --batch 1024      # a linear layer and its loss

BEFORE and AFTER are build folders with `partita` (tools/) and `step_bench` (tests/bench/, -DPARTITA_BENCH=ON). BEFORE plans the
whole model on one device of all cores, and both run this plan, each in the order that it chooses itself, from the same weights, on
the same random batch. The losses of three steps must agree to 1e-4; then medians and minima of both are printed, and the median of
the ratios after/before of neighbouring steps: of wall time, and of processor time, which tells on a machine that is shared; there
--one_core keeps threads from waiting for each other. Exit status 1 where losses differ or the latter ratio is above --limit.
"""
import argparse
import array
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

LOSS_TOLERANCE = 1e-4
WARM = 3  # steps that are not counted


def write_safetensors(path, tensors):
    """tensors: name -> (type, shape, array)."""
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def items_of(model, kind):
    for item in re.split(r"(?m)^item \{", model):
        if re.match(rf"\s*{kind} \{{", item):
            shape = re.search(r"shape: \[([^\]]*)\]", item)[1]
            yield re.search(r'name: "([^"]+)"', item)[1], [int(extent) for extent in shape.split(",")]


def random_values(name, shape):
    """Weights with the variance of PyTorch's layers; statistics and scales of batch normalisation near 1."""
    generator = random.Random(name)
    count, fan_in = 1, 1
    for d, extent in enumerate(shape):
        count *= extent
        fan_in *= extent if d > 0 else 1
    near_one = len(shape) == 1 and not name.endswith(("bias", "mean"))
    bound = fan_in ** -0.5 if len(shape) > 1 else 0.1
    return array.array("f", (1.0 * near_one + generator.uniform(-bound, bound) for _ in range(count)))


LINEAR = """format_version: 2
name: "linear"
item {{ input {{ name: "x" shape: [{batch}, {features}] }} }}
item {{ weight {{ name: "fc.weight" shape: [{classes}, {features}] fan_in: {features} }} }}
item {{
  operator {{
    name: "fc" kind: "matmul" attribute {{ name: "transposed" flag: true }}
    input: "x" input: "fc.weight"
  }}
}}
logits: "fc"
"""


class Side:
    """A build's step_bench, which makes a step for each line that it is sent."""

    def __init__(self, build, folder, model):
        self.process = subprocess.Popen(
            [pathlib.Path(build) / "tests/bench/step_bench", folder / "plan.textproto", model, folder / "weights.safetensors",
             folder / "batch.safetensors", "0.01", "0.9"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self):
        """{"ms", "loss", "cpu": milliseconds of processor time over all threads}"""
        before = self.processor_ms()
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        return found | {"cpu": self.processor_ms() - before}

    def processor_ms(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


def prepare(options, folder):
    """The model's file; a plan, weights and a batch in the folder."""
    program = str(pathlib.Path(options.before) / "tools/partita")
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    model = folder / "model.textproto"
    if options.classes:
        model.write_text(LINEAR.format(**vars(options)))
    else:
        subprocess.run([program, "import", options.model, "--batch", str(options.batch), "-o", model], **quiet)
    text = model.read_text()
    subprocess.run([program, "plan", model, "--devices", "1", "--strategy", "single_device", "--profile", folder / "profile.db",
                    "--profile_time", "0", "-o", folder / "plan.textproto"], **quiet)
    plan = re.sub(r"(?ms)^(?:order|prediction) \{.*?^\}\n", "", (folder / "plan.textproto").read_text())
    plan = re.sub(r"(?m)^(?:order|task_graph_fingerprint): .*\n", "", plan)
    if options.one_core:
        plan = re.sub(r"threads: \d+", "threads: 1", re.sub(r"cores: \[0, [^\]]*\]", "cores: [0]", plan))
    (folder / "plan.textproto").write_text(plan)
    weights = {name: ("F32", shape, random_values(name, shape)) for name, shape in items_of(text, "weight")}
    write_safetensors(folder / "weights.safetensors", weights)
    (_, shape), generator = next(items_of(text, "input")), random.Random(1)
    count = 1
    for extent in shape:
        count *= extent
    x = array.array("f", (generator.gauss(0, 1) for _ in range(count)))
    y = array.array("q", (generator.randrange(options.classes or 1000) for _ in range(shape[0])))
    write_safetensors(folder / "batch.safetensors", {"x": ("F32", shape, x), "y": ("I64", [shape[0]], y)})
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--classes", type=int, default=0, help="a linear layer of this many results in place of a model")
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--one_core", action="store_true", help="on one core, by one thread")
    parser.add_argument("--limit", type=float, default=1.02)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = prepare(options, folder)
        sides = [Side(build, folder, model) for build in (options.before, options.after)]
        agree = True
        for _ in range(WARM):
            before, after = (side.step()["loss"] for side in sides)
            agree = agree and abs(after - before) <= LOSS_TOLERANCE * max(1, abs(before))
            print(f"loss {before:.7g} before, {after:.7g} after")
        results = [[], []]
        for step in range(options.steps):
            for k in (0, 1) if step % 2 == 0 else (1, 0):
                results[k].append(sides[k].step())
        for what, name in (("ms", "wall time"), ("cpu", "processor time")):
            before, after = ([result[what] for result in side] for side in results)
            ratio = statistics.median(b / a for a, b in zip(before, after))
            for when, of in (("before", before), ("after", after)):
                print(f"{name} {when}: median {statistics.median(of):.3f} ms, least {min(of):.3f} ms, of {len(of)} steps")
            print(f"{name} after/before: {ratio:.3f} median of neighbours, {min(after) / min(before):.3f} of the least")
    return 0 if agree and ratio <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
