# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of the build, installs it and a vendor's into an environment of their own, and
tries them there; and what `pip install ./python` makes of the build: wheel_test.py CMAKE
BUILD_FOLDER C_COMPILER CXX_COMPILER. Exit code 77: not run, since pip cannot reach its index.
"""

import email
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/lint"))
import elf  # noqa: E402  (found through the line above)

CMAKE, BUILD_FOLDER, C_COMPILER, CXX_COMPILER = sys.argv[1:5]
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
NUMPY = next(line for line in (ROOT / "tools/requirements-test.txt").read_text().splitlines()
             if line.startswith("numpy=="))
MOST_BYTES = 22_000_000
NOT_RUN = 77


def run(*command, check=True, cwd=None, **environment):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("BACKPLANE_", "PYTHON", "OMP_"))}
    result = subprocess.run([str(word) for word in command], env={**kept, **environment}, text=True,
                            cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=3600)
    if check and result.returncode != 0:
        raise AssertionError(f"{command}: exit {result.returncode}\n{result.stdout}")
    return result


def names_of_devices(output):
    return [row["name"] for row in json.loads(output.stdout)["devices"]]


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.base = pathlib.Path(folder.name)
        made = run(sys.executable, "-B", ROOT / "python/make_wheel.py", BUILD_FOLDER,
                   pathlib.Path(BUILD_FOLDER) / "wheel")
        cls.wheel = pathlib.Path(made.stdout.splitlines()[-1])
        run(sys.executable, "-m", "venv", cls.base / "venv")
        cls.python = cls.base / "venv/bin/python"
        run(cls.python, *PIP, "install", "--force-reinstall", cls.wheel)
        [cls.package] = (cls.base / "venv/lib").glob("python3*/site-packages/backplane")

    def code(self, text, **environment):
        """What it prints, in the environment of the wheel; the log is for errors only."""
        environment = {"BACKPLANE_LOG": "error", **environment}
        return run(self.python, "-c", text, cwd=ROOT, **environment).stdout.splitlines()

    def module(self, *arguments, **options):
        return run(self.python, "-m", "backplane", *arguments, cwd=self.base, **options)

    def test_names_and_size(self):
        self.assertEqual(self.wheel.name, "backplane-0.1.0-cp311-abi3-manylinux_2_35_x86_64.whl")
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            text = archive.read("backplane-0.1.0.dist-info/METADATA").decode()
        metadata = email.message_from_string(text)
        links = re.findall(r"\]\(([^)]*)\)", metadata.get_payload())
        self.assertEqual({link[:8] for link in links}, {"https://"}, links)
        self.assertIn("first_steps.py", metadata.get_payload())
        needed = metadata.get_all("Requires-Dist")
        self.assertEqual([word for word in needed if "extra ==" not in word],
                         ["nanobind-backend<2,>=1.0"])
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([name for name in names if "__pycache__" in name or ".a" == name[-2:]], [])

    def test_licences(self):
        [info] = self.package.parent.glob("backplane-*.dist-info")
        licences = {path.stem: path.read_text() for path in (info / "licenses").iterdir()}
        for library in (self.package.parent / "backplane.libs").iterdir():
            name = re.sub("-[0-9a-f]{8}", "", library.name)
            package = run("dpkg-query", "--search", f"*/{name}").stdout.split(":")[0]
            self.assertGreater(len(licences[package]), 200, library)
        self.assertIn("GCC", licences["libgomp1"])
        self.assertIn("Wenzel Jakob", licences["nanobind"])
        self.assertIn("Apache License", licences["LICENSE"])
        [cpu] = filter(pathlib.Path.is_dir, (self.package / "share/doc/backplane").iterdir())
        self.assertIn("Apache License", (cpu / "LICENSE").read_text())
        self.assertIn("Xbyak", (cpu / "THIRD-PARTY-PROGRAMS").read_text())

    def test_libraries_find_each_other(self):
        libraries = [path for path in self.package.rglob("*") if not path.is_dir()
                     and path.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreater(len(libraries), 8)
        for path in libraries:
            library = elf.inspect(path)
            for entry in library.search_paths:
                self.assertTrue(entry.startswith("$ORIGIN"), f"{path}: {entry}")
            self.assertIn("libc.so.6", library.needed, path)
            self.assertNotIn(str(ROOT).encode(), path.read_bytes(), path)
        self.assertTrue((self.package / "lib/backplane/plugins/cpu/libgomp.so.1").exists())

    def test_without_numpy(self):
        self.assertEqual(self.code(
            "import sys, backplane as bp\n"
            "for d in bp.devices(): print(bp.ones((2, 2), device=d).tolist())\n"
            "try: import numpy\n"
            "except ImportError: print('none')\n")[-3:],
            ["[[1.0, 1.0], [1.0, 1.0]]"] * 2 + ["none"])

    def test_command(self):
        expected = names_of_devices(run(f"{BUILD_FOLDER}/bin/backplane", "devices", "--json"))
        self.assertLessEqual({"cpu:0", "npu:0"}, set(expected))
        told = json.loads(self.module("devices", "--json").stdout)["devices"]
        self.assertEqual([row["name"] for row in told], expected)
        for row in told:
            self.assertTrue(row["plugin_path"].startswith(str(self.package)), row)
        command = run(self.python.parent / "backplane", "devices", cwd=self.base)
        self.assertIn("npu:0", command.stdout)
        digits = ROOT / "docs/examples/digits"
        output = self.module("run", digits / "digits.onnx", "--device", "npu:0", "--input",
                             f"image={digits / 'heldout.npz'}", "--expect",
                             f"probabilities={digits / 'heldout.npz'}")
        self.assertIn("probabilities", output.stdout)
        wrong = self.module("devcies", check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("unknown command 'devcies'", wrong.stdout)

    def test_doctor(self):
        healthy = self.module("doctor", BACKPLANE_PLUGINS="npu")
        self.assertIn("npu:0", healthy.stdout)
        # A loader that is none, where the system would find its own.
        (self.base / "libOpenCL.so.1").write_text("not a library")
        told = self.module("doctor", check=False, BACKPLANE_PLUGINS="xpu",
                           LD_LIBRARY_PATH=str(self.base)).stdout
        self.assertIn("libOpenCL.so.1", told)
        self.assertIn("the OpenCL loader cannot be opened", told)

    def team(self, order):
        """Libraries called libgomp that are mapped, and threads that the second user of OpenMP
        adds."""
        library = self.base / "libteam.so"
        run(C_COMPILER, "-shared", "-fPIC", "-fopenmp", "-o", library, HERE / "openmp_team.c")
        lines = self.code(f"""
import ctypes, os
import backplane as bp
cpu = bp.device("cpu:0")
def ours():
    x = bp.ones((700, 700), device=cpu)
    assert (x @ x)[5, 5].item() == 700
def theirs():
    assert ctypes.CDLL({str(library)!r}).team_size() == 4
def thread_count(): return len(os.listdir("/proc/self/task"))
first, second = {order}
before = thread_count()
first()
between = thread_count()
second()
assert between - before >= 3, (before, between)  # both are users of OpenMP
print(thread_count() - between)
maps = [line.split() for line in open("/proc/self/maps")]
for path in sorted({{words[5] for words in maps if len(words) > 5 and "gomp" in words[5]}}):
    print(path)
""", OMP_NUM_THREADS="4", BACKPLANE_PLUGINS="cpu", BACKPLANE_PLUGIN_OPTIONS="cpu.threads=4")
        return int(lines[0]), lines[1:]

    def test_one_pool_of_threads(self):
        for order in ("ours, theirs", "theirs, ours"):
            added, libraries = self.team(order)
            self.assertEqual(added, 0, order)
            self.assertEqual(len(libraries), 1, libraries)

    def test_one_pool_with_pytorch(self):
        torch = ROOT / ".cache/torch-models-venv/bin/python"
        if not torch.exists() or run(torch, "-c", "import torch", check=False).returncode != 0:
            self.skipTest("NOT RUN: .cache/torch-models-venv has no PyTorch; ./dev models does it")
        for first, second in (("backplane", "torch"), ("torch", "backplane")):
            output = run(torch, "-c", f"""
import sys
sys.path.append({str(self.package.parent)!r})
import {first}, {second}
x = backplane.ones((700, 700), device="cpu:0")
assert (x @ x)[5, 5].item() == 700
assert (torch.ones(700, 700) @ torch.ones(700, 700))[5, 5] == 700
maps = [line.split() for line in open("/proc/self/maps")]
for path in sorted({{words[5] for words in maps if len(words) > 5 and "libgomp" in words[5]}}):
    print(path)
""", BACKPLANE_PLUGINS="cpu")
            self.assertEqual(len(output.stdout.splitlines()), 1, output.stdout)

    def test_lines_of_the_readmes(self):
        run(self.python, *PIP, "install", NUMPY)
        self.addCleanup(run, self.python, *PIP, "uninstall", "--yes", "numpy")
        page = (ROOT / "README.md").read_text(encoding="utf-8")
        [lines] = [block.split("```")[0] for block in page.split("```python\n")[1:]]
        self.assertEqual(lines.count("\n"), 4)
        names = self.code("import backplane as bp\nfor d in bp.devices(): print(d.name)")
        for name in names:
            self.assertEqual(self.code(lines.replace("npu:0", name)), ["0.9944444444444445"], name)
        page = (ROOT / "python/README.md").read_text(encoding="utf-8")
        output = self.code(page.split("```python\n")[1].split("```")[0])
        self.assertEqual(output[:2], ["[[ 6. 12.]", " [12. 26.]] [<backplane.Device 'cpu:0': "
                                      + output[1].split("'cpu:0': ")[1]])

    def test_wheel_of_a_vendor(self):
        for component in ("sdk", "runtime"):
            run(CMAKE, "--install", BUILD_FOLDER, "--component", component, "--prefix",
                self.base / "sdk")
        out = self.base / "vendor"
        defines = {"CMAKE_PREFIX_PATH": self.base / "sdk", "CMAKE_CXX_COMPILER": CXX_COMPILER,
                   "TEMPLATE_FOLDER": self.base / "sdk/share/backplane/template"}
        run(sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", out,
            HERE / "vendor", *(f"--config-settings=cmake.define.{name}={value}"
                               for name, value in defines.items()))
        [wheel] = out.glob("*.whl")
        run(self.python, *PIP, "install", "--no-index", wheel)
        self.addCleanup(run, self.python, *PIP, "uninstall", "--yes", "backplane-acme")
        code = ("import backplane as bp\n"
                "x = bp.asarray([-1.0, 2.0], device='acme:0')\n"
                "print(bp.ops.relu(x).tolist(), x.device)\n")
        self.assertEqual(self.code(code), ["[0.0, 2.0] acme:0"])
        self.assertIn("acme:0", self.module("devices").stdout)
        self.assertNotIn("acme", self.module("devices", BACKPLANE_PLUGINS="cpu").stdout)


class FromTheTree(unittest.TestCase):
    """By pip, which builds with packages that it brings and shows them to the build alone."""

    def test_install(self):
        with tempfile.TemporaryDirectory() as folder:
            base = pathlib.Path(folder)
            run(sys.executable, "-m", "venv", base / "venv")
            python = base / "venv/bin/python"
            run(python, *PIP, "install", ROOT / "python",
                f"--config-settings=cmake.define.BACKPLANE_BUILD_DIR={BUILD_FOLDER}", cwd=base)
            [package] = (base / "venv/lib").glob("python3*/site-packages/backplane")
            self.assertTrue((package / "py.typed").exists())
            self.assertIn("class Tensor:", (package / "_core.pyi").read_text(encoding="utf-8"))
            expected = names_of_devices(run(f"{BUILD_FOLDER}/bin/backplane", "devices", "--json"))
            self.assertLessEqual({"cpu:0", "npu:0", "xpu:0"}, set(expected))
            told = run(python, "-m", "backplane", "devices", "--json", cwd=base)
            self.assertEqual(names_of_devices(told), expected)
            sums = run(python, "-c", "import backplane as bp\n"
                       "for d in bp.devices(): print(d, (bp.ones(3, device=d) + 1).tolist())",
                       cwd=base, BACKPLANE_LOG="error").stdout.splitlines()
            self.assertEqual(sums, [f"{name} [2.0, 2.0, 2.0]" for name in expected])


def main():
    with tempfile.TemporaryDirectory() as folder:
        reached = run(sys.executable, *PIP, "download", "--no-deps", "-d", folder,
                      "nanobind-backend<2", check=False)
    if reached.returncode != 0:
        print(f"NOT RUN: pip cannot reach nanobind-backend:\n{reached.stdout}")
        sys.exit(NOT_RUN)
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)


if __name__ == "__main__":
    main()
