# SPDX-License-Identifier: Apache-2.0
"""Adds a kernel, a plugin and an operator to a copy of the tree, each with the files that it should
take and no more, and builds what they touch: growth_test.py CMAKE BUILD_FOLDER CONFORM
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE, BUILD_FOLDER, CONFORM = sys.argv[1:4]
PLUGINS = [name for name in ("cpu", "npu", "xpu")
           if (pathlib.Path(BUILD_FOLDER) / f"lib/backplane/plugins/{name}").is_dir()]
LEFT_OUT = shutil.ignore_patterns("build", ".git", ".venv", ".dev", "__pycache__")

# The whole of a new kernel, the same in every plugin.
KERNEL = """\
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

namespace {

bp_status launch(const bp_launch_args&) {
  bp::sdk::fail(BP_UNSUPPORTED, "a kernel that only shows that it is there");
}

constexpr uint64_t kFloat64[] = {bp::sdk::dtypes({BP_DTYPE_F64})};
constexpr bp_kernel kKernels[] = {
    bp::sdk::describe({.name = "softmax_probe",
                       .op = "softmax",
                       .dtypes = kFloat64,
                       .launch = bp::sdk::launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(softmax_probe, kKernels);
"""

# The whole of a new operator whose rules have names.
OPERATOR = """
  - op: stop_gradient
    id: {id}
    onnx: StopGradient
    view: same
    doc: "The same values."
    types: {{T: any}}
    inputs: [{{name: x, id: 1, type: T}}]
    outputs: [{{name: y, id: 1, type: T}}]
    like: x
    oracle: copy
"""


def run(*command, check=True):
    result = subprocess.run([str(word) for word in command], text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and result.returncode != 0:
        raise AssertionError(f"{command}: exit {result.returncode}\n{result.stdout}")
    return result


def cached_options():
    """What the build was configured with, and where it found packages."""
    text = (pathlib.Path(BUILD_FOLDER) / "CMakeCache.txt").read_text(encoding="utf-8")
    names = r"CMAKE_BUILD_TYPE|CMAKE_C_COMPILER|CMAKE_CXX_COMPILER|BACKPLANE_PYTHON|\w+_DIR"
    found = re.findall(rf"^({names}):(?:STRING|PATH|FILEPATH)=(.+)$", text, re.MULTILINE)
    return [f"-D{name}={value}" for name, value in found
            if not value.endswith("-NOTFOUND") and not name.startswith("backplane")]


class Growth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tree = pathlib.Path(folder.name) / "tree"
        cls.build = cls.tree / "build/growth"
        shutil.copytree(ROOT, cls.tree, ignore=LEFT_OUT, symlinks=True)
        for name in PLUGINS:
            cls.add_kernel(cls.tree / f"plugins/{name}", "kernels/softmax_probe.cpp")
        cls.add_plugin()
        # Each source by itself: what is built here is single objects, by their names.
        run(CMAKE, "-S", cls.tree, "-B", cls.build, "-G", "Ninja", *cached_options(),
            "-DBP_BUILD_TESTS=OFF", "-DBP_UNITY=OFF")

    @classmethod
    def add_kernel(cls, plugin, path):
        """One file, and its name in KERNELS."""
        (plugin / path).write_text(KERNEL, encoding="utf-8")
        build_file = plugin / "CMakeLists.txt"
        text, count = re.subn(r"\bKERNELS ", f"KERNELS {path} ",
                              build_file.read_text(encoding="utf-8"), count=1)
        assert count == 1, f"{build_file}: no KERNELS"
        build_file.write_text(text, encoding="utf-8")

    @classmethod
    def add_plugin(cls):
        """A folder, and one line: the template under another name, with a second kernel."""
        folder = cls.tree / "plugins/chip"
        shutil.copytree(cls.tree / "sdk/template", folder)
        (folder / "CMakeLists.txt").write_text(
            "# SPDX-License-Identifier: Apache-2.0\n"
            "bp_add_plugin(NAME chip SOURCES plugin.cpp KERNELS relu.cpp\n"
            '              MANIFEST "${CMAKE_CURRENT_SOURCE_DIR}/manifest.json.in")\n',
            encoding="utf-8")
        cls.add_kernel(folder, "softmax_probe.cpp")
        root = cls.tree / "CMakeLists.txt"
        text, count = re.subn(r"^add_subdirectory\(plugins/npu\)$",
                              r"\g<0>\nadd_subdirectory(plugins/chip)",
                              root.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert count == 1, "the root's CMakeLists.txt has no line for plugins/npu"
        root.write_text(text, encoding="utf-8")

    def make(self, *targets):
        return run(CMAKE, "--build", self.build, "--target", *targets).stdout

    def test_kernel_is_one_file_in_every_plugin(self):
        for name in PLUGINS:
            with self.subTest(name):
                made = self.build / f"plugins/{name}/{name}_kernel_list.cpp"
                self.assertIn("&bp_sdk_kernels_of_softmax_probe,", made.read_text(encoding="utf-8"))
                objects = f"plugins/{name}/CMakeFiles/backplane_{name}.dir"
                self.make("ops_generated", f"{objects}/kernels/softmax_probe.cpp.o",
                          f"{objects}/{name}_kernel_list.cpp.o")

    def test_plugin_is_its_folder_and_a_line(self):
        self.make("backplane_chip")
        folder = self.build / "lib/backplane/plugins/chip"
        library = (folder / "libbackplane_chip.so").read_bytes()
        self.assertIn(b"softmax_probe", library)
        result = run(CONFORM, folder, "--jobs", "2", "--filter", "L0.*",
                     "--slowness", "6")
        self.assertRegex(result.stdout, r"chip:0: \d+ passed, 0 failed")

    def test_operator_is_a_row_and_rebuilds_no_kernel(self):
        objects = "plugins/npu/CMakeFiles/backplane_npu.dir/kernels"
        kernels = [f"{objects}/conv.cpp.o", f"{objects}/gather.cpp.o"]
        self.make("ops_generated", *kernels)
        recorded = json.loads((self.tree / "ops/record.json").read_text(encoding="utf-8"))
        new_id = max(row["id"] for row in recorded["operators"].values()) + 1
        with open(self.tree / "ops/defs/movement.yaml", "a", encoding="utf-8") as rows:
            rows.write(OPERATOR.format(id=new_id))
        output = self.make("ops_generated", *kernels)
        self.assertIn("Generating ops_generated", output)
        self.assertNotIn("Building CXX object plugins/", output)
        made = self.build / "generated"
        for path, words in (("include/backplane/ops.hpp", "inline Tensor stop_gradient("),
                            ("include/backplane/ops/movement.h", f"STOP_GRADIENT {new_id}u"),
                            ("ops/evaluators.cpp", "{BP_OP_STOP_GRADIENT, evaluate_copy}"),
                            ("ops/onnx_rules.cpp", '"StopGradient", 7, kAnyLater'),
                            ("ops/operators.md", "`stop_gradient`")):
            self.assertIn(words, (made / path).read_text(encoding="utf-8"), path)
        # The row's names are other operators' too, so tables that compile link as well.
        self.make("ops/CMakeFiles/ops.dir/__/generated/ops/schemas.cpp.o",
                  "ops/CMakeFiles/oracle.dir/__/generated/ops/evaluators.cpp.o")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
