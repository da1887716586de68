#!/usr/bin/env python3
"""Writes small ONNX models here, one for each way in which an operator can be written, and what onnxruntime computes
from them: NAME.onnx, and NAME/x, NAME/y in expected.safetensors. All draw from one stream: new cases go to the end, so
that the files that are there stay. Needs: numpy onnx onnxruntime safetensors (from PyPI, in an environment of their
own)."""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
RANDOM = np.random.default_rng(7)
EXPECTED = {}


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def case(name, x, nodes, weights=None, opset=18, old_ir=False):
    """nodes: (operator, inputs, outputs, attributes); the input is x, the output y."""
    made = [helper.make_node(op, i, o, name=f"n{k}", **a) for k, (op, i, o, a) in enumerate(nodes)]
    tensors = [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()]
    inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    graph = helper.make_graph(made, name, inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    y = session.run(["y"], {"x": x})[0]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, y.shape))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / f"{name}.onnx")
    EXPECTED[f"{name}/x"], EXPECTED[f"{name}/y"] = x.astype(np.float32), np.ascontiguousarray(y)


def one(name, x, op, inputs=("x",), weights=None, opset=18, **attributes):
    case(name, x, [(op, list(inputs), ["y"], attributes)], weights, opset)


def constant(name, value):
    return ("Constant", [], [name], {"value": numpy_helper.from_array(np.asarray(value))})


def convolutions():
    x = floats(2, 4, 9, 11)
    w, b = floats(6, 4, 3, 3), floats(6)
    for name, a in {
            "asymmetric": dict(pads=[0, 1, 2, 3], strides=[2, 3]), "dilated": dict(dilations=[2, 3]),
            "same_upper": dict(auto_pad="SAME_UPPER", strides=[2, 3]),
            "same_lower": dict(auto_pad="SAME_LOWER", strides=[2, 3]), "valid": dict(auto_pad="VALID"),
            "same_upper_stride1": dict(auto_pad="SAME_UPPER", kernel_shape=[3, 3])}.items():
        one("conv_" + name, x, "Conv", ("x", "w", "b"), {"w": w, "b": b}, **a)
    one("conv_even_same_upper", x, "Conv", ("x", "w"), {"w": floats(3, 4, 4, 2)}, auto_pad="SAME_UPPER")
    one("conv_even_same_lower", x, "Conv", ("x", "w"), {"w": floats(3, 4, 4, 2)}, auto_pad="SAME_LOWER")
    one("conv_groups", x, "Conv", ("x", "w", "b"), {"w": floats(6, 2, 3, 3), "b": b}, group=2)
    one("conv_depthwise", x, "Conv", ("x", "w"), {"w": floats(8, 1, 3, 3)}, group=4, pads=[1, 1, 1, 1])
    case("conv_built_zero_bias", x, [
        ("Shape", ["w"], ["s"], dict(start=0, end=1)), ("Constant", [], ["one"], dict(value_ints=[1])),
        ("Expand", ["s", "one"], ["n"], {}), constant("zero", np.float32(0)), ("CastLike", ["zero", "x"], ["z"], {}),
        ("Expand", ["z", "n"], ["b"], {}), ("Conv", ["x", "w", "b"], ["y"], {})], {"w": w})


def pools():
    x = floats(2, 3, 10, 11)
    window = dict(kernel_shape=[3, 2], strides=[2, 3])
    for op in ("MaxPool", "AveragePool"):
        low = op.lower()
        one(f"{low}_plain", x, op, **window)
        one(f"{low}_pads", x, op, pads=[1, 0, 2, 1], **window)
        one(f"{low}_ceil", x, op, ceil_mode=1, **window)
        one(f"{low}_same_upper", x, op, auto_pad="SAME_UPPER", **window)
        one(f"{low}_same_lower", x, op, auto_pad="SAME_LOWER", **window)
        one(f"{low}_identity", x, op, kernel_shape=[1, 1])
    one("maxpool_dilated", x, "MaxPool", kernel_shape=[3, 3], dilations=[2, 3])
    one("averagepool_include_pad", x, "AveragePool", pads=[1, 1, 1, 1], kernel_shape=[3, 3], count_include_pad=1)
    one("averagepool_include_pad_ceil", x, "AveragePool", pads=[1, 1, 1, 1], kernel_shape=[3, 3], strides=[2, 2],
        ceil_mode=1, count_include_pad=1, opset=19)
    one("globalaveragepool", x, "GlobalAveragePool")
    one("globalmaxpool", x, "GlobalMaxPool")
    one("reducemean_attribute", x, "ReduceMean", opset=13, axes=[2, 3], keepdims=0)
    one("reducemean_input", x, "ReduceMean", ("x", "axes"), {"axes": ints(-1, 1)})
    one("reducemean_noop", x, "ReduceMean", noop_with_empty_axes=1)


def pads():
    x = floats(2, 3, 5, 4)
    one("pad_constant", x, "Pad", ("x", "p", "v"), {"p": ints(0, 1, 2, 0, 0, 0, 1, 3), "v": np.float32(1.5)})
    one("pad_axes", x, "Pad", ("x", "p", "", "a"), {"p": ints(1, 2, 3, 0), "a": ints(3, -2)})
    one("pad_negative", x, "Pad", ("x", "p"), {"p": ints(0, 0, -1, 1, 0, 0, -1, -2)})
    one("pad_attribute", x, "Pad", opset=10, pads=[0, 0, 1, 1, 0, 0, 0, 2], value=-2.0)


def products():
    x, w = floats(5, 6), floats(6, 4)
    one("gemm_plain", x, "Gemm", ("x", "w", "c"), {"w": w, "c": floats(4)})
    one("gemm_transposed", x, "Gemm", ("x", "w", "c"), {"w": floats(4, 6), "c": floats(4)}, transB=1)
    one("gemm_scaled", x, "Gemm", ("x", "w", "c"), {"w": w, "c": floats(4)}, alpha=0.5, beta=-2.0)
    one("gemm_scaled_no_bias", x, "Gemm", ("x", "w"), {"w": w}, alpha=3.0)
    one("gemm_row_bias", x, "Gemm", ("x", "w", "c"), {"w": w, "c": floats(5, 1)})
    one("gemm_matrix_bias", x, "Gemm", ("x", "w", "c"), {"w": w, "c": floats(5, 4)}, beta=0.5)
    one("gemm_trans_a", floats(6, 5), "Gemm", ("x", "w"), {"w": w}, transA=1)
    one("matmul_3d", floats(2, 3, 6), "MatMul", ("x", "w"), {"w": w})
    case("matmul_transposed_weight", floats(2, 3, 6), [
        ("Transpose", ["w"], ["t"], dict(perm=[1, 0])), ("MatMul", ["x", "t"], ["m"], {}),
        ("Add", ["m", "b"], ["y"], {})], {"w": floats(4, 6), "b": floats(4)})
    case("gemm_of_transposed_weight", x, [
        ("Transpose", ["w"], ["t"], dict(perm=[1, 0])), ("Gemm", ["x", "t"], ["y"], dict(transB=1))],
        {"w": floats(6, 4)})
    case("matmul_activations", floats(3, 4), [
        ("Transpose", ["x"], ["t"], {}), ("MatMul", ["x", "t"], ["y"], {})])


def arithmetic():
    x = floats(2, 3, 4, 5)
    for op in ("Add", "Sub", "Mul"):
        low = op.lower()
        one(f"{low}_channel", x, op, ("x", "c"), {"c": floats(3, 1, 1)})
        one(f"{low}_reversed", x, op, ("c", "x"), {"c": floats(1, 3, 1, 5)})
        one(f"{low}_scalar", x, op, ("x", "s"), {"s": np.float32(2.5)})
        one(f"{low}_scalar_reversed", x, op, ("s", "x"), {"s": np.float32(2.5)})
        one(f"{low}_vector", x, op, ("x", "s"), {"s": floats(5)})
    one("div_scalar", x, "Div", ("x", "s"), {"s": np.float32(4)})
    case("add_constant_tensor", x, [constant("c", floats(1, 3, 1, 1)), ("Add", ["x", "c"], ["y"], {})])
    case("relu_residual", x, [("Relu", ["x"], ["r"], {}), ("Add", ["r", "x"], ["y"], {})])


def normalisation():
    x = floats(4, 6, 3, 5)
    names = ("x", "g", "b", "m", "v")
    weights = {"g": floats(6), "b": floats(6), "m": floats(6), "v": np.abs(floats(6)) + 0.5}
    one("frozen_batchnorm", x, "BatchNormalization", names, weights, epsilon=1e-3)
    one("frozen_batchnorm_2d", floats(5, 6), "BatchNormalization", names, weights)
    one("lrn_odd", x, "LRN", size=5, alpha=0.5, beta=0.75, bias=2.0)
    one("lrn_three", x, "LRN", size=3, alpha=0.3)
    one("softmax", floats(3, 7), "Softmax")
    one("softmax_axis", floats(3, 2, 7), "Softmax", axis=2)
    one("softmax_old", floats(3, 7), "Softmax", opset=11)
    one("logsoftmax", floats(3, 7), "LogSoftmax", axis=1)
    one("dropout_ratio_zero", x, "Dropout", ("x", "r"), {"r": np.float32(0)})


def shapes():
    x = floats(2, 3, 4, 5)
    one("flatten", x, "Flatten")
    one("flatten_axis2", x, "Flatten", axis=2)
    one("flatten_negative", x, "Flatten", axis=-1)
    for name, target in {"literal": (2, 60), "open": (2, -1), "zero": (0, 0, -1), "open_batch": (-1, 3, 20)}.items():
        one("reshape_" + name, x, "Reshape", ("x", "s"), {"s": ints(*target)})
    case("reshape_concat", x, [
        ("Constant", [], ["a"], dict(value_ints=[2])), ("Constant", [], ["b"], dict(value_ints=[60])),
        ("Concat", ["a", "b"], ["s"], dict(axis=0)), ("Reshape", ["x", "s"], ["y"], dict(allowzero=1))])
    case("reshape_of_shape", x, [
        ("Shape", ["x"], ["s"], {}), constant("i", ints(0)), ("Gather", ["s", "i"], ["b"], dict(axis=0)),
        ("Constant", [], ["rest"], dict(value_ints=[-1])), ("Concat", ["b", "rest"], ["t"], dict(axis=0)),
        ("Reshape", ["x", "t"], ["y"], {})])
    case("reshape_of_arithmetic", x, [
        ("Shape", ["x"], ["s"], {}), ("Constant", [], ["i0"], dict(value_int=0)),
        ("Constant", [], ["i2"], dict(value_int=2)), ("Gather", ["s", "i0"], ["n"], {}), ("Gather", ["s", "i2"], ["h"], {}),
        ("Mul", ["n", "h"], ["nh"], {}), constant("axes", ints(0)), ("Unsqueeze", ["nh", "axes"], ["u"], {}),
        constant("from", ints(3)), constant("to", ints(9)), ("Slice", ["s", "from", "to"], ["w"], {}),
        constant("minus", ints(-1)), ("Concat", ["u", "minus", "w"], ["t"], dict(axis=0)),
        ("Transpose", ["x"], ["p"], dict(perm=[0, 2, 1, 3])), ("Reshape", ["p", "t"], ["y"], {})])
    case("squeeze_unsqueeze", x, [
        ("Unsqueeze", ["x", "a"], ["u"], {}), ("Relu", ["u"], ["r"], {}), ("Squeeze", ["r", "a"], ["y"], {})],
        {"a": ints(1, -1)})
    case("squeeze_old", floats(2, 3, 1, 1), [("Squeeze", ["x"], ["y"], dict(axes=[2, 3]))], opset=11)
    one("transpose", x, "Transpose", perm=[0, 2, 3, 1])
    one("transpose_default", x, "Transpose")
    case("concat", x, [("Relu", ["x"], ["r"], {}), ("Concat", ["x", "r", "x"], ["y"], dict(axis=1))])
    case("concat_last", x, [("Relu", ["x"], ["r"], {}), ("Concat", ["x", "r"], ["y"], dict(axis=-1))])
    one("slice", x, "Slice", ("x", "b", "e", "a"), {"b": ints(1, -4), "e": ints(3, 2 ** 62), "a": ints(1, -1)})
    one("slice_old", x, "Slice", opset=9, starts=[1], ends=[-1], axes=[3])
    case("identity_cast", x, [
        ("Identity", ["x"], ["i"], {}), ("Cast", ["i"], ["c"], dict(to=TensorProto.FLOAT)), ("Relu", ["c"], ["y"], {})])
    case("scale_of_square_root", x, [
        constant("n", ints(16)), ("Cast", ["n"], ["f"], dict(to=TensorProto.FLOAT)), ("Sqrt", ["f"], ["r"], {}),
        ("Div", ["x", "r"], ["y"], {})])
    case("scale_from_range", x, [
        ("Constant", [], ["a"], dict(value_int=0)), ("Constant", [], ["b"], dict(value_int=5)),
        ("Constant", [], ["d"], dict(value_int=1)), ("Range", ["a", "b", "d"], ["r"], {}),
        ("Cast", ["r"], ["f"], dict(to=TensorProto.FLOAT)), ("Constant", [], ["t"], dict(value_float=0.5)),
        ("Mul", ["f", "t"], ["m"], {}), ("Constant", [], ["n"], dict(value_floats=[1.0, -1.0, 2.0, 0.0, 3.0])),
        ("Sub", ["m", "n"], ["c"], {}), ("Mul", ["x", "c"], ["y"], {})])
    case("constant_of_shape", x, [
        constant("s", ints(3, 1, 1)),
        ("ConstantOfShape", ["s"], ["c"], dict(value=numpy_helper.from_array(np.array([2.0], np.float32)))),
        ("Add", ["x", "c"], ["y"], {})])


def activations():
    one("hardswish", 4 * floats(3, 5, 7), "HardSwish", opset=14)
    for op in ("Erf", "Sigmoid", "Tanh"):
        one(op.lower(), 2 * floats(3, 5), op)
    one("gelu", 2 * floats(3, 5), "Gelu", opset=20)
    one("gelu_tanh", 2 * floats(3, 5), "Gelu", opset=20, approximate="tanh")


def lookups():
    table = {"w": floats(7, 3)}
    one("gather_rows", ints(0, 6, 2, 2).reshape(2, 2), "Gather", ("w", "x"), table)
    one("gather_index", floats(2, 3, 4), "Gather", ("x", "i"), {"i": np.array(-1)}, axis=1)
    one("gather_rows_int32", ints(5, 1).astype(np.int32), "Gather", ("w", "x"), table, axis=-2)


def attention():
    x = floats(2, 3, 4)
    one("layernormalization", x, "LayerNormalization", ("x", "g", "b"), {"g": floats(4), "b": floats(4)}, epsilon=1e-3)
    case("matmul_batched", x, [
        ("Transpose", ["x"], ["t"], dict(perm=[0, 2, 1])), ("MatMul", ["x", "t"], ["s"], {}),
        ("MatMul", ["s", "x"], ["y"], {})])


def lstm_weights(width, units, bias=True):
    names = {"w": floats(1, 4 * units, width), "r": floats(1, 4 * units, units)}
    if bias:
        names["b"] = floats(1, 8 * units)
    return {k: v * np.float32(0.5) for k, v in names.items()}


def recurrent():
    """Samples come first, as in most models; LSTM wants its steps first."""
    x, gates = floats(2, 3, 4), ("t", "w", "r", "b")
    first = ("Transpose", ["x"], ["t"], dict(perm=[1, 0, 2]))
    weights = lstm_weights(4, 5)
    squeezed = [("Transpose", ["s"], ["p"], dict(perm=[2, 0, 1, 3])), ("Reshape", ["p", "n"], ["y"], {})]
    case("lstm", x, [first, ("LSTM", gates, ["y"], dict(hidden_size=5))], weights)
    case("lstm_batch_first", x, [first, ("LSTM", gates, ["s"], dict(hidden_size=5)), *squeezed],
         {**weights, "n": ints(2, 3, 5)})
    case("lstm_steps_first", x, [("LSTM", ("x", *gates[1:]), ["s"], dict(hidden_size=5)), *squeezed],
         {**weights, "n": ints(3, 2, 5)}, opset=13)
    case("lstm_last_hidden", x, [first, ("LSTM", gates, ["", "y"], dict(hidden_size=5, direction="forward"))], weights)
    case("lstm_last_cell", x, [
        first, ("LSTM", gates, ["", "h", "c"], dict(hidden_size=5, activations=["Sigmoid", "Tanh", "Tanh"])),
        ("Add", ["h", "c"], ["y"], {})], weights)
    case("lstm_no_bias", x, [first, ("LSTM", gates[:3], ["y"], dict(hidden_size=5))], lstm_weights(4, 5, bias=False))
    case("lstm_one_step", floats(2, 1, 4), [first, ("LSTM", gates, ["y"], dict(hidden_size=5))], weights)
    case("lstm_initial", x, [first, ("LSTM", (*gates, "", "h", "c"), ["y"], dict(hidden_size=5))],
         {**weights, "h": floats(1, 2, 5), "c": floats(1, 2, 5)})
    case("lstm_initial_hidden", x, [first, ("LSTM", (*gates, "l", "h"), ["y"], dict(hidden_size=5))],
         {**weights, "h": floats(1, 2, 5), "l": np.array([3, 3], np.int32)})
    case("lstm_initial_zeros", x, [
        constant("e", ints(2, 2, 5)), ("ConstantOfShape", ["e"], ["z"], {}), constant("i", ints(0)), constant("j", ints(1)),
        ("Slice", ["z", "i", "j", "i"], ["h"], {}), first,
        ("LSTM", (*gates, "", "h", "h"), ["y"], dict(hidden_size=5))], weights)
    # As in a translator: the second starts where the first ends, and reads what it made.
    case("lstm_chained", x, [
        first, ("LSTM", gates, ["s", "h", "c"], dict(hidden_size=5)), ("Squeeze", ["s", "one"], ["q"], {}),
        ("LSTM", ("q", "w2", "r2", "b2", "", "h", "c"), ["y"], dict(hidden_size=5))],
        {**weights, **{k + "2": v for k, v in lstm_weights(5, 5).items()}, "one": ints(1)})
    # PyTorch's weights, in the order i, f, g, o, cut into gates and joined in ONNX's.
    nodes, names = [first], {"zero": ints(0)}
    for k in range(1, 5):
        names[f"at{k}"] = ints(5 * k)
    names["at0"] = names["zero"]
    for name, weight in {"wi": floats(20, 4), "wh": floats(20, 5), "bi": floats(20), "bh": floats(20)}.items():
        names[name] = weight * np.float32(0.5)
        nodes += [("Slice", [name, f"at{k}", f"at{k + 1}", "zero"], [f"{name}{k}"], {}) for k in range(4)]
        nodes += [("Concat", [f"{name}{k}" for k in (0, 3, 1, 2)], [name + "c"], dict(axis=0))]
    nodes += [("Concat", ["bic", "bhc"], ["bc"], dict(axis=0))]
    nodes += [("Unsqueeze", [name, "zero"], [name + "u"], {}) for name in ("wic", "whc", "bc")]
    case("lstm_gates_cut", x, [*nodes, ("LSTM", ["t", "wicu", "whcu", "bcu"], ["y"], dict(hidden_size=5))], names)
    case("weight_rows", floats(2, 4), [
        ("Slice", ["w", "at1", "at2", "zero"], ["p"], {}), ("Concat", ["p", "w"], ["m"], dict(axis=0)),
        ("Transpose", ["m"], ["q"], {}), ("MatMul", ["x", "q"], ["y"], {})],
        {"w": floats(10, 4), "zero": ints(0), "at1": ints(5), "at2": ints(7)})


for make in (convolutions, pools, pads, products, arithmetic, normalisation, shapes, activations, lookups,
             attention, recurrent):
    make()
save_file(EXPECTED, HERE / "expected.safetensors")
