# SPDX-License-Identifier: Apache-2.0
"""The measured models that are not in the tree, and which environment variables name them all."""


def write_models(folder, digits):
    """Writes them with the onnx package of the test venv; the variables for the programs."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper
    random = numpy.random.default_rng(5)

    def write(name, nodes, inputs, outputs, constants):
        value = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        graph = helper.make_graph(nodes, name, [value(*i) for i in inputs],
                                  [value(*o) for o in outputs],
                                  [numpy_helper.from_array(a, n) for n, a in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())

    chain = [helper.make_node("Add", ["x" if i == 0 else f"t{i}", "x"],
                              ["z" if i == 999 else f"t{i + 1}"]) for i in range(1000)]
    write("chain", chain, [("x", [1])], [("z", [1])], {})
    widths = (64, 128, 128, 10)
    constants, nodes, last = {}, [], "x"
    for layer in range(3):
        shape = (widths[layer + 1], widths[layer])
        constants[f"w{layer}"] = (random.standard_normal(shape) / 8).astype("float32")
        constants[f"b{layer}"] = random.standard_normal(shape[0]).astype("float32")
        made = "y" if layer == 2 else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [made], transB=1))
        last = made
        if layer < 2:
            nodes.append(helper.make_node("Relu", [made], [f"r{layer}"]))
            last = f"r{layer}"
    write("mlp", nodes, [("x", [1, 64])], [("y", [1, 10])], constants)
    return {"BP_BENCH_CHAIN": str(folder / "chain.onnx"),
            "BP_BENCH_MLP": str(folder / "mlp.onnx"), "BP_BENCH_DIGITS": str(digits)}
