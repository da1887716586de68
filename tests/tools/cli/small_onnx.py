"""A small ONNX model with its weights, encoded by hand: convolution, ReLU, max pooling, flatten, matrix product."""

import struct


def _varint(value):
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _message(*fields):
    return b"".join(_field(number, value) for number, value in fields)


def _node(kind, inputs, output, **attributes):
    fields = [(1, name) for name in inputs] + [(2, output), (3, f"{output}_node"), (4, kind)]
    for name, value in attributes.items():
        if isinstance(value, int):
            fields.append((5, _message((1, name), (3, value), (20, 2))))
        else:
            fields.append((5, _message((1, name), *[(8, extent) for extent in value], (20, 7))))
    return _message(*fields)


def _weight(name, *rest, of):
    shape = (of,) + rest
    count = min(of, 10)
    for extent in rest:
        count *= extent
    values = struct.pack(f"<{count}f", *[(k * 37 % 101 - 50) / 500 for k in range(count)])
    return _message(*[(1, extent) for extent in shape], (2, 1), (8, name), (9, values))


def _value(name, *shape):
    dims = _message(*[(1, _message((1, extent))) for extent in shape])
    return _message((1, name), (2, _message((1, _message((1, 1), (2, dims))))))


def small_onnx(batch=8, classes=10):
    """The file's bytes: images of 1 x 8 x 8. More than 10 classes are announced only, without their weights."""
    nodes = [_node("Conv", ["x", "conv.weight", "conv.bias"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
             _node("Relu", ["conv"], "relu"),
             _node("MaxPool", ["relu"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
             _node("Flatten", ["pool"], "flat", axis=1),
             _node("Gemm", ["flat", "fc.weight", "fc.bias"], "y", transB=1)]
    weights = [_weight("conv.weight", 1, 3, 3, of=4), _weight("conv.bias", of=4), _weight("fc.weight", 64, of=classes),
               _weight("fc.bias", of=classes)]
    graph = _message(*[(1, node) for node in nodes], (2, "small"), *[(5, weight) for weight in weights],
                     (11, _value("x", batch, 1, 8, 8)), (12, _value("y", batch, classes)))
    return _message((1, 8), (7, graph), (8, _message((2, 17))))
