# SPDX-License-Identifier: Apache-2.0
"""The operators whose speed is compared: each as an ONNX model of one node for Backplane and ONNX
Runtime, as one call of PyTorch into memory that is there, and by the bytes that it must move."""

import dataclasses
import math

MIB = 1 << 20
SIDE = 4096  # of square matrices
PAST_CACHES = 16 * MIB  # outputs of as much are stored past the caches, as in plugins/cpu
# Of a copy's bytes in a second: of what memory limits, and of what lies in the caches, where the
# operator's own work and the start of a run take their part (docs/adr/0032).
SHARE = 0.8
SHARE_IN_CACHES = {"add": 0.7, "where": 0.7, "cast f32 to bf16": 0.45}


@dataclasses.dataclass
class Case:
    """inputs: {name: (numpy dtype, sizes, highest whole number or 0)}; outputs: (ONNX dtype, sizes)
    each. `share`: at least this much of what a copy of the same bytes reaches, or None."""
    name: str
    op: str
    inputs: dict
    outputs: list
    torch: object  # (torch, inputs, outputs) -> a call that writes into the outputs
    attributes: dict = dataclasses.field(default_factory=dict)
    constants: dict = dataclasses.field(default_factory=dict)  # {input: numpy values} in the model
    share: float | None = None
    weights: tuple = ()  # inputs that the model has as constants
    views: dict = dataclasses.field(default_factory=dict)  # {input: order in which it is taken}

    def moved_bytes(self):
        moved = sum(math.prod(sizes) * WIDTH[dtype] for dtype, sizes, _ in self.inputs.values())
        return moved + sum(math.prod(sizes) * WIDTH[dtype] for dtype, sizes in self.outputs)

    def streams(self):
        """Whether the copy beside it stores past the caches: as outputs of the size do, and where
        all is read and next to nothing stored, for then a copy that stores into the caches reads
        more than is counted."""
        return bool(self.weights) or any(math.prod(sizes) * WIDTH[dtype] >= PAST_CACHES
                                         for dtype, sizes in self.outputs)

    def is_comparable(self):
        return all(dtype != "bfloat16" for dtype, _ in self.outputs)  # not one of numpy's


WIDTH = {"float32": 4, "bfloat16": 2, "int64": 8, "bool": 1}


def elementwise(name, op, torch, bytes_, arity=1, share=None, to="float32", first="float32",
                **attributes):
    sizes = [bytes_ // 4]
    inputs = {"abc"[i]: (first if i == 0 else "float32", sizes, 1 if first == "bool" else 0)
              for i in range(arity)}
    return Case(f"{name}, {bytes_ / MIB:g} MiB", op, inputs, [(to, sizes)], torch, attributes,
                share=share)


def elementwise_cases(bytes_):
    def share(name):
        return SHARE if bytes_ >= PAST_CACHES else SHARE_IN_CACHES[name]
    return [
        elementwise("add", "Add", lambda t, i, o: lambda: t.add(*i, out=o[0]), bytes_, 2,
                    share("add")),
        elementwise("gelu", "Gelu",
                    lambda t, i, o: lambda: t.ops.aten.gelu.out(i[0], out=o[0]), bytes_),
        elementwise("exp", "Exp", lambda t, i, o: lambda: t.exp(i[0], out=o[0]), bytes_),
        elementwise("where", "Where", lambda t, i, o: lambda: t.where(*i, out=o[0]), bytes_, 3,
                    share("where"), first="bool"),
        elementwise("cast f32 to bf16", "Cast", lambda t, i, o: lambda: o[0].copy_(i[0]), bytes_,
                    1, share("cast f32 to bf16"), "bfloat16", to_=16),
    ]


def spread_add(name, sizes, share, torch=None, **rest):
    """Of inputs that do not lie in memory element beside element as the output does."""
    return Case(f"add, 4096 x 4096 + {name}", "Add",
                {"a": ("float32", [SIDE, SIDE], 0), "b": ("float32", sizes, 0)},
                [("float32", [SIDE, SIDE])],
                torch or (lambda t, i, o: lambda: t.add(*i, out=o[0])), share=share, **rest)


def torch_add_transposed(t, i, o):
    view = i[1].t()
    return lambda: t.add(i[0], view, out=o[0])


def spread_cases():
    return [
        spread_add("4096", [SIDE], SHARE),
        spread_add("4096 x 1", [SIDE, 1], SHARE),
        spread_add("a transposed view", [SIDE, SIDE], 0.35, torch_add_transposed,
                   views={"b": [1, 0]}),
    ]


def few_rows(rows):
    """All weights are read once: the speed of memory is what limits it."""
    return Case(f"matmul {rows} x 4096 x 4096, constant", "MatMul",
                {"a": ("float32", [rows, SIDE], 0), "b": ("float32", [SIDE, SIDE], 0)},
                [("float32", [rows, SIDE])], lambda t, i, o: lambda: t.mm(*i, out=o[0]),
                share=0.6, weights=("b",))


def square(name, op, torch, out=(SIDE, SIDE), **rest):
    return Case(name, op, {"a": ("float32", [SIDE, SIDE], 0)}, [("float32", list(out))], torch,
                **rest)


def reduction(name, axes, out, share):
    import numpy
    constants = {} if axes is None else {"axes": numpy.array(axes, "int64")}
    dims = [0, 1] if axes is None else axes
    return square(f"sum over {name}, 4096 x 4096", "ReduceSum",
                  lambda t, i, o: lambda: t.sum(i[0], dim=dims, out=o[0]), out,
                  attributes={"keepdims": 0}, constants=constants, share=share)


def transpose(order, sizes):
    return Case(f"transpose {order} of {sizes}", "Transpose", {"a": ("float32", sizes, 0)},
                [("float32", [sizes[d] for d in order])],
                lambda t, i, o: lambda: o[0].copy_(i[0].permute(order)), {"perm": order}, share=0.6)


def movement_cases():
    import numpy
    rows, width, picked = 30_000, 768, 8192
    return [
        transpose([0, 2, 1, 3], [8, 512, 16, 64]),
        transpose([1, 0], [SIDE, SIDE]),
        Case("gather 8,192 rows of 30,000 x 768", "Gather",
             {"a": ("float32", [rows, width], 0), "b": ("int64", [picked], rows)},
             [("float32", [picked, width])],
             lambda t, i, o: lambda: t.index_select(i[0], 0, i[1], out=o[0])),
        Case("top 50 of 32,000", "TopK", {"a": ("float32", [32_000], 0)},
             [("float32", [50]), ("int64", [50])],
             lambda t, i, o: lambda: t.topk(i[0], 50, out=(o[0], o[1])),
             constants={"k": numpy.array([50], "int64")}),
        square("cumulative sum over the last axis, 4096 x 4096", "CumSum",
               lambda t, i, o: lambda: t.cumsum(i[0], 1, out=o[0]),
               constants={"axis": numpy.array(1, "int64")}),
        Case("resize 224 to 448, linear", "Resize", {"a": ("float32", [1, 3, 224, 224], 0)},
             [("float32", [1, 3, 448, 448])],
             lambda t, i, o: lambda: t.ops.aten.upsample_bilinear2d.out(
                 i[0], [448, 448], False, out=o[0]),
             {"mode": "linear"},
             {"roi": None, "scales": numpy.array([1, 1, 2, 2], "float32")}),
    ]


def torch_layer_norm(t, i, o):
    width = i[0].shape[1]
    scale, bias = t.ones(width), t.zeros(width)
    mean, deviation = t.empty(SIDE, 1), t.empty(SIDE, 1)
    return lambda: t.ops.aten.native_layer_norm.out(i[0], [width], scale, bias, 1e-5, out0=o[0],
                                                    out1=mean, out2=deviation)


def row_cases():
    import numpy
    width = 1024
    ones = numpy.ones(width, "float32")
    return [
        square("softmax over the last axis, 4096 x 4096", "Softmax",
               lambda t, i, o: lambda: t.softmax(i[0], -1, out=o[0]), attributes={"axis": -1}),
        Case("layer norm, 4096 x 1024", "LayerNormalization",
             {"a": ("float32", [SIDE, width], 0)}, [("float32", [SIDE, width])],
             torch_layer_norm,
             {"axis": -1}, {"scale": ones, "bias": ones}),
        reduction("the last axis", [1], [SIDE], SHARE),
        reduction("the first axis", [0], [SIDE], 0.6),
        reduction("all axes", None, [], SHARE),
    ]


def nothing():
    """What a call costs without any work."""
    return elementwise("nothing", "Add", lambda t, i, o: lambda: t.add(*i, out=o[0]), 4, 2)


def cases():
    """All, by name."""
    made = [*elementwise_cases(MIB), *elementwise_cases(64 * MIB), *spread_cases(), *row_cases(),
            *movement_cases(), few_rows(1), few_rows(4)]
    return {case.name: case for case in made}


# Against oneDNN alone: {title: arguments of raw_cost}.
PRODUCTS = {"matmul 128 x 768 x 3072, constant": ["matmul", "128", "768", "3072", "packed"],
            "matmul 2048 x 2048 x 2048": ["matmul", "2048", "2048", "2048"]}


def resnet50_convs():
    """{(in channels, in size, out channels, kernel, stride, pad): how often}"""
    found = {(3, 224, 64, 7, 2, 3): 1}

    def add(*key):
        found[key] = found.get(key, 0) + 1

    channels, size = 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            add(channels, size, width, 1, 1, 0)
            add(width, size, width, 3, stride, 1)
            if block == 0:
                add(channels, size, 4 * width, 1, stride, 0)
            size //= stride
            add(width, size, 4 * width, 1, 1, 0)
            channels = 4 * width
    return found


def one_node(folder, op, inputs, outputs, attributes, constants, views=None):
    """Writes model.onnx, with an inputs.txt and the inputs' bytes for timed_session. inputs: {name:
    numpy values}. views: inputs that a Transpose of their own takes in another order."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper, save
    dtypes = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16,
              "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
    folder.mkdir(parents=True, exist_ok=True)
    views = views or {}
    names = [*(f"{name}_view" if name in views else name for name in inputs),
             *("" if values is None else name for name, values in constants.items())]
    attributes = {key.rstrip("_"): value for key, value in attributes.items()}
    results = [f"y{i}" for i in range(len(outputs))]
    nodes = [helper.make_node("Transpose", [name], [f"{name}_view"], perm=order)
             for name, order in views.items()]
    nodes.append(helper.make_node(op, names, results, **attributes))
    graph = helper.make_graph(
        nodes, "one", [helper.make_tensor_value_info(n, dtypes[str(v.dtype)], v.shape)
                        for n, v in inputs.items()],
        [helper.make_tensor_value_info(n, dtypes[d], s) for n, (d, s) in zip(results, outputs)],
        [numpy_helper.from_array(numpy.asarray(v), n) for n, v in constants.items()
         if v is not None])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    save(model, folder / "model.onnx")
    lines = []
    for name, values in inputs.items():
        values.tofile(folder / f"{name}.bin")
        lines.append(" ".join([name, f"{name}.bin", *map(str, values.shape)]))
    (folder / "inputs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def values_of(case):
    """The inputs of a case, the same in each process."""
    import numpy
    random = numpy.random.default_rng(7)
    made = {}
    for name, (dtype, sizes, most) in case.inputs.items():
        if dtype == "bool":
            made[name] = random.integers(0, 2, sizes).astype("bool")
        elif dtype == "int64":
            made[name] = random.integers(0, most, sizes)
        else:
            made[name] = random.standard_normal(sizes, "float32")
    return made


def write(case, folder):
    inputs = values_of(case)
    weights = {name: inputs.pop(name) for name in case.weights}
    one_node(folder, case.op, inputs, case.outputs, case.attributes, case.constants | weights,
             case.views)
