# SPDX-License-Identifier: Apache-2.0
"""The generator refuses what it must refuse, naming the row, and leaves unchanged files alone."""

import json
import os
import pathlib
import tempfile
import unittest

import c_code
import description
import generate
import source

GOOD = """
groups:
  float: [f16, f32]
  any: [float, bool]
operators:
  - op: scale
    id: 3
    family: nn
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
    family: nn
    doc: y = x
    types: {T: any}
    inputs: [{name: x, id: 1, type: T}]
    outputs: [{name: y, id: 1, type: T}]
"""

# Each edit of GOOD (old text, new text), and words that the error must have.
BAD = {
    "unknown key of the file": (("groups:", "extra: 1\ngroups:"), ["unknown key 'extra'"]),
    "unknown key of an operator": (("family: nn", "famly: nn"), ["'scale'", "'famly'"]),
    "unknown key of an input": (("type: T, optional", "type: T, optinal"), ["'b'", "'optinal'"]),
    "unknown key of an attribute": (('doc: "one each"', "docs: x"), ["'sizes'", "'docs'"]),
    "missing key": (("    doc: y = x times something\n", ""), ["'scale'", "'doc' is missing"]),
    "empty doc": (("y = x times something", '" "'), ["'scale'", "'doc' is empty"]),
    "duplicate key": (("id: 3", "id: 3\n    id: 4"), ["duplicate key 'id'"]),
    "duplicate operator name": (("op: twin", "op: scale"), ["'scale'", "already taken"]),
    "operator ids not growing": (("id: 7", "id: 3"), ["'twin'", "id 3", "go to the end"]),
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
    "unknown dtype in a group": (("[f16, f32]", "[f16, f33]"), ["group 'float'", "'f33'"]),
    "unknown type variable": (("outputs: [{name: y, id: 1, type: T}]\n    attr",
                               "outputs: [{name: y, id: 1, type: U}]\n    attr"), ["'y'", "'U'"]),
    "unused type variable": (("types: {T: any}", "types: {T: any, U: any}"), ["'twin'", "'U'"]),
    "small type variable": (("types: {T: any}", "types: {t: any}"), ["'t'", "capital"]),
    "attr type without attribute": (
        ("outputs: [{name: y, id: 1, type: T}]\n    attr",
         "outputs: [{name: y, id: 1, type: 'attr:factor'}]\n    attr"), ["'factor'", "dtype"]),
    "host argument of another dtype": (
        ("optional: true", "optional: true, host: infer"), ["'b'", "i64"]),
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
    "not YAML": (("groups:", "groups: ]"), ["not YAML"]),
    "not a map": (("groups:", "- groups:"), []),
}


class SourceTest(unittest.TestCase):
    def test_good_source_is_read(self):
        scale, twin = source.parse_source(GOOD)
        self.assertEqual((scale.name, scale.id, scale.version), ("scale", 3, 2))
        self.assertEqual(scale.types[0].dtypes, ["f16", "f32"])
        self.assertEqual([a.required for a in scale.attributes], [True, False, False, False])
        self.assertTrue(scale.inputs[1].optional)
        self.assertEqual(twin.types[0].dtypes, ["bool", "f16", "f32"])

    def test_bad_source_is_refused_by_name(self):
        for title, ((old, new), words) in BAD.items():
            with self.subTest(title):
                self.assertIn(old, GOOD)
                with self.assertRaises(source.SourceError) as caught:
                    source.parse_source(GOOD.replace(old, new, 1))
                for word in words:
                    self.assertIn(word, str(caught.exception))


class OutputTest(unittest.TestCase):
    def test_defaults_become_c(self):
        text = c_code.attributes_header(source.parse_source(GOOD))
        self.assertIn("#define BP_OP_SCALE 3u", text)
        self.assertIn("result.factor = 2.5;", text)
        self.assertIn('result.mode.ptr = "a\\042b";', text)
        self.assertIn("steps_default[] = {INT64_C(1), INT64_MIN};", text)
        self.assertIn("sizeof(bp_attrs_scale) == 64", text)
        self.assertNotIn("bp_attrs_twin", text)

    def test_json_has_everything(self):
        tree = json.loads(description.ops_json(source.parse_source(GOOD)))
        scale = tree["operators"][0]
        self.assertEqual(scale["attributes_bytes"], 64)
        self.assertEqual([a["offset_bytes"] for a in scale["attributes"]], [8, 24, 32, 48])
        self.assertEqual(scale["attributes"][3]["since"], 2)

    def run_generator(self, folder, text):
        path = pathlib.Path(folder) / "ops.yaml"
        path.write_text(text, encoding="utf-8")
        return generate.main([str(path), str(pathlib.Path(folder) / "out")])

    def test_unchanged_files_are_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_generator(folder, GOOD), 0)
            files = [p for p in (pathlib.Path(folder) / "out").rglob("*") if p.is_file()]
            self.assertEqual(len(files), len(generate.OUTPUTS))
            for path in files:
                os.utime(path, (1, 1))
            self.assertEqual(self.run_generator(folder, GOOD), 0)
            self.assertTrue(all(p.stat().st_mtime == 1 for p in files))

    def test_bad_source_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_generator(folder, GOOD.replace("id: 7", "id: 3")), 1)
            self.assertFalse((pathlib.Path(folder) / "out").exists())


if __name__ == "__main__":
    unittest.main()
