# SPDX-License-Identifier: Apache-2.0
"""Adds an elementwise operator and a reduction to a copy of the tree by patches of at most 12
lines, builds the plugins, the conformance kit and the command, and runs the operators and a model
of one on every device:
row_test.py CMAKE BUILD_FOLDER CONFORM, the arguments of growth_test.py
"""

import json
import os
import sys
import unittest

from growth_test import BUILD_FOLDER, CMAKE, PLUGINS, cached_options, run, take_copy

ROW = """
  - op: tilted_abs
    id: {id}
    onnx: TiltedAbs
    doc: "y = x / 2 + |x|."
    types: {{T: float}}
    inputs: [{{name: x, id: 1, type: T}}]
    outputs: [{{name: y, id: 1, type: T}}]
    definition: "0.5 * x + abs(x)"
    ulps: 1
    half_ulps: 1
"""

REDUCTION = """
  - op: reduce_any_bit
    id: {id}
    doc: "Bitwise or over axes; over nothing: 0."
    types: {{T: int}}
    inputs: [{{name: x, id: 1, type: T}}]
    outputs: [{{name: y, id: 1, type: T}}]
    start: "0"
    combine: "a | b"
    attributes:
      - {{name: axes, id: 1, type: i64s, default: [], doc: "empty: all of them"}}
      - {{name: keepdims, id: 2, type: bool, default: true}}
"""


class Row(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        take_copy(cls)
        recorded = json.loads((cls.tree / "ops/record.json").read_text(encoding="utf-8"))
        new_id = 1000 + max(row["id"] for row in recorded["operators"].values())
        for name, text in (("elementwise", ROW), ("reduction", REDUCTION)):
            assert len(text.strip().splitlines()) <= 12, name
            with open(cls.tree / f"ops/defs/{name}.yaml", "a", encoding="utf-8") as rows:
                rows.write(text.format(id=new_id))
            new_id += 1
        run(CMAKE, "-S", cls.tree, "-B", cls.build, "-G", "Ninja", *cached_options(),
            "-DBP_BUILD_TESTS=OFF")
        run(CMAKE, "--build", cls.build, "--target", "bp_conform", "backplane_cli",
            *(f"backplane_{name}" for name in PLUGINS))

    def check(self, plugin, operator):
        folder = self.build / f"lib/backplane/plugins/{plugin}"
        result = run(self.build / "bin/bp-conform", "--may-be-absent", folder, "--json",
                     "--slowness", "20", "--filter", f"L3.{operator}.*")
        report = json.loads(result.stdout)
        if (report["passed"] == 0 and plugin == "xpu" and "absent" in result.stdout
                and "BP_REQUIRE_DEVICES" not in os.environ):
            self.skipTest(f"{plugin}: no device")
        self.assertGreater(report["passed"], 30, result.stdout)
        self.assertEqual(report["failed"], 0, result.stdout)

    def test_operators_run_on_every_device(self):
        for plugin in PLUGINS:
            for operator in ("tilted_abs", "reduce_any_bit"):
                with self.subTest(f"{operator} on {plugin}"):
                    self.check(plugin, operator)

    def write_model(self):
        """A model of the operator, and a file of what it takes and gives."""
        import numpy
        import onnx
        from onnx import helper
        x = numpy.linspace(-3, 3, 21, dtype="float32").reshape(3, 7)
        numpy.savez(self.tree / "tilted.npz", **{"in/x": x, "out/y": x / 2 + abs(x)})
        io = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name in "xy"]
        graph = helper.make_graph([helper.make_node("TiltedAbs", ["x"], ["y"])], "tilted", io[:1],
                                  io[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]),
                  self.tree / "tilted.onnx")

    def test_a_model_of_it_runs_on_every_device(self):
        self.write_model()
        for plugin in PLUGINS:
            with self.subTest(plugin):
                result = run(self.build / "bin/backplane", "bench", self.tree / "tilted.onnx",
                             "--device", f"{plugin}:0", "--seconds", "0.01",
                             "--vectors", self.tree / "tilted.npz", "--plugin-path",
                             self.build / "lib/backplane/plugins", check=False)
                if "BP_REQUIRE_DEVICES" not in os.environ and "no device" in result.stdout:
                    self.skipTest(f"{plugin}: no device")
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_operator_is_read_shown_and_called(self):
        made = self.build / "generated"
        for path, words in (("include/backplane/ops.hpp", "inline Tensor tilted_abs("),
                            ("ops/onnx_rules.cpp", '"TiltedAbs"'),
                            ("ops/operators.md", "`reduce_any_bit`")):
            self.assertIn(words, (made / path).read_text(encoding="utf-8"), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
