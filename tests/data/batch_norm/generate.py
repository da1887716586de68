"""Writes the .onnx files of this folder: one small network with batch normalisation, exported by PyTorch in four ways.

default: torch.onnx.export(net.train(), ...), whose optimizer folds batch normalisation into convolutions and linear layers.
unoptimized: the same with optimize=False, its side file left out, as is usual for models that are shared without weights.
torchscript_training: README's recipe. torchscript_evaluation: folded as well, which only
names show. Needs torch (2.15 was used), onnx and onnxscript; run it in this folder."""
import pathlib

import onnx
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(2)
        self.conv2 = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.hidden = nn.Linear(3 * 4 * 4, 6)
        self.bn2 = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 5)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.norm(self.conv2(x)))
        x = torch.relu(self.bn2(self.hidden(torch.flatten(x, 1))))
        return self.last(x)


TRAINING = torch.onnx.TrainingMode.TRAINING
for name, train, options in (
        ("default", True, {}),
        ("unoptimized", True, {"optimize": False}),
        ("torchscript_training", True, {"dynamo": False, "training": TRAINING, "do_constant_folding": False}),
        ("torchscript_evaluation", False, {"dynamo": False})):
    torch.manual_seed(0)
    net = Net().train(train)
    if options.get("dynamo", True):
        options["external_data"] = name == "unoptimized"
    torch.onnx.export(net, (torch.randn(4, 1, 4, 4),), name + ".onnx", **options)
    model = onnx.load(name + ".onnx", load_external_data=False)
    for node in model.graph.node:  # where the exporting program lies is nobody's affair
        kept = [entry for entry in node.metadata_props if "stack_trace" not in entry.key and "fx_node" not in entry.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    del model.graph.metadata_props[:]
    onnx.save(model, name + ".onnx")
    pathlib.Path(name + ".onnx.data").unlink(missing_ok=True)
