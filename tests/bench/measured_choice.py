#!/usr/bin/env python3
"""Whether a plan that was chosen on this machine is as fast as the best expert's, as a user would meet it.

    tests/bench/measured_choice.py BUILD [--models lenet:64,alexnet:32,resnet18:8,mlp:64] [--runs 10] [--devices 2]
                                   [--steps 15] [--results FILE]

BUILD has `partita` (tools/). Each run begins without a profile database: `partita plan` measures kernels, searches and
chooses by measurement; then `partita compare --measure` runs the written plan and every expert in turns, from the same
prices. Printed for each run: the plan's median step over the best expert's, and what was predicted of both; at the end
for each model how much faster the plan is in the median, and the prediction errors, signed, of plans and of experts.

Exit status 1 where the plan is more than 3 % slower than the best expert in more than one run of twenty, or more than
8 % slower in any. With --results each run is kept as a line of JSON; runs that the file has are not made again. Takes
about two minutes a run, on a machine that does nothing else.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

SLOWER, MUCH_SLOWER, SHARE_WITHIN = 1.03, 1.08, 0.95


def run(command, folder):
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def paired(row, other):
    """The median of one's steps over the other's that were made in turn with them."""
    return statistics.median(a / b for a, b in zip(row["measured_steps_ns"], other["measured_steps_ns"]))


def error_of(row):
    return row["predicted_ms"] / row["measured_ms"] - 1


def one_run(program, model, batch, args):
    with tempfile.TemporaryDirectory() as folder:
        plan, profile = "chosen.plan.textproto", "fresh.db"
        common = [model, "--batch", batch, "--devices", args.devices, "--profile", profile, "--json"]
        made = run([program, "plan", *common[:-1], "-o", plan, "--json"], folder)
        compared = run([program, "compare", model, plan, *common[1:], "--search", "experts", "--measure", "--steps",
                        args.steps], folder)
    experts = [row for row in compared["strategies"] if row.get("expert") and "measured_ms" in row]
    plans = [row for row in compared["strategies"] if plan in row["name"]]
    if len(plans) != 1 or not experts:
        sys.exit(f"compare names {[row['name'] for row in compared['strategies']]}: no plan, or no expert")
    chosen, best = plans[0], min(experts, key=lambda row: row["measured_ms"])
    return {"model": model, "ratio": chosen["measured_ms"] / best["measured_ms"], "paired": paired(chosen, best),
            "measured_ms": chosen["measured_ms"],
            "plan_error": error_of(chosen), "expert_errors": [error_of(row) for row in experts],
            "origin": made["expert"] or made["origin"], "best_expert": best["name"],
            "busy": any("other processes" in text for text in compared["warnings"] + made["warnings"])}


def percent(share):
    return f"{100 * share:+.1f} %"


def summarize(runs):
    print("\n| model | runs | plan over best expert: median, worst | within 3 % | error of plans | of experts | busy |")
    print("|---|---|---|---|---|---|---|")
    for model in dict.fromkeys(one["model"] for one in runs):
        own = [one for one in runs if one["model"] == model]
        ratios = [one["ratio"] for one in own]
        print(f"| {model} | {len(own)} | {statistics.median(ratios):.3f}, {max(ratios):.3f} "
              f"| {sum(ratio <= SLOWER for ratio in ratios)} | {percent(statistics.median(o['plan_error'] for o in own))} "
              f"| {percent(statistics.median(e for o in own for e in o['expert_errors']))} "
              f"| {sum(one['busy'] for one in own)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--models", default="lenet:64,alexnet:32,resnet18:8,mlp:64")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--results", type=pathlib.Path)
    args = parser.parse_args()
    program = (args.build / "tools" / "partita").resolve()
    runs = []
    if args.results is not None and args.results.exists():
        runs = [json.loads(line) for line in args.results.read_text().splitlines()]
    models = [entry.split(":") for entry in args.models.split(",")]
    for number in range(args.runs):  # models take turns: what changes on the machine meets all of them
        for model, batch in models:
            if sum(one["model"] == model for one in runs) > number:
                continue
            one = one_run(program, model, int(batch), args)
            runs.append(one)
            print(f"{model} run {number + 1}: {one['measured_ms']:.3f} ms, {one['ratio']:.3f} of {one['best_expert']} "
                  f"({one['paired']:.3f} step by step); from {one['origin']}, predicted {percent(one['plan_error'])}"
                  f"{', while other processes ran' if one['busy'] else ''}", flush=True)
            if args.results is not None:
                with args.results.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    summarize(runs)
    within = sum(one["ratio"] <= SLOWER for one in runs)
    worst = max(one["ratio"] for one in runs)
    print(f"{within} of {len(runs)} runs at most 3 % slower than the best expert, the worst {percent(worst - 1)}")
    return 0 if within >= SHARE_WITHIN * len(runs) and worst <= MUCH_SLOWER else 1


if __name__ == "__main__":
    sys.exit(main())
