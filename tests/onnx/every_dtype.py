# SPDX-License-Identifier: Apache-2.0
"""Every operator in every dtype that the standard lets it have: every_dtype.py MODEL_RUNNER
PLUGIN_DIR OPS_JSON OUT. Of ONNX's own cases of one node, one of each form, each type variable gets
each of its dtypes, beside the case's own for the others, and a session is made. Exit status 77
(skipped) without the onnx package."""

import collections
import copy
import json
import pathlib
import subprocess
import sys
import warnings

from verdicts import DTYPES

# "OPERATOR VARIABLE DTYPE" that is refused in some form, and why.
EXCUSED = {
    "Col2Im T BOOL": "it adds up, and bools have no sum",
    **{f"Gemm T {dtype}": "with a factor that is no whole number"
       for dtype in ("INT32", "INT64", "UINT32", "UINT64")},
}
FEWEST = 2400  # models that are asked for


def cases_of_one_node(operators):
    """(model, schema) of one case of each form: operator, set, inputs and attributes given."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow on purpose
        cases = collect_testcases(None)
    found = {}
    for case in cases:
        model, node = case.model, case.model.graph.node[0]
        if len(model.graph.node) != 1 or model.functions or node.op_type not in operators:
            continue
        if node.domain not in ("", "ai.onnx"):
            continue
        version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        form = (node.op_type, version, tuple(map(bool, node.input)),
                tuple(sorted(a.name for a in node.attribute)))
        found.setdefault(form, []).append((model, onnx.defs.get_schema(node.op_type, version)))
    return found.values()


def formal(arguments, place):
    return arguments[min(place, len(arguments) - 1)]


def variants(model, schema):
    """("VARIABLE DTYPE", model) of each type variable and dtype that the standard allows."""
    import onnx
    node, graph = model.graph.node[0], model.graph
    allowed = {t.type_param_str: [dtype for dtype in DTYPES
                                  if f"tensor({dtype.lower()})" in t.allowed_type_strs]
               for t in schema.type_constraints}
    variable_of = {name: formal(schema.inputs, i).type_str for i, name in enumerate(node.input)}
    variable_of |= {name: formal(schema.outputs, i).type_str for i, name in enumerate(node.output)}
    given = [variable_of.get(info.name) for info in graph.input]
    for variable in sorted(set(filter(None, given))):
        for dtype in allowed.get(variable, []):
            changed = copy.deepcopy(model)
            infos = [info for info in [*changed.graph.input, *changed.graph.output]
                     if variable_of.get(info.name) == variable]
            if any(info.type.WhichOneof("value") != "tensor_type" for info in infos):
                continue
            for info in infos:
                info.type.tensor_type.elem_type = getattr(onnx.TensorProto, dtype)
            try:
                onnx.checker.check_model(changed, full_check=True)
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
                continue  # an attribute of the case names another dtype
            yield f"{variable} {dtype}", changed


class Runner:
    def __init__(self, program, plugins, path):
        self.path = path
        self.process = subprocess.Popen([program, plugins], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def refusal(self, model):
        """Words; empty: a session was made."""
        self.path.write_bytes(model.SerializeToString())
        self.process.stdin.write(f"{self.path}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("model_runner ended")
        status, _, words = line.rstrip("\n").split("\t", 2)
        return words if int(status) else ""


def main(program, plugins, ops_json, out):
    try:
        import onnx.checker  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}; tools/requirements-test.txt has the package")
        return 77
    operators = {name for op in json.loads(pathlib.Path(ops_json).read_text("utf-8"))["operators"]
                 for name in op["onnx_operators"]}
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    runner = Runner(program, plugins, pathlib.Path(out) / "model.onnx")
    count, refused, unread = 0, collections.defaultdict(list), collections.Counter()
    tried = set()
    for cases in cases_of_one_node(operators):
        # Of a form that is not read in the case's own dtypes there is nothing to ask.
        right = next((case for case in cases if not runner.refusal(case[0])), None)
        if right is None:
            unread[cases[0][1].name] += 1
            continue
        tried.add(right[1].name)
        for what, model in variants(*right):
            count += 1
            words = runner.refusal(model)
            if words:
                refused[f"{right[1].name} {what}"].append(words)
    problems = [f"{what}: {words[0]}" for what, words in sorted(refused.items())
                if what not in EXCUSED]
    problems += [f"{what}: excused, and taken by now" for what in EXCUSED if what not in refused]
    print("\n".join(problems))
    print(f"dtypes: {count} models of {len(tried)} operators, {len(refused)} kinds refused, "
          f"{len(EXCUSED)} excused; forms not read at all: {dict(unread)}")
    if count < FEWEST:
        print(f"expected {FEWEST} models or more")
    return 1 if problems or count < FEWEST else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
