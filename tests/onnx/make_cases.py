# SPDX-License-Identifier: Apache-2.0
"""ONNX's own cases as folders that case_runner reads, and index.json, which says what each needs.

make_cases.py OUT: the node cases, which the onnx package computes, and the simple and pytorch ones,
which it carries as files. It writes OUT again only where the package or these scripts changed.
"""

import hashlib
import json
import pathlib
import shutil
import sys
import warnings

import write_case

# What the pinned package has: a filter that loses cases shows here.
NODE_CASES = 1884
FILE_CASES = 140
FILE_KINDS = ("simple", "pytorch-operator", "pytorch-converted")


def main(out):
    import onnx
    here = pathlib.Path(__file__).parent
    scripts = b"".join((here / f).read_bytes() for f in ("make_cases.py", "write_case.py"))
    mark = f"{onnx.__version__} {hashlib.sha256(scripts).hexdigest()}"
    stamp = out / "stamp"
    if stamp.is_file() and stamp.read_text() == mark:
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    index = [_write(onnx, out, *case) for case in [*_node_cases(onnx), *_file_cases(onnx)]]
    (out / "index.json").write_text(json.dumps(index, indent=0))
    stamp.write_text(mark)


def _node_cases(onnx):
    """(name, kind, model, sets, tolerance) of each; sets have lists of values."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow on purpose
        cases = collect_testcases(None)
    if len(cases) != NODE_CASES:
        sys.exit(f"expected {NODE_CASES} node cases, found {len(cases)}")
    for case in cases:
        yield case.name, "node", case.model, case.data_sets, (case.rtol, case.atol)


def _file_cases(onnx):
    from onnx.backend.test.loader import load_model_tests
    cases = [case for kind in FILE_KINDS for case in load_model_tests(kind=kind)]
    if len(cases) != FILE_CASES:
        sys.exit(f"expected {FILE_CASES} simple and pytorch cases, found {len(cases)}")
    for case in cases:
        folder = pathlib.Path(case.model_dir)
        model = onnx.load(folder / "model.onnx")
        given = {t.name for t in model.graph.initializer}
        infos = [i for i in model.graph.input if i.name not in given]
        sets = [(_values(onnx, s, "input", infos), _values(onnx, s, "output", model.graph.output))
                for s in sorted(folder.glob("test_data_set_*"))]
        yield case.name, case.kind, model, sets, (case.rtol, case.atol)


def _values(onnx, folder, kind, infos):
    values = []
    for number, info in enumerate(infos):
        path = folder / f"{kind}_{number}.pb"
        if not path.is_file():
            break
        if info.type.WhichOneof("value") != "tensor_type":
            values.append([])  # a sequence or an optional
            continue
        values.append(onnx.TensorProto.FromString(path.read_bytes()))
    return values


def _write(onnx, out, name, kind, model, sets, tolerance):
    given = {t.name for t in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in given]
    outputs = [o.name for o in model.graph.output]
    named = [(dict(zip(inputs, i)), dict(zip(outputs, o))) for i, o in sets]
    entry = {"name": name, "kind": kind, "values": "", **_needs(onnx, model)}
    try:
        write_case.write_case(onnx, out / name, model, named, (*tolerance, 0))
    except write_case.NotTensors as error:
        entry["values"] = str(error)
    return entry


def _needs(onnx, model):
    """Operators with the dtypes of their arguments, each once, and what else is not a tensor."""
    try:
        typed = onnx.shape_inference.infer_shapes(model)
    except Exception:  # an operator that inference refuses: its types stay unknown
        typed = model
    graph = typed.graph
    types = {t.name: onnx.TensorProto.DataType.Name(t.data_type) for t in graph.initializer}
    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.type.WhichOneof("value") == "tensor_type":
            types[info.name] = onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type)
        else:
            types[info.name] = (info.type.WhichOneof("value") or "unknown").replace("_type", "")
    nodes = {(n.domain if n.domain != "ai.onnx" else "", n.op_type,
              tuple(sorted({types[v] for v in [*n.input, *n.output] if v in types})))
             for n in graph.node}
    return {"nodes": [{"domain": d, "op": o, "types": list(t)} for d, o, t in sorted(nodes)],
            "opset": max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")),
                         default=0),
            "functions": len(model.functions)}


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
