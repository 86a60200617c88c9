# SPDX-License-Identifier: Apache-2.0
"""The generator refuses what it must refuse, naming the row, and leaves unchanged files alone."""

import json
import os
import pathlib
import tempfile
import unittest

import c_code
import cpp_api
import cpp_code
import description
import expr_code
import generate
import onnx_code
import python_api
import record
import source

# types.yaml, a line that separates, and nn.yaml.
GOOD = """
groups:
  float: [f16, f32]
  any: [float, bool]
--- nn.yaml
operators:
  - op: scale
    id: 3
    onnx:
      - {op: Scale, since: 7, attributes: {factor: factor, spatial: {must_be: 1}, how: {read: str}}}
      - {op: Scale, since: 9, inputs: [1, any], convert: scale, attributes: {seed: {ignored: int}}}
    doc: y = x times something
    types: {T: float}
    inputs: [{name: x, id: 1, type: T}, {name: b, id: 2, type: T, optional: true}]
    outputs: [{name: y, id: 1, type: T}]
    attributes:
      - {name: sizes, id: 1, type: i64s, doc: "one each"}
      - {name: factor, id: 2, type: f64, default: 2.5}
      - {name: mode, id: 3, type: str, default: 'a"b'}
      - {name: steps, id: 4, type: i64s, default: [1, -9223372036854775808], since: 2}
  - op: twin
    id: 7
    onnx: Twin
    doc: y = x
    types: {T: any}
    inputs: [{name: x, id: 1, type: T}]
    outputs: [{name: y, id: 1, type: T}]
    like: x
    oracle: copy
  - op: total
    id: 8
    doc: the sum
    types: {T: float}
    inputs: [{name: x, id: 1, type: T}]
    outputs: [{name: y, id: 1, type: T}]
    infer: reduce
    decompose: own
    parts: [mix]
    attributes:
      - {name: axes, id: 1, type: i64s}
      - {name: keepdims, id: 2, type: bool, default: true}
  - op: mix
    id: 9
    doc: a, b and c
    types: {T: float}
    inputs: [{name: a, id: 1, type: T}, {name: b, id: 2, type: T}, {name: c, id: 3, type: T}]
    outputs: [{name: y, id: 1, type: T}]
    infer: broadcast
    primitive: true
  - op: bend
    id: 10
    onnx: Bend
    doc: bent
    types: {T: any}
    inputs: [{name: flag, id: 1, type: bool}, {name: x, id: 2, type: T}]
    outputs: [{name: y, id: 1, type: T}]
    definition: {float: "select(flag, x * slope, x)", bool: "flag && x"}
    kernel: {float: "x"}
    ulps: 2
    cases: {exact: [sum], least_different: 4}
    attributes:
      - {name: how, id: 1, type: str, default: ""}
      - {name: slope, id: 2, type: f64, default: 0.5}
  - op: pile
    id: 11
    doc: piled up
    types: {T: any}
    inputs: [{name: x, id: 1, type: T}]
    outputs: [{name: y, id: 1, type: T}]
    start: {float: "0", bool: "false"}
    combine: {float: "a + b", bool: "a || b"}
    finish: {float: "a / count", bool: "a"}
    attributes:
      - {name: axes, id: 1, type: i64s, default: []}
      - {name: keepdims, id: 2, type: bool, default: true}
"""


def texts(text):
    """The files that GOOD, or an edit of it, stands for."""
    types, rows = text.split("--- nn.yaml")
    return {"types.yaml": types, "nn.yaml": rows}


def parse(text):
    return source.parse_files(texts(text))

# Each edit of GOOD (old text, new text), and words that the error must have.
BAD = {
    "unknown key of the file": (("groups:", "extra: 1\ngroups:"), ["unknown key 'extra'"]),
    "unknown key of a family's file": (("operators:", "more: 1\noperators:"),
                                       ["nn.yaml", "'more'"]),
    "unknown key of an operator": (("    like: x", "    likes: x"), ["'twin'", "'likes'"]),
    "unknown key of an onnx row": (("since: 9", "until: 9"), ["'scale'", "row 2", "'until'"]),
    "unknown use of an onnx attribute": (("{read: str}", "{reads: str}"), ["'how'", "'reads'"]),
    "unknown type of an onnx attribute": (("{read: str}", "{read: text}"), ["'how'", "'text'"]),
    "onnx attribute of a field that is not there": (("factor: factor", "factor: faktor"),
                                                    ["'factor'", "'faktor'", "'scale'"]),
    "onnx rows of one operator set": (("since: 9", "since: 7"), ["'Scale'", "two rows", "7"]),
    "onnx row before the oldest set": (("op: Scale, since: 7", "op: Scale, since: 6"),
                                       ["'Scale'", "6"]),
    "onnx inputs of a wrong form": (("[1, any]", "[2, 1]"), ["'Scale'", "[2, 1]"]),
    "unknown inference rule": (("infer: broadcast", "infer: brodcast"), ["'mix'", "'brodcast'"]),
    "like of no input": (("like: x", "like: z"), ["'twin'", "'z'"]),
    "infer and like": (("like: x", "like: x\n    infer: own"), ["'twin'", "exclude"]),
    "reduce without its attributes": (("keepdims, id: 2", "keep, id: 2"), ["'total'", "keepdims"]),
    "function of a wrong name": (("oracle: copy", "oracle: Copy"), ["'twin'", "'Copy'"]),
    "unknown key of an input": (("type: T, optional", "type: T, optinal"), ["'b'", "'optinal'"]),
    "unknown key of an attribute": (('doc: "one each"', "docs: x"), ["'sizes'", "'docs'"]),
    "missing key": (("    doc: y = x times something\n", ""), ["'scale'", "'doc' is missing"]),
    "empty doc": (("y = x times something", '" "'), ["'scale'", "'doc' is empty"]),
    "duplicate key": (("id: 3", "id: 3\n    id: 4"), ["duplicate key 'id'"]),
    "duplicate operator name": (("op: twin", "op: scale"), ["'scale'", "already taken"]),
    "operator id of another": (("id: 7", "id: 3"), ["'twin'", "id 3", "'scale'"]),
    "operator id of wrong type": (("id: 7", 'id: "7"'), ["'twin'", "'id'", "int"]),
    "operator id that is a bool": (("id: 7", "id: true"), ["'twin'", "'id'", "int"]),
    "operator id out of range": (("id: 7", "id: 0"), ["'twin'", "out of range"]),
    "reserved operator name": (("op: twin", "op: union"), ["'union'", "reserved"]),
    "upper-case operator name": (("op: twin", "op: Twin"), ["'Twin'", "lower-case"]),
    "argument id with a gap": (("name: b, id: 2", "name: b, id: 3"), ["'b'", "expected 2"]),
    "duplicate argument name": (("name: b, id: 2", "name: x, id: 2"), ["'x'", "already taken"]),
    "attribute id out of order": (("factor, id: 2", "factor, id: 4"), ["'factor'", "expected 2"]),
    "since going backwards": (
        ("name: factor, id: 2", "since: 3, name: factor, id: 2"), ["'mode'", "older"]),
    "late attribute without default": (
        ("default: [1, -9223372036854775808], ", ""), ["'steps'", "needs a default"]),
    "late input that is required": (
        ("id: 2, type: T, optional: true", "id: 2, type: T, since: 2"), ["'b'", "optional"]),
    "required after optional": (
        ("type: T, optional: true}", "type: T, optional: true}, {name: c, id: 3, type: T}"),
        ["'c'", "after an optional"]),
    "variadic beside another": (("type: T, optional: true", "type: T, variadic: true"),
                                ["'b'", "variadic"]),
    "variadic output without count": (
        ("{name: y, id: 1, type: T}]\n    like: x", "{name: y, id: 1, type: T, variadic: true}]"),
        ["'twin'", "'y'", "count"]),
    "count that is no attribute": (
        ("{name: y, id: 1, type: T}]\n    like: x",
         "{name: y, id: 1, type: T, variadic: true, count: parts}]"), ["'y'", "'parts'"]),
    "count of a fixed output": (
        ("{name: y, id: 1, type: T}]\n    like: x", "{name: y, id: 1, type: T, count: parts}]"),
        ["'y'", "'parts'"]),
    "variadic output by a rule": (
        ("{name: y, id: 1, type: T}]\n    like: x",
         "{name: y, id: 1, type: T, variadic: true, count: parts}]\n    like: x\n"
         "    attributes: [{name: parts, id: 1, type: i64}]"), ["'twin'", "inference of its own"]),
    "unknown dtype in a group": (("[f16, f32]", "[f16, f33]"), ["group 'float'", "'f33'"]),
    "unknown type variable": (("outputs: [{name: y, id: 1, type: T}]\n    attr",
                               "outputs: [{name: y, id: 1, type: U}]\n    attr"), ["'y'", "'U'"]),
    "unused type variable": (("types: {T: any}", "types: {T: any, U: any}"), ["'twin'", "'U'"]),
    "small type variable": (("types: {T: any}", "types: {t: any}"), ["'t'", "capital"]),
    "attr type without attribute": (
        ("outputs: [{name: y, id: 1, type: T}]\n    attr",
         "outputs: [{name: y, id: 1, type: 'attr:factor'}]\n    attr"), ["'factor'", "dtype"]),
    "host argument of another dtype": (
        ("type: T, optional: true", "type: i32, optional: true, host: infer"), ["'b'", "i64"]),
    "host of unknown kind": (("optional: true", "host: plan"), ["'plan'"]),
    "unknown attribute type": (("type: f64", "type: f32"), ["'factor'", "'f32'"]),
    "default of wrong type": (("default: 2.5", "default: true"), ["'factor'", "True", "f64"]),
    "default out of range": (("-9223372036854775808", "-9223372036854775809"), ["'steps'"]),
    "default that is not finite": (("default: 2.5", "default: .nan"), ["'factor'", "nan"]),
    "tensor with a default": (
        ("type: f64, default: 2.5", "type: tensor, default: 1"), ["'factor'", "no default"]),
    "no outputs": (("outputs: [{name: y, id: 1, type: T}]\n    attr", "outputs: []\n    attr"),
                   ["'scale'", "no outputs"]),
    "input and output of one name": (
        ("outputs: [{name: y, id: 1, type: T}]\n    attr",
         "outputs: [{name: x, id: 1, type: T}]\n    attr"), ["'x'", "input and an output"]),
    "no inputs": (("inputs: [{name: x, id: 1, type: T}]\n", "inputs: []\n"), ["'twin'"]),
    "part that is no operator": (("parts: [mix]", "parts: [twain]"), ["'total'", "'twain'"]),
    "part that is not simple": (("parts: [mix]", "parts: [twin]"), ["'twin'", "primitive"]),
    "decomposition without parts": (("    parts: [mix]\n", ""), ["'total'", "parts"]),
    "definition without a class": (('bool: "flag && x"', 'float: "x"'), ["duplicate"]),
    "definition without one of the dtypes": ((', bool: "flag && x"', ''),
                                             ["'bend'", "none for bool"]),
    "definition for no dtype": (('bool: "flag', 'signed: "0", bool: "flag'),
                                ["'bend'", "'signed'"]),
    "definition of an unknown class": (('bool: "flag', 'half: "0", bool: "flag'),
                                       ["'bend'", "'half'"]),
    "empty definition": (('"flag && x"', '" "'), ["'bend'", "empty"]),
    "kernel without a definition": (
        ('    definition: {float: "select(flag, x * slope, x)", bool: "flag && x"}\n', ""),
        ["'bend'", "'kernel' needs a definition"]),
    "definition with an oracle": (("    ulps: 2", "    oracle: own\n    ulps: 2"),
                                  ["'bend'", "oracle"]),
    "ulps out of range": (("ulps: 2", "ulps: -2"), ["'bend'", "-2"]),
    "near without ulps": (("ulps: 2", "near: input"), ["'bend'", "near"]),
    "unknown fill": (("exact: [sum]", "exact: [sums]"), ["'bend'", "'sums'"]),
    "unknown key of cases": (("least_different: 4", "least: 4"), ["'bend'", "'least'"]),
    "input named like an attribute": (("name: slope", "name: flag"), ["'flag'", "attribute"]),
    "definition over an optional input": (
        ("{name: flag, id: 1, type: bool}, {name: x, id: 2, type: T}",
         "{name: x, id: 1, type: T}, {name: flag, id: 2, type: bool, optional: true}"),
        ["'bend'", "fixed number"]),
    "reduction without a start": (('    start: {float: "0", bool: "false"}\n', ""),
                                  ["'pile'", "'start'"]),
    "reduction with a start alone": (
        ('    combine: {float: "a + b", bool: "a || b"}\n', ""), ["'pile'", "needs combine"]),
    "reduction with a definition": (("    start: {float", '    definition: "x"\n    start: {float'),
                                    ["'pile'", "definition"]),
    "no operators": ((GOOD[GOOD.index("operators:"):], "operators: []\n"), ["nn.yaml", "none"]),
    "not YAML": (("groups:", "groups: ]"), ["not YAML"]),
    "not a map": (("groups:", "- groups:"), []),
}


class SourceTest(unittest.TestCase):
    def test_good_source_is_read(self):
        scale, twin, _, _, bend, pile = parse(GOOD)
        self.assertEqual((scale.name, scale.id, scale.version), ("scale", 3, 2))
        self.assertEqual(scale.types[0].dtypes, ["f16", "f32"])
        self.assertEqual([a.required for a in scale.attributes], [True, False, False, False])
        self.assertTrue(scale.inputs[1].optional)
        self.assertEqual((bend.infer, bend.primitive), ("broadcast", True))
        self.assertEqual((pile.infer, pile.primitive), ("reduce", True))
        self.assertEqual(pile.reduction.forms["float"],
                         {"map": "x", "start": "0", "combine": "a + b", "finish": "a / count"})
        self.assertEqual(bend.expression.kernel, {"float": "x", "bool": "flag && x"})
        self.assertEqual(twin.types[0].dtypes, ["bool", "f16", "f32"])

    def test_bad_source_is_refused_by_name(self):
        for title, ((old, new), words) in BAD.items():
            with self.subTest(title):
                self.assertIn(old, GOOD)
                with self.assertRaises(source.SourceError) as caught:
                    parse(GOOD.replace(old, new, 1))
                for word in words:
                    self.assertIn(word, str(caught.exception))


class OutputTest(unittest.TestCase):
    def test_defaults_become_c(self):
        text = c_code.family_header("nn", parse(GOOD))
        self.assertIn("#define BP_OP_SCALE 3u", text)
        self.assertIn("result.factor = 2.5;", text)
        self.assertIn('result.mode.ptr = "a\\042b";', text)
        self.assertIn("steps_default[] = {INT64_C(1), INT64_MIN};", text)
        self.assertIn("sizeof(bp_attrs_scale) == 64", text)
        self.assertNotIn("bp_attrs_twin", text)
        self.assertIn('#include "backplane/ops/nn.h"', c_code.attributes_header(parse(GOOD)))

    def test_family_headers_hold_their_own_operators_only(self):
        files = texts(GOOD)
        first, second = files["nn.yaml"].split("  - op: twin")
        files |= {"nn.yaml": first, "other.yaml": "operators:\n  - op: twin" + second}
        operators = source.parse_files(files)
        self.assertEqual([op.name for op in operators],
                         ["scale", "twin", "total", "mix", "bend", "pile"])
        self.assertNotIn("TOTAL", c_code.family_header("nn", operators))
        self.assertIn("bp_attrs_total", c_code.family_header("other", operators))

    def test_rules_become_inference_and_evaluators(self):
        schemas = cpp_code.schemas_source(parse(GOOD))
        self.assertIn("ops::like_input(context, 0, &out_types[0])", schemas)
        self.assertIn("\"inputs 'a', 'b' and 'c'\"", schemas)
        self.assertIn("Status infer_scale(", schemas.split("namespace {")[0])
        self.assertNotIn("Status infer_mix(", schemas.split("namespace {")[0])
        self.assertIn(".decompose = ops::decompose_total", schemas)
        evaluators = cpp_code.evaluators_source(parse(GOOD))
        self.assertIn("{BP_OP_TWIN, evaluate_copy}", evaluators)
        self.assertIn("{BP_OP_MIX, evaluate_mix}", evaluators)

    def test_what_came_later_leaves_the_functions_alone(self):
        later = GOOD.replace(
            "{name: b, id: 2, type: T, optional: true}",
            "{name: b, id: 2, type: T, optional: true}, "
            "{name: late, id: 3, type: T, optional: true, since: 2}")
        self.assertNotEqual(later, GOOD)
        operators = parse(later)
        scale = next(op for op in operators if any(a.name == "late" for a in op.inputs))
        self.assertEqual([a.name for a in scale.call_inputs],
                         [a.name for a in scale.inputs if a.name != "late"])
        calls = c_code.calls_header(operators)
        self.assertNotIn("const bpa_tensor* late", calls)
        self.assertNotIn("const Tensor& late", cpp_api.calls_header(operators))
        self.assertIn('"late"', cpp_code.schemas_source(operators))

    def test_attributes_of_a_later_version_alone_are_for_the_generic_call(self):
        total = next(op for op in parse(GOOD) if op.name == "total")
        self.assertEqual(total.call_attributes, total.attributes)
        for attribute in total.attributes:
            attribute.since = 2
        self.assertEqual(total.call_attributes, [])
        self.assertNotIn("bp_attrs_total* attributes", c_code.calls_header([total]))
        self.assertNotIn("TotalOptions", cpp_api.calls_header([total]))

    def test_python_tells_parameters_apart_by_name(self):
        operators = parse(GOOD)
        module = python_api.module_source(operators)
        self.assertIn("def scale(\n", module)
        self.assertIn("    x: _Value, sizes: _Ints, b: Optional[_Value] = None, *, "
                      "factor: float = 2.5", module)
        self.assertIn("steps: _Ints = (1, -9223372036854775808)) -> Tensor:", module)
        compile(module, "ops.py", "exec")
        rows = python_api.rows_source(operators)
        self.assertIn('{.name = "steps", .kind = AttributeKind::kI64s, .offset = 48},', rows)
        self.assertIn(".write_defaults = write_defaults<bp_attrs_total, bp_attrs_total_defaults>",
                      rows)

    def test_names_that_python_lacks_are_refused(self):
        for name in ("lambda", "device"):
            with self.assertRaisesRegex(source.SourceError, f"operator 'twin': '{name}' is no"):
                python_api.rows_source(parse(GOOD.replace(
                    "inputs: [{name: x, id: 1, type: T}]\n    outputs: [{name: y, id: 1, type: T}]"
                    "\n    like: x",
                    f"inputs: [{{name: {name}, id: 1, type: T}}]\n"
                    f"    outputs: [{{name: y, id: 1, type: T}}]\n    like: {name}", 1)))

    def test_expressions_become_rows(self):
        rows = expr_code.rows_source(parse(GOOD))
        self.assertIn('{"flag", true},', rows)
        self.assertIn('{"slope", ParameterKind::kF64, 24, 0.5},', rows)
        self.assertIn('kBendKernel[] = {\n    {Class::kBool, "flag && x"},\n'
                      '    {Class::kFloat, "x"},\n};', rows)
        self.assertNotIn("kTwin", rows)
        self.assertIn('{Class::kBool, "x", "false", "a || b", "a"},', rows)
        self.assertIn('.exact = "term", .precise = "full", .special = "special_lane"', rows)
        evaluators = cpp_code.evaluators_source(parse(GOOD))
        self.assertIn('evaluate_expression(call, *expr::find_row("bend"))', evaluators)
        self.assertIn('evaluate_reduction(call, *expr::find_reduction("pile"),', evaluators)
        self.assertIn("`flag && x` (bool)", description.reference(parse(GOOD)))

    def test_onnx_rows_become_rules(self):
        rules = onnx_code.rules_source(parse(GOOD))
        self.assertIn('{"factor", kFloat, Use::kField, "factor"}', rules)
        self.assertIn('{"spatial", kInt, Use::kMustBe, {}, INT64_C(1)}', rules)
        self.assertIn('{"Scale", 7, 8, 1, 2, 1, "scale", kScale7, nullptr}', rules)
        self.assertIn('{"Scale", 9, kAnyLater, 1, SIZE_MAX, 1, "scale", kScale9, convert_scale}',
                      rules)
        self.assertIn('{"Twin", 7, kAnyLater, 1, 1, 1, "twin", {}, nullptr}', rules)

    def test_json_has_everything(self):
        tree = json.loads(description.ops_json(parse(GOOD)))
        scale = tree["operators"][0]
        self.assertEqual(scale["attributes_bytes"], 64)
        self.assertEqual([a["offset_bytes"] for a in scale["attributes"]], [8, 24, 32, 48])
        self.assertEqual(scale["attributes"][3]["since"], 2)

    def run_generator(self, folder, text, recorded="{}"):
        defs = pathlib.Path(folder) / "defs"
        defs.mkdir(exist_ok=True)
        for name, content in texts(text).items():
            (defs / name).write_text(content, encoding="utf-8")
        path = pathlib.Path(folder) / "record.json"
        path.write_text(f'{{"operators": {recorded}}}', encoding="utf-8")
        return generate.main([str(defs), str(path), str(pathlib.Path(folder) / "out")])

    def test_unchanged_files_are_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_generator(folder, GOOD), 0)
            files = [p for p in (pathlib.Path(folder) / "out").rglob("*") if p.is_file()]
            self.assertEqual(len(files), len(generate.OUTPUTS) + 1)  # and one family
            for path in files:
                os.utime(path, (1, 1))
            self.assertEqual(self.run_generator(folder, GOOD), 0)
            self.assertTrue(all(p.stat().st_mtime == 1 for p in files))

    def test_bad_source_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_generator(folder, GOOD.replace("id: 7", "id: 3")), 1)
            self.assertFalse((pathlib.Path(folder) / "out").exists())

    def test_contradicted_record_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            recorded = json.dumps(record.of(parse(GOOD)))
            self.assertEqual(self.run_generator(folder, GOOD, recorded), 0)
            text = GOOD.replace("id: 9\n    doc", "id: 12\n    doc")
            self.assertEqual(self.run_generator(folder, text, recorded), 1)


# Each edit of GOOD that contradicts its record, and words that the error must have.
BROKEN = {
    "operator id changed": (("id: 7\n", "id: 14\n"), ["'twin'", "id 14", "7"]),
    "operator removed": (("  - op: twin\n    id: 7", "  - op: fresh\n    id: 13"),
                         ["'twin'", "missing"]),
    "id reused": (("  - op: twin\n", "  - op: fresh\n"), ["'twin'", "missing"]),
    "attribute removed": (
        ("      - {name: steps, id: 4, type: i64s, default: [1, -9223372036854775808], since: 2}\n",
         ""), ["'scale'", "attribute 'steps'", "missing"]),
    "attribute renamed": (("name: mode", "name: modes"), ["'mode'", "name", "'modes'"]),
    "attribute of another type": (("sizes, id: 1, type: i64s", "sizes, id: 1, type: str"),
                                  ["'sizes'", "type is 'str'", "'i64s'"]),
    "attribute with another default": (("default: 2.5", "default: 3.5"), ["'factor'", "3.5"]),
    "since moved": (("since: 2", "since: 3"), ["'steps'", "since is 3", "2"]),
    "since in the past": (
        ("since: 2}", "since: 2}\n      - {name: late, id: 5, type: i64, default: 0, since: 2}"),
        ["'late'", "since 2", "version 2"]),
    "input that is optional no more": (("type: T, optional: true", "type: T"),
                                       ["'scale'", "input 'b'", "optional"]),
    "output of another type": (
        ("outputs: [{name: y, id: 1, type: T}]\n    like",
         "outputs: [{name: y, id: 1, type: f32}]\n    like"), ["'twin'", "output 'y'", "'f32'"]),
}


class RecordTest(unittest.TestCase):
    def setUp(self):
        self.recorded = record.of(parse(GOOD))

    def test_equal_and_appended_rows_are_taken(self):
        record.check(parse(GOOD), self.recorded)
        record.check(parse(GOOD), {})
        later = "since: 2}\n      - {name: late, id: 5, type: i64, default: 0, since: 3}"
        record.check(parse(GOOD.replace("since: 2}", later)), self.recorded)
        # Which dtypes a variable stands for may grow.
        record.check(parse(GOOD.replace("[f16, f32]", "[f16, f32, f64]")), self.recorded)

    def test_contradictions_are_refused_by_name(self):
        for title, ((old, new), words) in BROKEN.items():
            with self.subTest(title):
                self.assertIn(old, GOOD)
                with self.assertRaises(source.SourceError) as caught:
                    record.check(parse(GOOD.replace(old, new, 1)), self.recorded)
                for word in words:
                    self.assertIn(word, str(caught.exception))

    def test_new_operators_take_new_ids(self):
        del self.recorded["twin"]
        with self.assertRaisesRegex(source.SourceError, "'twin': id 7 is below .* 11"):
            record.check(parse(GOOD), self.recorded)
        self.recorded["gone"] = self.recorded["mix"] | {"id": 7}
        with self.assertRaisesRegex(source.SourceError, "'gone'.*missing"):
            record.check(parse(GOOD), self.recorded)

    def test_append_adds_and_never_changes(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, content in texts(GOOD).items():
                (folder / file).write_text(content, encoding="utf-8")
            path = folder / "record.json"
            path.write_text('{"operators": {}}', encoding="utf-8")
            self.assertEqual(record.main([name, str(path)]), 1)
            self.assertEqual(record.main(["--append", name, str(path)]), 0)
            self.assertEqual(record.main([name, str(path)]), 0)
            self.assertEqual(record.read(path), self.recorded)
            before = path.read_text(encoding="utf-8")
            (folder / "nn.yaml").write_text(texts(GOOD)["nn.yaml"].replace("id: 7", "id: 12"),
                                            encoding="utf-8")
            self.assertEqual(record.main(["--append", name, str(path)]), 1)
            self.assertEqual(path.read_text(encoding="utf-8"), before)


if __name__ == "__main__":
    unittest.main()
