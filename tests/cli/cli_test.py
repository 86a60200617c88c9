# SPDX-License-Identifier: Apache-2.0
"""The `backplane` command and the example programs, from outside: options, exit codes, JSON.

    cli_test.py BIN_FOLDER DIGITS_FOLDER [UNITTEST_ARGUMENT...]
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

import onnx_file

OK, FAILED, USAGE, ENVIRONMENT, MODEL, DEVICE = range(6)
BIN = DIGITS = None
# Runs a command, and says how much memory it took.
PEAK = ("import resource as r, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
        "print('peak', r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)")


def run(*arguments, program=None, stdout=subprocess.PIPE, prefix=(), **environment):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("BACKPLANE_")}
    command = [*prefix, str(program or BIN / "backplane"), *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          encoding="utf-8", timeout=300, env={**clean, **environment}, check=False)


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def relu_model(self, sizes=("N", 3), output="y"):
        return self.file("relu.onnx", onnx_file.model(
            [("Relu", ["x"], [output])], [("x", onnx_file.FLOAT, sizes)],
            [(output, onnx_file.FLOAT, sizes)]))

    def beside(self, *ids):
        """The command beside a plugin folder with these plugins only, of the product or of
        tests/fakes: doctor runs the cases of all that it finds, a fake's in a second."""
        root = self.folder / "-".join(("beside", *ids))
        if root.exists():
            return root / "bin/backplane"
        plugins = root / "lib/backplane/plugins"
        plugins.mkdir(parents=True)
        for plugin in ids:
            homes = (BIN.parent / "lib" / kind / plugin for kind in ("backplane/plugins", "fakes"))
            (plugins / plugin).symlink_to(next(filter(pathlib.Path.is_dir, homes)))
        (root / "bin").mkdir()
        return shutil.copy(BIN / "backplane", root / "bin")

    def check(self, exit_code, *arguments, words=(), **environment):
        """Runs; the words are in what it prints (0) or in its error (others)."""
        result = run(*arguments, **environment)
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        text = result.stdout if exit_code == OK else result.stderr
        for word in words:
            self.assertIn(word, text)
        return result

    def run_json(self, *arguments, exit_code=OK):
        return json.loads(self.check(exit_code, "run", *arguments, "--json").stdout)


class UsageTest(CommandTest):
    def test_version_and_help(self):
        self.assertRegex(self.check(OK, "--version").stdout, r"^backplane \d+\.\d+\.\d+\n$")
        top = self.check(OK, "--help", words=["devices", "doctor", "run", "Exit codes"]).stdout
        variables = top.split("Environment variables:\n")[1].split("\n\n")[0].splitlines()
        names = [line.split()[0] for line in variables if line.startswith("  BACKPLANE_")]
        self.assertGreaterEqual(len(names), 9)
        self.assertLess({"BACKPLANE_CONFIG", "BACKPLANE_FALLBACK", "BACKPLANE_WORKERS"},
                        set(names))
        self.assertIn("allow|warn|deny=warn", "".join(variables))
        self.assertLessEqual(max(map(len, variables)), 100)
        help_of_run = self.check(
            OK, "run", "--help",
            words=["--input", "--dim", "--expect", "--rtol NUMBER=0.0001", "--atol NUMBER=1e-05",
                   "--output", "--repeat N=1", "--seed N=1", "--placement", "--json",
                   "first device"]).stdout
        self.assertNotIn("Environment variables", help_of_run)
        self.check(OK, "doctor", "--help", words=["--json", "--plugin-path"])

    def test_nothing_asked(self):
        self.check(USAGE, words=["Usage"])

    def test_unknown_is_refused_with_the_nearest(self):
        self.check(USAGE, "devcies", words=["'devcies'", "did you mean devices?"])
        self.check(USAGE, "xyzzyxyzzy", words=["'xyzzyxyzzy'", "devices doctor run bench ops"])
        self.check(USAGE, "run", "m.onnx", "--devise", "cpu:0",
                   words=["'--devise'", "did you mean --device?"])
        self.check(USAGE, "devices", "--jsn", words=["'--jsn'", "did you mean --json?"])
        self.check(USAGE, "doctor", "--plugin-pth=x", words=["did you mean --plugin-path?"])

    def test_bad_values(self):
        self.check(USAGE, "run", words=["MODEL"])
        self.check(USAGE, "run", "m.onnx", "n.onnx", words=["n.onnx"])
        self.check(USAGE, "run", "m.onnx", "--device", words=["--device"])
        for option in ("--input", "--expect", "--dim", "--option"):
            self.check(USAGE, "run", "m.onnx", option, "x", words=[option, "found 'x'"])
        for option in ("--input", "--expect"):
            self.check(USAGE, "run", "m.onnx", option, "x=a.npy", option, "x=b.npy",
                       words=[option, "x is given twice"])
        for size in ("-1", "two", "9" * 30, "1.5"):
            self.check(USAGE, "run", "m.onnx", "--dim", f"N={size}",
                       words=[f"--dim N: expected a whole number from 0 to {2**63 - 1}, "
                              f"found '{size}'"])
        self.check(USAGE, "--option", "npu=1", "devices", words=["ID.NAME=VALUE"])

    def test_bad_numbers(self):
        for option, values, expected in (
                ("--repeat", ("0", "-1", "x", "1000000001"), "a whole number from 1 to 1000000000"),
                ("--seed", ("-1", "0x10", "1 "), f"a whole number from 0 to {2**64 - 1}"),
                ("--rtol", ("-1", "inf"), "a finite number, 0 or more"),
                ("--atol", ("nan", "1e-5x"), "a finite number, 0 or more")):
            for value in values:
                self.check(USAGE, "run", "m.onnx", option, value,
                           words=[f"{option}: expected {expected}, found '{value}'"])

    def test_empty_values(self):
        for option, shape in (("--device", "NAME"), ("--output", "FOLDER")):
            self.check(USAGE, "run", "m.onnx", option, "",
                       words=[f"{option}: expected {shape}, found ''"])
        # Not as if --json were the device.
        self.check(USAGE, "run", "m.onnx", "--device=", "--json", words=["--device: expected NAME"])
        for path in ("", ":"):
            self.check(USAGE, "devices", "--plugin-path", path,
                       words=["--plugin-path: expected FOLDER", f"found '{path}'"])
        self.check(USAGE, "run", "", words=["MODEL: expected a file, found ''"])

    def test_given_twice(self):
        self.check(USAGE, "run", "m.onnx", "--device", "cpu:0", "--device", "npu:0",
                   words=["--device is given twice"])
        self.check(USAGE, "--plugin-path", "a", "devices", "--plugin-path", "b",
                   words=["--plugin-path is given twice"])

    def test_no_escapes_in_errors(self):
        for arguments in (["run", "\x1b[31m.onnx"], ["run", "m.onnx", "\x1b[31m.onnx"]):
            result = run(*arguments)
            self.assertIn(" [31m.onnx", result.stderr)
            self.assertNotIn("\x1b", result.stderr)


class OutputTest(CommandTest):
    def test_standard_output_cannot_be_written(self):
        model, program = self.relu_model(), self.beside("sound")
        for arguments in (["--version"], ["devices", "--json"], ["doctor"],
                          ["run", model, "--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = run(*arguments, stdout=full, program=program)
            self.assertEqual(result.returncode, ENVIRONMENT, arguments)
            self.assertIn("cannot write to standard output: No space left", result.stderr)
        result = run("--help", prefix=["/bin/sh", "-c", 'exec "$0" "$@" >&-'])
        self.assertEqual(result.returncode, ENVIRONMENT)
        self.assertIn("cannot write to standard output", result.stderr)

    def test_a_closed_pipe_is_no_error(self):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            result = run("--help", stdout=writing,
                         prefix=["/bin/sh", "-c", 'trap "" PIPE; exec "$0" "$@"'])
        finally:
            os.close(writing)
        self.assertEqual((result.returncode, result.stderr), (OK, ""))


class EnvironmentTest(CommandTest):
    def test_no_plugins(self):
        program = self.beside()
        model = self.relu_model()
        for device in ([], ["--device", "cpu:0"]):
            result = run("run", model, *device, program=program)
            self.assertEqual(result.returncode, ENVIRONMENT, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, "one clear sentence")
            for word in ("no plugin gives", "lib/backplane/plugins", "backplane doctor"):
                self.assertIn(word, result.stderr)
        devices = run("devices", "--json", program=program)
        self.assertEqual((devices.returncode, json.loads(devices.stdout)["devices"]), (OK, []))
        self.assertIn("No device", run("devices", program=program).stdout)
        self.assertIn("Next:", self.check(FAILED, "doctor", program=program).stdout)

    def test_plugins_from_another_folder(self):
        program = self.beside()
        plugins = BIN.parent / "lib/backplane/plugins"
        for path in (f"{self.folder}:{plugins}", plugins):
            result = run("devices", "--plugin-path", path, program=program)
            self.assertIn("cpu:0", result.stdout)
        result = run("devices", program=program, BACKPLANE_PLUGIN_PATH=str(plugins))
        self.assertIn("cpu:0", result.stdout)

    def test_a_folder_of_plugins_that_is_not_there(self):
        for command in (["devices"], ["doctor"], ["ops", "--device", "cpu:0"], ["run", "m.onnx"],
                        ["bench", "m.onnx"]):
            self.check(USAGE, *command, "--plugin-path", f"{self.folder}:/nowhere",
                       words=["plugin_path: expected the absolute path of a folder, found "
                              "/nowhere: No such file or directory"])
        self.check(OK, "devices", words=["cpu:0"], BACKPLANE_PLUGIN_PATH="/nowhere")

    def test_devices_json(self):
        found = json.loads(self.check(OK, "devices", "--json").stdout)
        devices = {device["name"]: device for device in found["devices"]}
        self.assertEqual(devices["cpu:0"]["plugin"], "cpu")
        self.assertGreater(devices["cpu:0"]["kernel_count"], 0)
        self.assertEqual(devices["npu:0"]["execution"], "queued")
        self.assertEqual(devices["npu:0"]["features"]["async"], "native")
        self.assertEqual(set(devices["cpu:0"]["features"]),
                         {"async", "timing", "fill", "pinned", "map", "native_streams"})
        self.assertIsInstance(found["skipped"], list)

    def test_devices_text(self):
        self.assertNotIn("emulated", self.check(OK, "devices", words=["cpu:0", "npu:0"]).stdout)
        for option in ("-v", "--verbose"):
            self.check(OK, "devices", option, words=["npu:0", "native", "emulated", "pinned",
                                                     "native_streams", "absent"])

    def test_plugin_options(self):
        found = json.loads(self.check(
            OK, "devices", "--json", "--option", "npu.memory=64MiB").stdout)
        memory = {device["name"]: device["memory_bytes"] for device in found["devices"]}
        self.assertEqual(memory["npu:0"], 64 << 20)
        self.check(USAGE, "devices", "--option", "npu.memry=1", words=["memry", "'memory'"])
        self.check(USAGE, "--option", "nothing.x=1", "devices", words=["'nothing'"])
        self.check(ENVIRONMENT, "devices", BACKPLANE_FALLBACK="maybe",
                   words=["BACKPLANE_FALLBACK", "allow|warn|deny"])

    def test_the_environment_fails_beside_an_option(self):
        option = ["--option", "npu.memory=64MiB"]
        self.check(ENVIRONMENT, "devices", *option, words=["BACKPLANE_LOG"], BACKPLANE_LOG="loud")
        self.check(ENVIRONMENT, "doctor", *option, words=["/nosuch"], BACKPLANE_CONFIG="/nosuch")
        self.check(ENVIRONMENT, "devices", *option, words=["BACKPLANE_PLUGIN_OPTIONS: option"],
                   BACKPLANE_PLUGIN_OPTIONS="npu.memory=x")
        self.check(USAGE, "devices", "--option", "npu.memory=y", words=["--option: option"],
                   BACKPLANE_PLUGIN_OPTIONS="npu.memory=64MiB")

    def test_doctor_shows_no_placement_where_nothing_ran(self):
        program = self.beside("wrong_kernels")
        for host_ops, expected in (("", ["ok", "native"]), ("matmul", ["unsupported", ""])):
            report = self.check(OK, "doctor", "--json", program=program,
                                BACKPLANE_FALLBACK="deny", BACKPLANE_HOST_OPS=host_ops).stdout
            checks = {each["name"]: each for each in json.loads(report)["devices"][0]["checks"]}
            self.assertEqual([checks["matmul"][key] for key in ("result", "placement")], expected)

    def test_doctor(self):
        report = json.loads(self.check(OK, "doctor", "--json").stdout)
        self.assertTrue(report["ok"])
        for device in report["devices"]:
            results = {check["name"]: check["result"] for check in device["checks"]}
            self.assertEqual(results, dict.fromkeys(("copies", "matmul", "conv", "kernels"), "ok"))
            placements = {check["name"]: check["placement"] for check in device["checks"]}
            self.assertEqual((placements["matmul"], placements["conv"]), ("native", "native"))
        self.check(OK, "doctor", program=self.beside("wrong_kernels"),
                   words=["Searched for plugins", "wrong_kernels:0", "native", "All is well"])

    def test_doctor_names_a_broken_plugin(self):
        self.file("libbackplane_broken.backplane.json", b"{")
        result = run("doctor", "--plugin-path", self.folder, program=self.beside("sound"))
        self.assertEqual(result.returncode, FAILED, result.stdout)
        for word in ("libbackplane_broken", "manifest", "Next:", "sound:0"):
            self.assertIn(word, result.stdout)
        skip = json.loads(run("devices", "--json", "--plugin-path", self.folder).stdout)["skipped"]
        self.assertEqual(skip[0]["step"], "manifest")
        self.assertEqual(set(skip[0]), {"path", "id", "step", "reason", "next_action"})
        self.assertIn("libbackplane_broken", skip[0]["path"])


class RunTest(CommandTest):
    def test_npy_in_and_out(self):
        given = self.file("x.npy", onnx_file.npy([-1, 2, -3, 4, -5, 6], [2, 3]))
        model = self.relu_model()
        for device in ("cpu:0", "npu:0"):
            found = self.run_json(model, "--input", f"x={given}", "--output",
                                  self.folder / "out/deep", "--device", device)
            self.assertEqual(found["device"], device)
            self.assertEqual(found["dims"],
                             [{"name": "N", "size": 2, "source": "input x"}])
            self.assertEqual(found["outputs"][0]["shape"], [2, 3])
            self.assertEqual(found["outputs"][0]["max"], 6)
            self.assertEqual(sum(found["placement"].values()), 1)
            written = pathlib.Path(found["outputs"][0]["file"])
            self.assertEqual(written, self.folder / "out/deep/y.npy")
            self.assertEqual(onnx_file.read_npy(written.read_bytes()), [0, 2, 0, 4, 0, 6])

    def test_npz_and_tensor_proto(self):
        archive = self.folder / "arrays.npz"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("x.npy", onnx_file.npy([1, -1, 3], [1, 3]))
            file.writestr("other.npy", onnx_file.npy([7, -7, 7], [1, 3]))
        proto = self.file("x.pb", onnx_file.tensor_proto([-9, 9, -9], [1, 3]))
        model = self.relu_model()
        for given, largest in ((archive, 3), (f"{archive}:other", 7), (proto, 9)):
            found = self.run_json(model, "--input", f"x={given}")
            self.assertEqual(found["outputs"][0]["max"], largest)
        self.check(MODEL, "run", model, "--input", f"x={archive}:z",
                   words=["no array 'z'", "'x' 'other'"])
        with warnings.catch_warnings(), zipfile.ZipFile(archive, "a") as file:
            warnings.simplefilter("ignore")
            file.writestr("x.npy", onnx_file.npy([1, -1, 3], [1, 3]))
        self.check(MODEL, "run", model, "--input", f"x={archive}",
                   words=["'x.npy' is there twice"])

    def test_missing_input_comes_from_the_seed(self):
        model = self.relu_model()
        values = []
        for options in ([], [], ["--seed", "1"], ["--seed", "2"]):
            found = self.run_json(model, "--output", self.folder, *options)
            self.assertEqual(found["inputs"][0]["shape"], [1, 3])
            self.assertIn(f"seed {found['seed']}", found["inputs"][0]["source"])
            values.append(onnx_file.read_npy((self.folder / "y.npy").read_bytes()))
        self.assertEqual(values[0], values[1])
        self.assertEqual(values[0], values[2], "the default seed is 1")
        self.assertNotEqual(values[0], values[3])
        self.assertTrue(all(0 <= value < 1 for value in values[3]))
        self.check(OK, "run", model, words=["made up from seed 1", "dimension N is 1"])

    def test_dim(self):
        model = self.relu_model()
        found = self.run_json(model, "--dim", "N=5")
        self.assertEqual(found["outputs"][0]["shape"], [5, 3])
        self.assertEqual(found["dims"][0]["source"], "--dim")
        self.check(MODEL, "run", model, "--dim", "M=5", words=["'M'", "'N'"])
        given = self.file("x.npy", onnx_file.npy([1, 2, 3], [1, 3]))
        self.check(MODEL, "run", model, "--dim", "N=5", "--input", f"x={given}",
                   words=["'x'", "[1, 3]"])
        self.check(MODEL, "run", model, "--dim", f"N={2**62}", words=[str(2**62)])

    def test_huge_sizes_take_no_memory(self):
        """A hundred bytes of model: what is answered is small, or more than there is."""
        one, huge = (1, 1, 1, 1), 2**31 - 1
        for exit_code, operator, sizes, weight, attributes in (
                (OK, "Conv", (0, 1, 2**40, 5), one, {}),
                (OK, "Conv", (0, 1, 5, 5), one, {"pads": [huge, 0, 0, 0]}),
                (OK, "Conv", (1, 0, 2**33, 5), (0, 0, 1, 1), {}),
                (DEVICE, "Conv", (1, 1, 5, 5), one, {"pads": [huge, 0, huge, 0]}),
                (OK, "Conv", (0, 1, 2**33, 5), (2, 1, 3, 3), {"strides": [2, 1]}),
                (OK, "MaxPool", (0, 1, 2**33, 5), None, {"kernel_shape": [1, 1]}),
                (OK, "MaxPool", (0, 1, 5, 2**33), None, {"kernel_shape": [1, huge]}),
                (OK, "MaxPool", (1, 1, 2, 3), None,
                 {"kernel_shape": [1, huge], "pads": [0, huge - 1, 0, 0]})):
            with self.subTest(operator=operator, sizes=sizes, attributes=attributes):
                weights = [] if weight is None else [("w", weight)]
                model = self.file("huge.onnx", onnx_file.model(
                    [(operator, ["x"] + [name for name, _ in weights], ["y"], attributes)],
                    [("x", onnx_file.FLOAT, sizes)], [("y", onnx_file.FLOAT, None)], weights))
                result = self.check(exit_code, "run", model, "--device", "cpu:0",
                                    prefix=(sys.executable, "-c", PEAK))
                self.assertLess(int(result.stderr.split("peak ")[-1]), 2 << 20)

    def test_expect_another_dtype(self):
        model = self.relu_model()
        given = self.file("x.npy", onnx_file.npy([1, 2, 3], (1, 3)))
        expected = self.file("y.npy", onnx_file.npy([1, 2, 3], (1, 3), "f8"))
        self.check(FAILED, "run", model, "--input", f"x={given}", "--expect", f"y={expected}",
                   words=["found f32 [1, 3], expected f64 [1, 3]"])

    def test_expect_u64(self):
        model = self.file("same.onnx", onnx_file.model(
            [("Identity", ["x"], ["y"])], [("x", onnx_file.UINT64, (2,))],
            [("y", onnx_file.UINT64, (2,))]))
        given = self.file("x.npy", onnx_file.npy([2**64 - 1, 2**63], [2], "u8"))
        run_it = ["run", model, "--input", f"x={given}", "--rtol", "0", "--expect"]
        far = self.file("far.npy", onnx_file.npy([1, 2**63], [2], "u8"))
        self.check(FAILED, *run_it, f"y={far}", "--atol", "2",
                   words=["found 18446744073709551615, expected 1"])
        near = self.file("near.npy", onnx_file.npy([2**64 - 2, 2**63 - 1], [2], "u8"))
        self.check(OK, *run_it, f"y={near}", "--atol", "1")
        self.check(FAILED, *run_it, f"y={near}", "--atol", "0.5", words=["2 of 2"])

    def test_alias_called_like_a_device(self):
        config = self.file("config.json", b'{"aliases": {"cpu:0": "npu:0"}}')
        self.check(ENVIRONMENT, "devices", BACKPLANE_CONFIG=str(config),
                   words=["alias 'cpu:0': expected a name that no device can have"])

    def test_expect(self):
        model = self.relu_model((3,))
        given = self.file("x.npy", onnx_file.npy([1, math.nan, math.inf], [3]))
        run_it = ["run", model, "--input", f"x={given}", "--expect"]
        same = self.file("same.npy", onnx_file.npy([1, math.nan, math.inf], [3]))
        self.check(OK, *run_it, f"y={same}", words=["ok: 3 values within"])
        near = self.file("near.npy", onnx_file.npy([1.5, math.nan, math.inf], [3]))
        self.check(FAILED, *run_it, f"y={near}",
                   words=["1 of 3", "first at [0]: found 1, expected 1.5"])
        self.check(OK, *run_it, f"y={near}", "--atol", "0.5", "--rtol", "0")
        self.check(OK, *run_it, f"y={near}", "--atol", "0", "--rtol", "0.34")
        self.check(FAILED, *run_it, f"y={near}", "--atol", "0", "--rtol", "0.33")
        infinite = self.file("infinite.npy", onnx_file.npy([math.inf, math.nan, 1], [3]))
        self.check(FAILED, *run_it, f"y={infinite}", words=["2 of 3"])
        other = self.file("other.npy", onnx_file.npy([1, 2, 3], [1, 3]))
        self.check(FAILED, *run_it, f"y={other}", words=["[3]", "[1, 3]"])
        self.check(MODEL, *run_it, f"z={same}", words=["no output 'z'", "'y'"])
        self.check(MODEL, *run_it, "y=absent.npy", words=["absent.npy"])
        checks = self.run_json(*run_it[1:], f"y={near}", exit_code=FAILED)["checks"]
        self.assertEqual((checks[0]["passed"], checks[0]["index"], checks[0]["found"],
                          checks[0]["expected"]), (False, "[0]", 1, 1.5))

    def test_expected_file_is_the_output(self):
        count = 3000
        model = self.relu_model((count,))
        # Twice as long as what is written: cut by that while mapped, its end would be SIGBUS.
        both = self.file("y.npy", onnx_file.npy([9.0] * count, [count], spaces=200 * 64))
        run_it = ["run", model, "--output", self.folder, "--expect", f"y={both}"]
        self.check(FAILED, *run_it, words=[f"{count} of {count}", "expected 9"])
        written = onnx_file.read_npy(both.read_bytes())
        self.assertTrue(len(written) == count and max(written) < 1, "replaced all the same")
        both.write_bytes(onnx_file.npy([-1] * count, [count]))
        self.check(FAILED, *run_it, "--input", f"x={both}", words=["found 0, expected -1"])
        self.assertEqual(onnx_file.read_npy(both.read_bytes()), [0] * count)
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()),
                         ["relu.onnx", "y.npy"])

    def test_unsafe_output_names(self):
        outputs = ["../a/b:0", ".._a_b_0", "ok-1.x"]
        model = self.file("names.onnx", onnx_file.model(
            [("Relu", ["x"], [name]) for name in outputs], [("x", onnx_file.FLOAT, [2])],
            [(name, onnx_file.FLOAT, [2]) for name in outputs]))
        found = self.run_json(model, "--output", self.folder / "out")
        files = [pathlib.Path(output["file"]) for output in found["outputs"]]
        self.assertEqual([file.name for file in files],
                         ["_._a_b_0.npy", "_._a_b_0_2.npy", "ok-1.x.npy"])
        self.assertEqual(sorted(files), sorted((self.folder / "out").iterdir()))
        self.check(ENVIRONMENT, "run", model, "--output", model, words=["--output"])

    def test_bad_models_and_inputs(self):
        model = self.relu_model()
        self.check(MODEL, "run", "absent.onnx", words=["absent.onnx"])
        self.check(MODEL, "run", self.file("empty.onnx", b""), words=["empty.onnx"])
        self.check(MODEL, "run", self.file("noise.onnx", bytes(range(256))), words=["noise.onnx"])
        strange = self.file("strange.onnx", onnx_file.model(
            [("Strange", ["x"], ["y"])], [("x", onnx_file.FLOAT, [1])],
            [("y", onnx_file.FLOAT, [1])]))
        self.check(MODEL, "run", strange, words=["Strange", "node0"])
        self.check(MODEL, "run", model, "--input", "xx=a.npy",
                   words=["no input 'xx'", "did you mean 'x'?"])
        self.check(MODEL, "run", model, "--input", "x=a.txt", words=["a.txt"])
        cut = self.file("cut.npy", onnx_file.npy([1, 2, 3], [1, 3])[:-1])
        self.check(MODEL, "run", model, "--input", f"x={cut}", words=["cut.npy"])
        for content, words in ((onnx_file.npy([1, 2, 3], [3]), ["rank 2", "[3]"]),
                               (onnx_file.npy([1, 2, 3], [1, 3], "i8"), ["f32", "i64"]),
                               (onnx_file.npy([1, 2], [1, 2]), ["[1, 2]"])):
            wrong = self.file("wrong.npy", content)
            self.check(MODEL, "run", model, "--input", f"x={wrong}", words=["'x'", *words])

    def test_devices(self):
        model = self.relu_model()
        self.check(DEVICE, "run", model, "--device", "cpu:7",
                   words=["'cpu:7'", "npu:0", "did you mean cpu:0?"])
        first = json.loads(self.check(OK, "devices", "--json").stdout)["devices"][0]["name"]
        self.assertEqual(self.run_json(model)["device"], first)
        self.check(DEVICE, "run", model, "--device", "npu:0", "--dim", "N=3000000",
                   "--option", "npu.memory=16MiB", words=["out of memory"])

    def test_repeat_and_placement(self):
        model = self.relu_model()
        once = self.run_json(model)["latency"]
        self.assertEqual((once["run_count"], once["first_ns"]), (1, once["min_ns"]))
        found = self.run_json(model, "--repeat", "5", "--placement")
        self.assertEqual(found["latency"]["run_count"], 5)
        self.assertLessEqual(found["latency"]["min_ns"], found["latency"]["median_ns"])
        self.assertEqual([(node["node"], node["operator"], node["placement"], len(node["kernels"]))
                          for node in found["nodes"]], [("node0", "relu", "native", 1)])
        self.check(OK, "run", model, "--repeat", "5", "--placement",
                   words=["median", "over 4 runs", "node0", "1 native, 0 decomposed"])

    def test_an_index_out_of_range_is_no_result(self):
        nodes = [("Gather", ["x", "i"], ["g"]),
                 ("MaxPool", ["g"], ["y"], {"kernel_shape": [2, 2]})]
        model = self.file("gather_pool.onnx", onnx_file.model(
            nodes, [("x", onnx_file.FLOAT, (4, 1, 2, 2)), ("i", onnx_file.INT64, (1,))],
            [("y", onnx_file.FLOAT, (1, 1, 1, 1))]))
        for device in ("cpu:0", "npu:0"):
            bad = self.file("bad.npy", onnx_file.npy([99], (1,), "i8"))
            result = self.check(MODEL, "run", model, "--device", device, "--input", f"i={bad}",
                                words=["gather", "index 99", "extent 4"])
            self.assertEqual(result.stdout, "")
            good = self.file("good.npy", onnx_file.npy([3], (1,), "i8"))
            self.check(OK, "run", model, "--device", device, "--input", f"i={good}")


class DigitsTest(CommandTest):
    def test_expected_probabilities(self):
        heldout = DIGITS / "heldout.npz"
        for device in ("cpu:0", "npu:0"):
            found = self.run_json(DIGITS / "digits.onnx", "--device", device, "--input",
                                  f"image={heldout}", "--expect", f"probabilities={heldout}")
            self.assertTrue(found["checks"][0]["passed"])
            self.assertEqual(found["checks"][0]["value_count"], 3600)

    def test_example(self):
        result = self.check(OK, DIGITS, "--device", "cpu:0", "--device", "npu:0",
                            program=BIN / "digits", words=["cpu:0", "npu:0", "99.44 %", "reads"])
        self.assertNotIn("WRONG", result.stdout)
        self.check(USAGE, program=BIN / "digits", words=["usage"])
        self.check(USAGE, "--devise", "cpu:0", DIGITS, program=BIN / "digits", words=["usage"])
        self.check(MODEL, self.folder, program=BIN / "digits", words=["heldout.npz"])
        self.check(DEVICE, DIGITS, "--device", "cpu:9", program=BIN / "digits", words=["cpu:9"])

    def test_example_sees_wrong_labels(self):
        shutil.copy(DIGITS / "digits.onnx", self.folder)
        with zipfile.ZipFile(DIGITS / "heldout.npz") as source, \
                zipfile.ZipFile(self.folder / "heldout.npz", "w") as target:
            target.writestr("image.npy", source.read("image.npy"))
            target.writestr("label.npy", onnx_file.npy([0] * 360, [360], "i8"))
        result = run(self.folder, "--device", "cpu:0", program=BIN / "digits")
        self.assertEqual(result.returncode, FAILED, result.stdout + result.stderr)
        self.assertIn("WRONG: cpu:0 reads only", result.stdout)

    def test_readme_lists_the_files(self):
        readme = (DIGITS / "README.md").read_text()
        names = [file.name for file in DIGITS.iterdir()
                 if file.is_file() and file.name[0] != "." and file.name != "README.md"]
        self.assertEqual([name for name in names if f"`{name}`" not in readme], [])

    def test_readme_shows_the_first_program(self):
        root = DIGITS.resolve().parents[2]
        readme = (root / "README.md").read_text()
        shown = readme.split("```cpp\n")[1].split("```")[0].splitlines()
        program = (root / "docs/examples/first.cpp").read_text().splitlines()
        own = [line.strip() for line in program]
        self.assertGreaterEqual(len(shown), 5)
        self.assertEqual([line for line in shown if line.strip() not in own], [])

    def test_first_program(self):
        result = self.check(OK, "cpu:0", DIGITS / "digits.onnx", program=BIN / "first")
        self.assertEqual(result.stdout, "0 6 0 10 \nprobabilities\n")
        self.check(FAILED, "cpu:9", DIGITS / "digits.onnx", program=BIN / "first",
                   words=["cpu:9", "cpu:0"])


if __name__ == "__main__":
    BIN, DIGITS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
