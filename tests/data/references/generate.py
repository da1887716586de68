#!/usr/bin/env python3
"""Trains the small models of the zoo with PyTorch; what they compute is kept here.

    python generate.py [NAME...]      all models, or those

Needs: torch torchvision onnx onnxscript safetensors numpy (a CPU build is enough). Made with torch 2.15,
torchvision 0.29. Weights and data are random; nothing is downloaded.

NAME/weights.safetensors   initial weights by the zoo's names, in its layout; or, of a model that is no model of
                           the zoo, model.onnx
     batch.safetensors     x [steps, batch, ...], y [steps, rows...]
     expected.safetensors  logits, loss_f64, grad/NAME, final/NAME, final_buffer/NAME
     meta.json             the zoo's model, hyper-parameters, tolerances

The nets are PyTorch's and torchvision's own modules wherever these have them (LSTM, Embedding,
TransformerEncoderLayer, Bottleneck, InceptionA to InceptionE), so that nothing here follows the zoo but the
names. All values come from a run in float64 that starts from the float32 weights; a run in float32 gives the
tolerances: ten times its deviation, at least 1e-5.
"""

import copy
import json
import math
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional as F
from torchvision.models import inception, resnet

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, RATE = 3, 4, 0.05
SETTINGS = {
    "alexnet_tiny": dict(BATCH=2),
    # Normalised over a few 1x1 images, small differences grow: after more steps, or with fewer samples,
    # little is left but noise.
    "inception_v3_tiny": dict(STEPS=2, BATCH=6, RATE=0.01),
}
WORDS, UNITS = 20, 8  # of the recurrent models


# ------------------------------------------------------------------------------------------- recurrent

def lstm(layers):
    """An LSTM whose second bias is 0 and stays: the zoo's cells have one."""
    net = nn.LSTM(UNITS, UNITS, layers, batch_first=True)
    for name, parameter in net.named_parameters():
        if name.startswith("bias_hh"):
            nn.init.zeros_(parameter)
            parameter.requires_grad_(False)
    return net


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, UNITS)
        self.lstm = lstm(2)
        self.fc = nn.Linear(UNITS, WORDS)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0])


class ExportedLanguageModel(nn.Module):
    """As people write it: both biases of a cell are trained."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, UNITS)
        self.lstm = nn.LSTM(UNITS, UNITS, 2, batch_first=True)
        self.fc = nn.Linear(UNITS, WORDS)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0])


class TextClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, UNITS)
        self.lstm = lstm(4)
        self.fc = nn.Linear(UNITS, 2)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0][:, -1])


class Translator(nn.Module):
    """Luong's global attention, general score, without input feeding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, UNITS)
        self.encoder, self.decoder = lstm(2), lstm(2)
        self.score = nn.Linear(UNITS, UNITS, bias=False)
        self.combine = nn.Linear(2 * UNITS, UNITS, bias=False)
        self.fc = nn.Linear(UNITS, WORDS)

    def forward(self, x):
        half = x.shape[1] // 2
        source, state = self.encoder(self.embedding(x[:, :half]))
        target, _ = self.decoder(self.embedding(x[:, half:]), state)
        attended = []
        for t in range(half):  # step by step, as the paper has it
            h = target[:, t]
            scores = torch.stack([(h * self.score.weight.matmul(source[:, s, :, None])[..., 0]).sum(1)
                                  for s in range(half)], 1)
            context = (F.softmax(scores, 1)[..., None] * source).sum(1)
            attended.append(torch.tanh(self.combine(torch.cat([context, h], 1))))
        return self.fc(torch.stack(attended, 1))


def by_unit(value):
    """Rows of a gate together -> rows of a unit together."""
    return value.reshape(4, -1, *value.shape[1:]).transpose(0, 1).reshape(value.shape)


def recurrent_names(net):
    """Ours -> (PyTorch's, change of layout)."""
    names = {}
    for name, parameter in net.named_parameters():
        if not parameter.requires_grad:
            continue
        if "_l" in name:
            both = isinstance(net, ExportedLanguageModel)
            names[name if both else name.replace("bias_ih", "bias")] = (name, by_unit)
        elif name == "score.weight":  # W of h^T W s; a product of rows takes the transposed
            names["attention." + name] = (name, lambda v: v.T)
        elif name == "combine.weight":
            names["attention." + name] = (name, lambda v: v)
        else:
            names[name] = (name, lambda v: v)
    return names


# --------------------------------------------------------------------------------------- transformers

class Transformer(nn.Module):
    def __init__(self, width=8, heads=2, layers=1, steps=4, norm_first=True, causal=False):
        super().__init__()
        self.position = nn.Parameter(torch.randn(steps, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation=F.gelu,
                                       batch_first=True, norm_first=norm_first)
            for _ in range(layers))
        self.ln = nn.LayerNorm(width) if norm_first else None
        self.mask = nn.Transformer.generate_square_subsequent_mask(steps) if causal else None

    def encode(self, x, first=lambda v: v):
        x = first(x + self.position)
        mask = None if self.mask is None else self.mask.to(x.dtype)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return x if self.ln is None else self.ln(x)


class Gpt(Transformer):
    def __init__(self):
        super().__init__(causal=True)
        self.embedding = nn.Embedding(12, 8)

    def forward(self, x):
        return F.linear(self.encode(self.embedding(x)), self.embedding.weight)


class Bert(Transformer):
    def __init__(self):
        super().__init__(layers=2, norm_first=False)
        self.embedding = nn.Embedding(12, 8)
        self.embedding_ln, self.head_ln = nn.LayerNorm(8), nn.LayerNorm(8)
        self.head = nn.Linear(8, 8)
        self.scores_bias = nn.Parameter(torch.randn(12))

    def forward(self, x):
        x = self.encode(self.embedding(x), self.embedding_ln)
        return F.linear(self.head_ln(F.gelu(self.head(x))), self.embedding.weight, self.scores_bias)


class Vit(Transformer):
    def __init__(self):
        super().__init__(layers=2, steps=9)
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.encode(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


def transformer_names(net):
    names = {}
    own = {"position": "position.weight", "embedding_ln.": "embedding.ln.", "head_ln.": "head.ln.",
           "scores_bias": "scores.bias", "norm1": "ln1", "norm2": "ln2", "linear1": "mlp.fc1",
           "linear2": "mlp.fc2", "self_attn.out_proj": "attention.out"}
    for name, _ in net.named_parameters():
        ours = name.replace("layers.", "layer")
        for theirs, our in own.items():
            ours = ours.replace(theirs, our)
        if "self_attn.in_proj" in name:
            kind = name.rsplit("_", 1)[1]
            for k, part in enumerate("qkv"):
                take = lambda v, k=k: v[k * 8:(k + 1) * 8]
                names[ours.split("self_attn")[0] + f"attention.{part}.{kind}"] = (name, take)
        else:
            names[ours] = (name, lambda v: v)
    return names


# ---------------------------------------------------------------------------------------------- images

def alexnet():
    """torchvision's features and classifier at 1/32 width, without dropout (but for its numbers)."""
    widths = [2, 6, 12, 8, 8]
    convs = [nn.Conv2d(3, widths[0], 11, 4, 2), nn.Conv2d(widths[0], widths[1], 5, padding=2)]
    convs += [nn.Conv2d(widths[k], widths[k + 1], 3, padding=1) for k in range(1, 4)]
    pool = lambda: nn.MaxPool2d(3, 2)
    net = nn.Sequential()
    net.features = nn.Sequential(convs[0], nn.ReLU(), pool(), convs[1], nn.ReLU(), pool(), convs[2],
                                 nn.ReLU(), convs[3], nn.ReLU(), convs[4], nn.ReLU(), pool())
    net.flatten = nn.Flatten()
    net.classifier = nn.Sequential(nn.Identity(), nn.Linear(8, 32), nn.ReLU(), nn.Identity(),
                                   nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    return net


def resnet101():
    """torchvision's stem and bottleneck blocks; one block or two for each stage, 1/32 of the width."""
    net = nn.Sequential()
    net.conv1 = nn.Conv2d(3, 2, 7, 2, 3, bias=False)
    net.bn1, net.relu, net.maxpool = nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    channels = 2
    for stage, depth in enumerate([1, 1, 2, 1]):
        planes, blocks = 2 << stage, []
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            down = None
            if stride != 1 or channels != 4 * planes:
                down = nn.Sequential(nn.Conv2d(channels, 4 * planes, 1, stride, bias=False),
                                     nn.BatchNorm2d(4 * planes))
            blocks.append(resnet.Bottleneck(channels, planes, stride, down))
            channels = 4 * planes
        net.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
    net.avgpool, net.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net.fc = nn.Linear(channels, 10)
    return net


class NarrowConv(inception.BasicConv2d):
    """torchvision's convolution, normalisation and ReLU, of 1/32 of the width."""

    def __init__(self, in_channels, out_channels, **kwargs):
        narrow = max(out_channels // 32, 2)
        super().__init__(1, narrow, **kwargs)
        self.conv = nn.LazyConv2d(narrow, bias=False, **kwargs)


def inception_v3():
    make = dict(conv_block=NarrowConv)
    net = nn.Sequential()
    net.Conv2d_1a_3x3 = NarrowConv(3, 32, kernel_size=3, stride=2)
    net.Conv2d_2a_3x3 = NarrowConv(32, 32, kernel_size=3)
    net.Conv2d_2b_3x3 = NarrowConv(32, 64, kernel_size=3, padding=1)
    net.maxpool1 = nn.MaxPool2d(3, 2)
    net.Conv2d_3b_1x1 = NarrowConv(64, 80, kernel_size=1)
    net.Conv2d_4a_3x3 = NarrowConv(80, 192, kernel_size=3)
    net.maxpool2 = nn.MaxPool2d(3, 2)
    net.Mixed_5b = inception.InceptionA(192, pool_features=32, **make)
    net.Mixed_6a = inception.InceptionB(288, **make)
    net.Mixed_6b = inception.InceptionC(768, channels_7x7=128, **make)
    net.Mixed_7a = inception.InceptionD(768, **make)
    net.Mixed_7b = inception.InceptionE(1280, **make)
    net.avgpool, net.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net.fc = nn.LazyLinear(10)
    net(torch.zeros(2, 3, 75, 75))  # gives the lazy ones their widths
    return net


def same_names(net):
    return {name: (name, lambda v: v) for name, _ in net.named_parameters()}


# -------------------------------------------------------------------------------------------- training

def random_words(words, steps, rows, classes):
    """Inputs and labels; labels for each step of a sequence, or one for the whole."""
    x = torch.randint(0, words, (STEPS, BATCH, steps), dtype=torch.int32)
    return x, torch.randint(0, classes, (STEPS, BATCH, *rows), dtype=torch.int32)


def random_images(pixels, classes):
    """Pixels are small whole numbers: a byte each."""
    x = torch.randint(0, 4, (STEPS, BATCH, 3, pixels, pixels), dtype=torch.uint8)
    return x, torch.randint(0, classes, (STEPS, BATCH), dtype=torch.int32)


# Zoo's model, or name of the folder -> net, names, data.
MODELS = {
    "alexnet_tiny": (alexnet, same_names, lambda: random_images(63, 10)),
    "bert_tiny": (Bert, transformer_names, lambda: random_words(12, 4, [4], 12)),
    "gpt_tiny": (Gpt, transformer_names, lambda: random_words(12, 4, [4], 12)),
    "inception_v3_tiny": (inception_v3, same_names, lambda: random_images(75, 10)),
    "lstm_exported": (ExportedLanguageModel, recurrent_names, lambda: random_words(WORDS, 3, [3], WORDS)),
    "nmt_tiny": (Translator, recurrent_names, lambda: random_words(WORDS, 6, [3], WORDS)),
    "resnet101_tiny": (resnet101, same_names, lambda: random_images(40, 10)),
    "rnnlm_tiny": (LanguageModel, recurrent_names, lambda: random_words(WORDS, 3, [3], WORDS)),
    "rnntc_tiny": (TextClassifier, recurrent_names, lambda: random_words(WORDS, 3, [], 2)),
    "vit_tiny": (Vit, transformer_names, lambda: random_images(12, 5)),
}


def train(net, x, y, lr, momentum, weight_decay):
    """Trains a copy of `net`, one step for each leading index of x and y."""
    net = copy.deepcopy(net).train()
    weights = {k: p for k, p in net.named_parameters() if p.requires_grad}
    optimizer = torch.optim.SGD(weights.values(), lr=lr, momentum=momentum, weight_decay=weight_decay)
    out = {"loss": []}
    for step in range(len(x)):
        optimizer.zero_grad()
        logits = net(x[step])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y[step].reshape(-1).long())
        loss.backward()
        if step == 0:
            out["logits"] = logits.detach()
            out.update({"grad/" + k: p.grad.clone() for k, p in weights.items()})
        optimizer.step()
        out["loss"].append(loss.item())
    out["loss"] = torch.tensor(out["loss"], dtype=torch.float64)
    out.update({"final/" + k: p.detach().clone() for k, p in weights.items()})
    out.update({"final_buffer/" + k: b.clone() for k, b in net.named_buffers()
                if b.is_floating_point() and "running" in k})
    return out


def in_our_names(values, names):
    ours = {k: v for k, v in values.items() if k.split("/")[0] not in ("grad", "final")}
    for kind in ("grad", "final"):
        for name, (theirs, change) in names.items():
            ours[f"{kind}/{name}"] = change(values[f"{kind}/{theirs}"])
    return ours


def deviation(got, want, kind):
    """The largest difference of a tensor of a kind, as a share of the tensor's largest value, which counts
    as at least a hundredth of the kind's (some gradients are zero in theory)."""
    keys = [k for k in want if k.split("/")[0] == kind]
    largest = {k: want[k].abs().max().item() for k in keys}
    floor = 0.01 * max(largest.values())
    return max((got[k].double() - want[k].double()).abs().max().item() / max(largest[k], floor) for k in keys)


def round_up(value):
    """One significant digit, upwards."""
    unit = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.ceil(value / unit) * unit:.0e}")


def randomize(net):
    """Moves what starts at 0 or 1, so that an ignored term shows."""
    for name, parameter in net.named_parameters():
        if parameter.requires_grad and parameter.dim() == 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()


def export(net, x, path):
    """By the current exporter, without its optimizer; its notes are dropped."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), str(path), dynamo=True, optimize=False, external_data=False, verbose=False,
                          input_names=["x"], output_names=["logits"])
    model = onnx.load(path)
    items = [model, model.graph, *model.graph.node, *model.graph.initializer, *model.graph.input,
             *model.graph.output, *model.graph.value_info]
    for item in items:
        item.doc_string = ""
        del item.metadata_props[:]
    onnx.save(model, path)


def write(model):
    make, name_of, data = MODELS[model]
    globals().update(dict(STEPS=3, BATCH=4, RATE=0.05), **SETTINGS.get(model, {}))
    hyper = dict(lr=RATE, momentum=0.9, weight_decay=0.05)
    exported = model == "lstm_exported"
    torch.manual_seed(9 if exported else sorted(set(MODELS) - {"lstm_exported"}).index(model))
    net = make().float()
    randomize(net)
    x, y = data()
    as_input = (lambda v, t: v.to(t)) if x.dtype == torch.uint8 else (lambda v, t: v.long())
    names = name_of(net)
    weights = {k: p.detach() for k, p in net.named_parameters() if p.requires_grad}
    assert {theirs for theirs, _ in names.values()} == set(weights), set(weights) ^ {t for t, _ in names.values()}
    want = in_our_names(train(copy.deepcopy(net).double(), as_input(x, torch.float64), y, **hyper), names)
    got = in_our_names(train(net, as_input(x, torch.float32), y, **hyper), names)
    tolerance = {kind: round_up(max(10 * deviation(got, want, kind), 1e-5))
                 for kind in sorted({k.split("/")[0] for k in want})}
    for term in ("momentum", "weight_decay"):
        wrong = in_our_names(train(net, as_input(x, torch.float32), y, **{**hyper, term: 0.0}), names)
        assert deviation(wrong, want, "final") > 2 * tolerance["final"], term

    folder = HERE / model
    folder.mkdir(exist_ok=True)
    save = lambda values, file: save_file(
        {k: np.ascontiguousarray(v.numpy()) for k, v in values.items()}, folder / file)
    if exported:
        export(net, as_input(x, torch.float32)[0], folder / "model.onnx")
    else:
        save({name: change(weights[theirs]) for name, (theirs, change) in names.items()}, "weights.safetensors")
    save({"x": x, "y": y}, "batch.safetensors")
    expected = {k: v.float() for k, v in want.items() if k != "loss"}
    save({**expected, "loss_f64": want["loss"]}, "expected.safetensors")
    meta = {**({} if exported else {"model": model}), "made_with": f"torch {torch.__version__.split('+')[0]}",
            "optimizer": {"type": "SGD", **hyper, "dampening": 0.0, "nesterov": False},
            "suggested_tolerance": tolerance}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    size = 0
    for file in folder.iterdir():
        file.chmod(0o644)
        size += file.stat().st_size
    print(f"{model:18} {sum(w.numel() for w in weights.values()):6} parameters {size / 1000:6.0f} kB  "
          f"loss {want['loss'][0]:.4f} to {want['loss'][-1]:.4f}  {tolerance}")


if __name__ == "__main__":
    for model in sys.argv[1:] or MODELS:
        write(model)
