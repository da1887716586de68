#!/usr/bin/env python3
"""What runs train on: images, safetensors, classes. See harness.py."""

import array
import json
import pathlib
import re
import struct
import zlib

from harness import answer, check, lenet_plan, partita, refuses, run


def grey_jpeg():
    """A grey picture of 8 x 8 pixels: Huffman tables of one symbol each, and one byte of data."""
    quantisation = bytes.fromhex("ffdb004300") + bytes([1] * 64)
    frame = bytes.fromhex("ffc0000b080008000801011100")
    tables = b"".join(bytes.fromhex("ffc40014") + bytes([kind, 1] + [0] * 16) for kind in (0x00, 0x10))
    scan = bytes.fromhex("ffda0008010100003f00") + b"\x3f"
    return b"\xff\xd8" + quantisation + frame + tables + scan + b"\xff\xd9"


def test_run_names_the_broken_samples_that_it_skips():
    for name in ("a", "b"):
        folder = pathlib.Path("pictures", name)
        folder.mkdir(parents=True)
        for k in range(20):
            broken = name == "b" and k < 12
            (folder / f"{k}.jpg").write_bytes(grey_jpeg()[:60] if broken else grey_jpeg())
    pathlib.Path("pictures/wnids.txt").write_text("\n".join("abcdefghij"))
    line = f"run {lenet_plan()} --data pictures --epochs 2 --timeline none"
    refuses(line, 3, r"pictures/b/\d+\.jpg' is a broken JPEG")
    result = partita(f"{line} --skip_broken --eval_data pictures --eval_every 2 --json")
    named = re.findall(r"skipped: '(pictures/b/\d+\.jpg)' is a broken JPEG", result.err)
    check(len(named) == len(set(named)) == 10, f"{named}")
    check("skipped: 2 more broken samples" in result.err, result.err)
    check(result.json()["skipped"] == 12, result.out)


def png(pixel):
    """A grey picture of 8 x 8 pixels of that value."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress((b"\0" + bytes([pixel] * 8)) * 8)) + chunk(b"IEND", b""))


def test_run_compares_the_classes_of_data_with_the_models():
    for name, pixel in (("dark", 20), ("light", 220)):
        folder = pathlib.Path("shades", name)
        folder.mkdir(parents=True)
        for k in range(32):
            (folder / f"{k}.png").write_bytes(png(pixel))
    line = f"run {lenet_plan()} --epochs 4 --timeline none --data"
    for where in ("shades", "synthetic --eval_data shades"):
        refuses(f"{line} {where}", 3, r"the folders in 'shades': 2 classes; the model has 10\. Take a model with 2 outputs")
    # Names of all the model's classes make a set of two of them.
    pathlib.Path("shades/wnids.txt").write_text("light\ndark\n" + "\n".join("abcdefgh"))
    losses = answer(f"{line} shades", "losses")["losses"]
    check(losses[-1] < losses[0], losses)
    write_samples("four.safetensors", classes=4)
    result = partita(f"{line} four.safetensors --eval_data four.safetensors --json")
    said = "the largest label is 3; the model has 10 classes, and no sample is of the last 6"
    check(result.err.count(said) == 1 and sum(said in note for note in result.json()["notes"]) == 1, result.out)
    write_samples("twelve.safetensors", classes=12)
    pathlib.Path("idx").mkdir()
    for labels in (4, 12):
        for name, sizes, values in (("train-images-idx3-ubyte", (16, 28, 28), bytes(16 * 28 * 28)),
                                    ("train-labels-idx1-ubyte", (16,), bytes(k % labels for k in range(16)))):
            head = bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
            pathlib.Path("idx", name).write_bytes(head + values)
        if labels == 4:
            check(said in partita(f"{line} idx").err, "no note")
        else:
            refuses(f"{line} idx", 3, r"'idx/train-labels-idx1-ubyte': sample 11 has the label 11; the model has 10 classes")
    refuses(f"{line} twelve.safetensors", 3, r"'twelve.safetensors' tensor 'y': sample 11 has the label 11; the model has 10 classes")


def write_samples(path, changes=(), classes=10):
    """64 samples for lenet, with (index in x, value) changed."""
    count, width = 64, 28 * 28
    shapes = {"x": ("F32", [count, 1, 28, 28], count * width * 4), "y": ("I64", [count], count * 8)}
    header, offset = {}, 0
    for name, (dtype, shape, size) in shapes.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    x = array.array("f", [(k % 7) / 7 for k in range(count * width)])
    for index, value in changes:
        x[index] = value
    y = array.array("q", [k % classes for k in range(count)])
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + x.tobytes() + y.tobytes())


def test_run_trains_on_safetensors_and_evaluates():
    write_samples("own.safetensors")
    line = f"run {lenet_plan()} --data own.safetensors --eval_data own.safetensors --eval_every 4 --epochs 2"
    found = answer(line + " --data_cache memory --save own_w.safetensors", "losses eval_loss eval_accuracy")
    check(len(found["losses"]) == 16 and 0 <= found["eval_accuracy"] <= 1, f"{found}")
    again = answer(f"run {lenet_plan()} --data own.safetensors --steps 1 --load own_w.safetensors", "losses")
    check(abs(again["losses"][0] - found["losses"][0]) > 1e-6, f"--load does nothing: {again} {found}")


def test_one_nan_in_the_data_ends_the_run_which_names_it():
    write_samples("nan.safetensors", [(20 * 28 * 28 + 400, float("nan"))])
    for backend in ["reference", "cpu"]:
        refuses(f"run {lenet_plan()} --backend {backend} --data nan.safetensors --steps 9 --timeline none "
                "--save of_nan.safetensors", 1,
                r"the loss is nan in step \d: in step \d .* the data hold nan: element 400 of sample 20 "
                r"\(\d of batch \d of epoch 0\), which tensor '\w+' takes from .*nan.safetensors")
        check(not pathlib.Path("of_nan.safetensors").exists(), "weights that are NaN were saved")


if __name__ == "__main__":
    run(globals(), "TrainingDataTest")
