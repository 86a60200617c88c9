# SPDX-License-Identifier: Apache-2.0
"""Installs the build, moves the result, and builds and runs the sample project against it:
package_test.py CMAKE BUILD_FOLDER C_COMPILER CXX_COMPILER
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/lint"))
import elf  # noqa: E402  (found through the line above)
import plugin_symbols  # noqa: E402

CMAKE, BUILD_FOLDER, C_COMPILER, CXX_COMPILER = sys.argv[1:5]


def run(*command, check=True, cwd=None):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("BACKPLANE_")}
    environment["BACKPLANE_FALLBACK"] = "allow"  # else some examples begin with a warning
    result = subprocess.run([str(word) for word in command], env=environment, text=True,
                            cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and result.returncode != 0:
        raise AssertionError(f"{command}: exit {result.returncode}\n{result.stdout}")
    return result


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        base = pathlib.Path(folder.name)
        for component in ("runtime", "sdk"):
            run(CMAKE, "--install", BUILD_FOLDER, "--component", component, "--prefix",
                base / "first")
        # What only works where it was installed breaks now.
        (base / "first").rename(base / "moved")
        cls.prefix = base / "moved"
        cls.build = base / "sample"
        run(CMAKE, "-S", HERE / "sample", "-B", cls.build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DSAMPLE_PLUGIN_FOLDER={ROOT / 'tests/fakes'}",
            f"-DEXAMPLES_FOLDER={ROOT / 'docs/examples'}",
            f"-DCMAKE_C_COMPILER={C_COMPILER}", f"-DCMAKE_CXX_COMPILER={CXX_COMPILER}")
        run(CMAKE, "--build", cls.build)

    def test_command_finds_the_installed_plugins(self):
        output = run(self.prefix / "bin/backplane", "devices").stdout
        self.assertIn("cpu:0", output)
        self.assertIn("npu:0", output)

    def test_c_application_finds_the_installed_plugins(self):
        output = run(self.build / "application_c").stdout
        self.assertIn("version 0.1.0", output)
        self.assertIn("device npu:0", output)

    def example(self, name, *arguments):
        return run(self.build / name, *arguments).stdout.splitlines()

    def launched(self, name, *arguments):
        return run(self.prefix / "bin/backplane", "launch", "-n", 2, "--devices", "npu:0,cpu:0",
                   "--", self.build / name, *arguments).stdout.splitlines()

    def test_examples_run_from_the_installed_tree(self):
        digits = ROOT / "docs/examples/digits/digits.onnx"
        lines = self.example("first_c", "npu:0")
        self.assertIn("x + x = 2 4 6 8", lines)
        self.assertTrue(any(line.startswith("device cpu:0: ") for line in lines), lines)
        for device in ("cpu:0", "npu:0"):
            self.assertEqual(self.example("first", device, digits)[0], "0 6 0 10 ")
            self.assertEqual(self.example("run_async", device, digits),
                             ["5 runs ended, 1 of them cancelled"])
            lines = self.example("run_options", device, digits)
            self.assertIn("two runs, equal bits", lines)
            self.assertIn("CANCELLED: the run was cancelled", lines)
            self.assertRegex(lines[0], "^async: (native|emulated)$")
        lines = self.example("wrap_memory", digits)
        self.assertEqual(lines[:2], ["relu: 1 2 3, 0 0 0", "the memory is ours again"])
        self.assertRegex(lines[2], "^the image looks like a [0-9]; 0 outputs were copied$")

    def test_examples_of_collectives(self):
        for example in ("all_reduce", "all_reduce_c"):
            self.assertEqual(sorted(self.example(example)),
                             ["rank 0 of 2 on cpu:0: 3 20", "rank 1 of 2 on cpu:0: 3 20"])
            self.assertEqual(sorted(self.example(example, "npu:0", "cpu:0", "cpu:0")),
                             ["rank 0 of 3 on npu:0: 6 30", "rank 1 of 3 on cpu:0: 6 30",
                              "rank 2 of 3 on cpu:0: 6 30"])
            wrong = run(self.build / example, "cpu:0", "npu:7", check=False)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("npu:7", wrong.stdout)
            self.assertEqual(sorted(self.launched(example)),
                             ["[rank 0 npu:0] rank 0 of 2 on npu:0: 3 20",
                              "[rank 1 cpu:0] rank 1 of 2 on cpu:0: 3 20"])
        # In C each rank has a device of its own, whatever that is.
        for example, devices in (("data_parallel", ("npu:0", "cpu:0", "cpu:0")),
                                 ("data_parallel_c", ("npu:0", "cpu:0"))):
            lines = self.launched(example, "--check")
            self.assertEqual(sum(": loss " in line for line in lines if "rank 0 " in line), 20)
            self.assertEqual(sum(": loss " in line for line in lines if "rank 1 " in line), 0)
            for rank in ("rank 0 npu:0", "rank 1 cpu:0"):
                self.assertTrue(any(line.startswith(f"[{rank}] 2 ranks equal one: ")
                                    for line in lines), lines)
            lines = self.example(example, "--check", *devices)
            losses = [float(line.split("loss ")[1]) for line in lines[:-1]]
            self.assertEqual(len(losses), 20)
            self.assertLess(losses[-1], 0.7 * losses[0])
            self.assertRegex(lines[-1], f"^{len(devices)} ranks equal one: ")
            twice = run(self.build / example, "npu:0", "npu:0", check=False)
            self.assertEqual(twice.returncode, 1)
            self.assertIn("npu:0 is named twice", twice.stdout)

    def test_code_that_the_page_of_collectives_shows(self):
        sources = ("docs/examples/all_reduce.cpp", "docs/examples/data_parallel.cpp",
                   "tests/api/ccl_blocks_test.cpp", "tests/api/ccl_dist_test.cpp",
                   "tests/api/ccl_descent_test.cpp")
        known = {line.strip() for source in sources
                 for line in (ROOT / source).read_text(encoding="utf-8").splitlines()}
        page = (ROOT / "docs/collectives.md").read_text(encoding="utf-8")
        shown = [line.strip() for block in page.split("```cpp\n")[1:]
                 for line in block.split("```")[0].splitlines()]
        self.assertGreater(len(shown), 20)
        self.assertEqual([line for line in shown if line not in known], [])

    def test_project_that_the_readme_shows(self):
        page = (ROOT / "README.md").read_text(encoding="utf-8")
        source = self.build.parent / "first"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(page.split("```cmake\n")[1].split("```")[0],
                                               encoding="utf-8")
        shutil.copy(ROOT / "docs/examples/first.cpp", source)
        run(CMAKE, "-S", source, "-B", source / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={CXX_COMPILER}")
        run(CMAKE, "--build", source / "build")
        output = run(source / "build/first", "npu:0", ROOT / "docs/examples/digits/digits.onnx")
        self.assertEqual(output.stdout.splitlines(), ["0 6 0 10 ", "probabilities"])

    def test_commands_that_the_readme_shows(self):
        page = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", "")
        shown = [shlex.split(line, comments=True) for line in page.splitlines()
                 if line.startswith("build/release/bin/backplane ")]
        self.assertEqual([words[1] for words in shown],
                         ["devices", "doctor", "run", "bench", "ops"])
        for words in shown:
            output = run(BUILD_FOLDER + "/bin/backplane", *words[1:], cwd=ROOT).stdout
            self.assertIn("npu:0", output)
            if words[1] == "run":
                self.assertIn("probabilities", output)

    def test_plugin_made_with_the_installed_sdk(self):
        folder = self.build / "lib/backplane/plugins/sample"
        library = elf.inspect(folder / "libbackplane_sample.so")
        self.assertEqual(plugin_symbols.check(library), [])
        output = run(self.build / "application", folder).stdout
        self.assertEqual(output.splitlines()[-1], "0 2 ")

    def plugin_project(self, name, source, *arguments):
        """Builds a plugin project against the installed SDK; its folder of plugins."""
        build = self.build.parent / name
        run(CMAKE, "-S", source, "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_C_COMPILER={C_COMPILER}", *arguments)
        run(CMAKE, "--build", build)
        folder = build / f"lib/backplane/plugins/{name}"
        library = elf.inspect(folder / f"libbackplane_{name}.so")
        self.assertEqual(plugin_symbols.check(library), [])
        return folder

    def test_installed_template_is_a_plugin(self):
        folder = self.plugin_project("template", self.prefix / "share/backplane/template",
                                     f"-DCMAKE_CXX_COMPILER={CXX_COMPILER}")
        output = run(self.build / "application", folder, "template:0").stdout
        self.assertEqual(output.splitlines()[-1], "0 2 ")

    def test_installed_example_is_a_plugin_that_passes(self):
        source = self.prefix / "share/backplane/examples/npu"
        self.assertEqual([path.name for path in source.rglob("*_test*")], [])
        folder = self.plugin_project("npu", source, f"-DCMAKE_CXX_COMPILER={CXX_COMPILER}")
        output = run(self.build / "application", folder, "npu:0").stdout
        self.assertEqual(output.splitlines()[-1], "0 2 ")
        report = json.loads(run(self.prefix / "bin/bp-conform", folder, "--json", "--slowness", "6",
                                "--filter", "L3.conv.f32", "--filter", "L2.copy").stdout)
        self.assertGreater(report["passed"], 50)
        self.assertEqual(report["failed"], 0, report)

    def test_excuses_are_installed_beside_the_plugin(self):
        excused = [path.parent.name for path in (ROOT / "plugins").glob("*/conformance.json")]
        self.assertNotEqual(excused, [])
        for name in excused:
            installed = self.prefix / f"lib/backplane/plugins/{name}/conformance.json"
            self.assertEqual(installed.read_bytes(),
                             (ROOT / f"plugins/{name}/conformance.json").read_bytes())

    def test_plugin_in_c_alone(self):
        folder = self.plugin_project("sample_c", HERE / "sample_c",
                                     f"-DMANIFEST_FOLDER={ROOT / 'sdk/template'}")
        cache = (self.build.parent / "sample_c/CMakeCache.txt").read_text(encoding="utf-8")
        self.assertNotIn("CMAKE_CXX_COMPILER", cache)
        lines = run(self.build / "application", folder, "sample_c:0", "sum").stdout.splitlines()
        self.assertEqual(lines[-2:], ["0 2 ", "sum 1"])

    def test_emitted_kernels_in_c_pass(self):
        folder = self.plugin_project("sample_c", HERE / "sample_c",
                                     f"-DMANIFEST_FOLDER={ROOT / 'sdk/template'}")
        filters = [word for op in ("elu.f32", "mod.i8", "where.f16", "is_inf.bf16", "clip.u64",
                                   "reduce_mean.bf16", "reduce_l2.i32", "reduce_max.f64")
                   for word in ("--filter", f"L3.{op}")]
        report = json.loads(run(self.prefix / "bin/bp-conform", folder, "--json", "--slowness", "6",
                                *filters).stdout)
        self.assertGreater(report["passed"], 80)
        self.assertEqual(report["failed"], 0, report)

    def test_generator_of_kernels_tells_what_it_takes(self):
        generator = self.prefix / "bin/bp-exprgen"
        self.assertRegex(run(generator, "--help").stdout, "^usage: bp-exprgen cpu FOLDER COUNT\n")
        for arguments, words in (((), "expected a target"),
                                 (("fortran", "x"), "expected the target cpu, c or "),
                                 (("c", "x", "2"), "target c: expected 4 arguments, found 2"),
                                 (("cpu", "x", "many"), "expected a COUNT of files from 1 to 999"),
                                 (("c", "x", "1", "py", "y.h"), "expected the SUFFIX c or cpp")):
            result = run(generator, *arguments, check=False)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn(words, result.stdout)
        result = run(generator, "c", "/nowhere", "1", "c", "y.h", check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere/expressions_0.c: cannot be written", result.stdout)

    def test_kernel_file_without_kernels_is_an_error(self):
        source = self.build.parent / "broken"
        shutil.copytree(self.prefix / "share/backplane/template", source)
        (source / "elu.cpp").write_text("int elu();\n", encoding="utf-8")
        text = (source / "CMakeLists.txt").read_text(encoding="utf-8")
        (source / "CMakeLists.txt").write_text(text.replace("relu.cpp", "relu.cpp elu.cpp"),
                                               encoding="utf-8")
        with self.assertRaisesRegex(AssertionError, "bp_sdk_kernels_of_elu"):
            self.plugin_project("template_broken", source, f"-DCMAKE_CXX_COMPILER={CXX_COMPILER}")

    def test_manifest_of_another_id_is_an_error(self):
        source = self.build.parent / "renamed"
        for project in ("share/backplane/template", "share/backplane/examples/npu"):
            shutil.copytree(self.prefix / project, source, dirs_exist_ok=True)
            manifest = source / "manifest.json.in"
            text = manifest.read_text(encoding="utf-8")
            self.assertIn('"id": "@BP_PLUGIN_NAME@"', text, project)
            manifest.write_text(text.replace("@BP_PLUGIN_NAME@", "other"), encoding="utf-8")
            result = run(CMAKE, "-S", source, "-B", self.build.parent / "renamed_build",
                         f"-DCMAKE_PREFIX_PATH={self.prefix}", check=False)
            self.assertNotEqual(result.returncode, 0, project)
            self.assertRegex(result.stdout, r"manifest\.json\.in: its id is\s+'other'")

    def test_page_quotes_the_template(self):
        page = (ROOT / "sdk/README.md").read_text(encoding="utf-8")
        for name in ("CMakeLists.txt", "relu.cpp"):
            text = (ROOT / "sdk/template" / name).read_text(encoding="utf-8").split("\n", 1)[1]
            self.assertIn(f"\n{text}```\n", page, name)

    def test_page_quotes_the_collectives(self):
        page = (ROOT / "sdk/README.md").read_text(encoding="utf-8")
        source = (ROOT / "sdk/comm_init_example_test.cpp").read_text(encoding="utf-8")
        shown = page.split("## Collectives\n")[1].split("```cpp\n")[1].split("```")[0]
        parts = shown.strip().split("\n\n")
        self.assertEqual(len(parts), 6)
        for part in parts:
            self.assertIn(f"\n{part}\n", source)

    def test_links_of_installed_pages_lead_somewhere(self):
        for name in ("collectives.md", "launch.md"):  # headers and --help name them
            self.assertTrue((self.prefix / "share/doc/backplane" / name).exists(), name)
        links = []
        for page in (self.prefix / "share/doc/backplane").rglob("*.md"):
            text = page.read_text(encoding="utf-8")
            self.assertNotIn("ADR ", text, page)
            for link in re.findall(r"\]\(([^)#]+)", text):
                if "://" not in link:
                    links.append(link)
                    self.assertTrue((page.parent / link).exists(), f"{page}: {link}")
        self.assertGreater(len(links), 5)

    def test_installed_kit_tries_a_plugin_made_elsewhere(self):
        kit = self.prefix / "bin/bp-conform"
        self.assertNotIn("libbackplane.so", " ".join(elf.inspect(kit).needed))
        plugin = self.build / "lib/backplane/plugins/sample/libbackplane_sample.so"
        settings = ("--slowness", "6", "--json", "--level", "3")
        report = json.loads(run(kit, plugin, *settings, "--filter", "L3.relu.f32").stdout)
        self.assertGreater(report["passed"], 3)
        self.assertEqual(report["failed"], 0, report)
        # One descriptor of the sample has no launch.
        result = run(kit, plugin, *settings, "--filter", "L3.list.none_is_refused", check=False)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("(broken): launch is missing", result.stdout)

    def test_kit_commands_of_the_page(self):
        page = (ROOT / "sdk/README.md").read_text(encoding="utf-8")
        commands = re.findall(r"^bp-conform PLUGIN\.so .*$", page, re.MULTILINE)
        self.assertEqual(len(commands), 2)
        library = self.prefix / "lib/backplane/plugins/npu/libbackplane_npu.so"
        for command in commands:
            words = command.replace("PLUGIN.so", str(library)).split()[1:]
            if "--filter" not in words:  # conform_npu runs them all
                words += ["--filter", "L0.props"]
            self.assertIn("passed", run(self.prefix / "bin/bp-conform", *words).stdout)

    def test_application_names_what_is_missing(self):
        result = run(self.build / "application", self.build, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("sample:0", result.stdout)

    def test_no_installed_file_names_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in {".cmake", ".json", ".h", ".hpp"}:
                text = path.read_text(encoding="utf-8")
                self.assertNotIn(str(ROOT), text, path)
                self.assertNotIn(BUILD_FOLDER, text, path)

    def test_libraries_search_beside_themselves_only(self):
        libraries = list(self.prefix.rglob("*.so*")) + [self.prefix / "bin/backplane"]
        self.assertGreater(len(libraries), 3)
        for path in libraries:
            for entry in elf.inspect(path).search_paths:
                self.assertTrue(entry.startswith("$ORIGIN"), f"{path}: {entry}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
