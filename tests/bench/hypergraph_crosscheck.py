#!/usr/bin/env python3
"""Compares our partitioner of hypergraphs with Mt-KaHyPar on the hypergraphs of models.

hypergraph_crosscheck.py BENCH [ARGUMENTS FOR BENCH...]

BENCH is build/tests/bench/hypergraph_bench. Mt-KaHyPar is the Python package `mtkahypar` (pip install mtkahypar). Both
partition the same files under the same limit of balance; printed is the sum over nets of cost * (parts - 1), and ours
over theirs. Exit status: 0; 1 where a partition of either breaks the limit, or ours costs more than twice as much;
77 without the package.
"""

import subprocess
import sys
import tempfile
import time

IMBALANCE = 0.05
SEEDS = range(1, 5)  # as many runs as ours
FACTOR = 2.0


def read_hmetis(path):
    with open(path) as file:
        rows = [[int(word) for word in line.split()] for line in file]
    nets, vertices, kind = rows[0]
    assert kind == 11 and len(rows) == 1 + nets + vertices, path
    costs = [row[0] for row in rows[1:nets + 1]]
    pins = [[pin - 1 for pin in row[1:]] for row in rows[1:nets + 1]]
    return costs, pins, [row[0] for row in rows[nets + 1:]]


def scaled(numbers):
    """Numbers whose sum fits in 31 bits, as Mt-KaHyPar wants them, in nearly the same proportions."""
    factor = max(1, sum(numbers) / 2**29)
    return [max(1, round(number / factor)) for number in numbers]


def cost_of(costs, pins, parts):
    return sum(cost * (len({parts[pin] for pin in net}) - 1) for cost, net in zip(costs, pins))


class Peer:
    def __init__(self):
        import mtkahypar
        self.mtkahypar = mtkahypar
        self.session = mtkahypar.initialize(1)

    def best(self, costs, pins, weights, count, preset):
        """The least cost of all seeds, over the heaviest part's share of the mean, and seconds."""
        least = None
        begin = time.process_time()
        for seed in SEEDS:
            self.mtkahypar.set_seed(seed)
            context = self.session.context_from_preset(preset)
            context.set_partitioning_parameters(count, IMBALANCE, self.mtkahypar.Objective.KM1)
            context.logging = False
            graph = self.session.create_hypergraph(context, len(weights), len(pins), pins, scaled(weights), scaled(costs))
            found = graph.partition(context)
            parts = [found.block_id(vertex) for vertex in range(len(weights))]
            heaviest = max(sum(w for w, p in zip(weights, parts) if p == part) for part in range(count))
            cost = cost_of(costs, pins, parts)
            if least is None or cost < least[0]:
                least = (cost, heaviest * count / sum(weights))
        return (*least, time.process_time() - begin)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        peer = Peer()
    except ImportError:
        print("skipped: no package mtkahypar; pip install mtkahypar", file=sys.stderr)
        return 77
    presets = [("default", peer.mtkahypar.PresetType.DEFAULT), ("quality", peer.mtkahypar.PresetType.QUALITY)]
    bad = 0
    print("| hypergraph: vertices, nets, pins | parts | ours: balance, s | "
          + " | ".join(f"Mt-KaHyPar {name}: balance, s" for name, _ in presets) + " | ours over the better |")
    print("|---|---|---|" + "---|" * (len(presets) + 1))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*sys.argv[1:], "--folder", folder, "--imbalance", str(IMBALANCE)], check=True, text=True,
                              stdout=subprocess.PIPE)
        for line in done.stdout.splitlines():
            model, count, vertices, nets, pin_count, ours, balance, seconds = line.split()
            costs, pins, weights = read_hmetis(f"{folder}/{model}.hgr")
            count, ours = int(count), int(ours)
            found = [peer.best(costs, pins, weights, count, preset) for _, preset in presets]
            ratio = ours / max(1, min(cost for cost, _, _ in found))
            print(f"| {model}: {vertices}, {nets}, {pin_count} | {count} | {ours:,}: {balance}, {seconds} | "
                  + " | ".join(f"{cost:,}: {b:.4f}, {s:.3f}" for cost, b, s in found) + f" | {ratio:.3f} |", flush=True)
            bad += ratio > FACTOR or float(balance) > 1 + IMBALANCE + 1e-3
            bad += any(b > 1 + IMBALANCE + 1e-3 for _, b, _ in found)
    return 1 if bad else 0


sys.exit(main())
