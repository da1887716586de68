#!/usr/bin/env python3
"""PyTorch's side of lenet_accuracy_test: torch_lenet.py FOLDER WEIGHTS.

Trains the zoo's lenet on an MNIST-format folder from the weights of a safetensors file, with the
test's settings, batches in file order, and prints the accuracy on the test images after 3 epochs.
Needs torch alone (1.13 and later).
"""
import json
import struct
import sys

import torch

BATCH, EPOCHS, RATE, MOMENTUM = 64, 3, 0.01, 0.9


def read_idx(path):
    data = open(path, "rb").read()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.frombuffer(bytearray(data[4 + 4 * rank:]), dtype=torch.uint8).reshape(shape)


def read_safetensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        assert entry["dtype"] == "F32", name
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]),
                                         dtype=torch.float32).reshape(entry["shape"])
    return tensors


class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(400, 84)
        self.fc2 = torch.nn.Linear(84, 10)

    def forward(self, x):
        pool = torch.nn.functional.max_pool2d
        x = pool(torch.relu(self.conv1(x)), 2)
        x = pool(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def load(folder, split):
    x = read_idx(f"{folder}/{split}-images-idx3-ubyte").float().unsqueeze(1)
    return (x / 255 - 0.1307) / 0.3081, read_idx(f"{folder}/{split}-labels-idx1-ubyte").long()


def main():
    folder, weights = sys.argv[1:]
    net = LeNet()
    net.load_state_dict(read_safetensors(weights))
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    x, y = load(folder, "train")
    for _ in range(EPOCHS):
        for begin in range(0, len(x) - BATCH + 1, BATCH):
            loss = torch.nn.functional.cross_entropy(net(x[begin:begin + BATCH]),
                                                     y[begin:begin + BATCH])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    x, y = load(folder, "t10k")
    with torch.no_grad():
        correct = sum((net(x[i:i + 500]).argmax(1) == y[i:i + 500]).sum().item()
                      for i in range(0, len(x), 500))
    print(f"last loss {loss.item():.6f}, accuracy {correct}/{len(x)} = {correct / len(x):.4f}")


main()
