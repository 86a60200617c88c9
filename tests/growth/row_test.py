# SPDX-License-Identifier: Apache-2.0
"""Adds an elementwise operator and a reduction to a copy of the tree by patches of at most 12
lines, builds the plugins and the conformance kit, and runs the operators on every device:
row_test.py CMAKE BUILD_FOLDER CONFORM, the arguments of growth_test.py
"""

import json
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
        run(CMAKE, "--build", cls.build, "--target", "bp_conform",
            *(f"backplane_{name}" for name in PLUGINS))

    def check(self, plugin, operator):
        folder = self.build / f"lib/backplane/plugins/{plugin}"
        result = run(self.build / "bin/bp-conform", "--may-be-absent", folder, "--json",
                     "--slowness", "20", "--filter", f"L3.{operator}.*")
        report = json.loads(result.stdout)
        if report["passed"] == 0 and plugin == "xpu" and "absent" in result.stdout:
            self.skipTest(f"{plugin}: no device")
        self.assertGreater(report["passed"], 30, result.stdout)
        self.assertEqual(report["failed"], 0, result.stdout)

    def test_operators_run_on_every_device(self):
        for plugin in PLUGINS:
            for operator in ("tilted_abs", "reduce_any_bit"):
                with self.subTest(f"{operator} on {plugin}"):
                    self.check(plugin, operator)

    def test_operator_is_read_shown_and_called(self):
        made = self.build / "generated"
        for path, words in (("include/backplane/ops.hpp", "inline Tensor tilted_abs("),
                            ("ops/onnx_rules.cpp", '"TiltedAbs"'),
                            ("ops/operators.md", "`reduce_any_bit`")):
            self.assertIn(words, (made / path).read_text(encoding="utf-8"), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
