# SPDX-License-Identifier: Apache-2.0
"""Adds a kernel, a plugin, an operator and a table of the plugin ABI to a copy of the tree, each
with the files that it should take and no more, and builds what they touch:
growth_test.py CMAKE BUILD_FOLDER CONFORM [TEST...]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE, BUILD_FOLDER, CONFORM = sys.argv[1:4]
# A machine may lack what xpu is built with, unless it must have all devices.
PLUGINS = [name for name in ("cpu", "npu", "xpu") if "BP_REQUIRE_DEVICES" in os.environ
           or (pathlib.Path(BUILD_FOLDER) / f"lib/backplane/plugins/{name}").is_dir()]
LEFT_OUT = shutil.ignore_patterns("build", ".cache", ".git", ".venv", ".dev", "__pycache__")

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

# The folder of the copy's own plugin: the template under another name, and a second time with half
# of a band. The probe asks the core what it makes of either.
CHIP = """\
# SPDX-License-Identifier: Apache-2.0
bp_add_plugin(NAME chip SOURCES plugin.cpp KERNELS relu.cpp
              MANIFEST "${CMAKE_CURRENT_SOURCE_DIR}/manifest.json.in")
bp_add_plugin(NAME half_chip SOURCES plugin.cpp KERNELS relu.cpp DEFINES TOY_HALF
              MANIFEST "${CMAKE_CURRENT_SOURCE_DIR}/manifest.json.in")
bp_add_executable(toy_probe SOURCES toy_probe.cpp DEPS device)
"""

TOY = ROOT / "tests/growth/toy"
# What else a table takes: {file: [(before, after)]}.
TOY_EDITS = {
    "device_api/include/backplane/root.h": [
        ('#include "backplane/types.h"\n',
         '#include "backplane/toy.h"\n#include "backplane/types.h"\n'),
        ("a way to do work (rule below) */\n} bp_plugin;",
         "a way to do work (rule below) */\n  const bp_toy_api* toy; /* NULL: no toys */\n"
         "} bp_plugin;")],
    "device_api/include/backplane/device_api.h": [
        (" *   host.h              what", " *   toy.h               optional: toys\n"
                                         " *   host.h              what"),
        ('#include "backplane/types.h"\n',
         '#include "backplane/toy.h"\n#include "backplane/types.h"\n')],
    "plugins/chip/plugin.cpp": [
        ("constexpr bp_root_api kRoot", '}  // namespace\n\n#include "toy.hpp"\n\n'
                                        "namespace {\n\nconstexpr bp_root_api kRoot"),
        ("    bp_device_props props{};", "    bp_device_props props{};\n"
                                        "    props.features = BP_FEATURE_TOY_BIT;"),
        ("  plugin.kernel =", "  plugin.toy = &kToy;\n  plugin.kernel =")]}
# What guard.py --update writes, to keep the contract from changing by accident.
NEWEST = json.loads((ROOT / "device_api/abi/records.json").read_text(encoding="utf-8")
                    )["records"][-1]["version"]
RECORDS = {f"device_api/abi/layout-{NEWEST}.json", f"device_api/abi/contract-{NEWEST}.json",
           "device_api/abi/records.json"}


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


def take_copy(case):
    """A copy of the tree for a class of tests, as case.tree and case.build."""
    folder = tempfile.TemporaryDirectory()
    case.addClassCleanup(folder.cleanup)
    case.tree = pathlib.Path(folder.name) / "tree"
    case.build = case.tree / "build/growth"
    shutil.copytree(ROOT, case.tree, ignore=LEFT_OUT, symlinks=True)


class Growth(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        take_copy(cls)
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
        (folder / "CMakeLists.txt").write_text(CHIP, encoding="utf-8")
        shutil.copy(TOY / "toy_probe.cpp", folder)
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

    def test_every_suite_that_runs_per_plugin_has_the_new_one(self):
        suites = self.tree / "build/suites"
        run(CMAKE, "-S", self.tree, "-B", suites, "-G", "Ninja", *cached_options(),
            "-DBP_BUILD_TESTS=ON", "-DBP_UNITY=OFF")
        commands = json.loads((suites / "compile_commands.json").read_text(encoding="utf-8"))
        listed = {}
        for command in commands:
            ids = re.search(r'BP_PLUGIN_IDS=\\*"([\w,]*)', command["command"])
            if ids:
                path = pathlib.Path(command["file"]).relative_to(self.tree)
                listed[path.parent.name] = ids.group(1).split(",")
        self.assertLessEqual({"abi", "api", "fault_injection", "fault_marks", "integration",
                              "lifecycle", "model_based"}, set(listed))
        for folder, ids in listed.items():
            self.assertIn("chip", ids, folder)
        cases = (suites / "tests/conform/CTestTestfile.cmake").read_text(encoding="utf-8")
        self.assertIn(f'"{suites}/lib/backplane/plugins/chip"', cases)

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

    def product_files(self):
        """{path: content} of the copy, without tests and pages."""
        files = (path.relative_to(self.tree) for path in self.tree.rglob("*"))
        return {str(path): (self.tree / path).read_bytes() for path in files
                if path.parts[0] not in ("build", "tests", "docs") and (self.tree / path).is_file()}

    def add_table(self):
        """Its header, its implementation, and the edits of TOY_EDITS."""
        shutil.copy(TOY / "toy.h", self.tree / "device_api/include/backplane")
        shutil.copy(TOY / "toy.hpp", self.tree / "plugins/chip")
        for name, edits in TOY_EDITS.items():
            path = self.tree / name
            text = path.read_text(encoding="utf-8")
            for before, after in edits:
                self.assertEqual(text.count(before), 1, f"{name}: {before}")
                text = text.replace(before, after)
            path.write_text(text, encoding="utf-8")
        run(sys.executable, "-B", self.tree / "device_api/abi/guard.py", "--update")

    def test_table_is_its_header_its_implementation_and_three_files(self):
        before = self.product_files()
        self.add_table()
        after = self.product_files()
        changed = {path for path, content in after.items() if before.get(path) != content}
        own = {"device_api/include/backplane/toy.h", "plugins/chip/toy.hpp"}
        self.assertLessEqual(len(changed - own - RECORDS), 3)
        self.assertEqual(changed, own | RECORDS | set(TOY_EDITS))
        self.make("backplane_chip", "backplane_half_chip", "toy_probe")
        self.check_description_of_table()
        self.check_calls_of_table()

    def check_description_of_table(self):
        path = self.build / "generated/abi/abi.json"
        description = json.loads(path.read_text(encoding="utf-8"))
        self.assertIn(("TOY", "bp_toy_api", ["toy_wind", "toy_unwind"]),
                      [(band["name"], band["table"], band["slots"])
                       for band in description["bands"]])
        self.assertIn("bp_toy_args", [struct["name"] for struct in description["structs"]])
        note = run(sys.executable, "-B", self.tree / "device_api/abi/guard.py").stdout
        self.assertIn("are as recorded", note)

    def check_calls_of_table(self):
        probe = self.build / "bin/toy_probe"
        plugins = self.build / "lib/backplane/plugins"
        whole = run(probe, plugins / "chip").stdout
        self.assertEqual(whole.splitlines(), [
            "band toy", "chip:0: toy_wind: OK 7",
            "chip:0: toy_wind threw: the spring is broken (INTERNAL, status 14) 13",
            "chip:0: toy_unwind: OK 7", "without the band",
            "chip:0: toy_wind is not there (UNSUPPORTED, status 2) 7",
            "chip:0: toy_wind is not there (UNSUPPORTED, status 2) 13",
            "chip:0: toy_unwind is not there (UNSUPPORTED, status 2) 0"])
        half = run(probe, plugins / "half_chip").stdout
        self.assertIn("table toy announces band TOY but lacks toy_unwind", half)
        self.assertNotIn("OK", half)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
