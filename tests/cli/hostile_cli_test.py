# SPDX-License-Identifier: Apache-2.0
"""What commands say of plugins that lie, fail or end their process, and of the others beside them.

    hostile_cli_test.py BIN_FOLDER DIGITS_FOLDER [UNITTEST_ARGUMENT...]
"""

import json
import pathlib
import sys
import unittest

import cli_test
from cli_test import DEVICE, FAILED


class HostileTest(cli_test.CommandTest):
    @staticmethod
    def hostile():
        return cli_test.BIN.parent / "lib/fakes/hostile"

    def doctor_beside_sound(self, wish, *arguments):
        return cli_test.run("doctor", *arguments, "--plugin-path", self.hostile(),
                            program=self.beside("sound"), FAKE_HOSTILE=wish)

    def about_hostile(self, wish, *arguments):
        """What a command prints on both streams of a plugin that does as FAKE_HOSTILE says."""
        result = cli_test.run(*arguments, "--plugin-path", self.hostile(), program=self.beside(),
                              FAKE_HOSTILE=wish)
        self.assertIn("hostile:0", result.stdout)
        return result

    def test_names_forge_no_lines(self):
        """Of a device whose name, vendor, driver and log line have line ends, colours and marks of
        direction."""
        harmful = "\x1b\x7f\r\x85\u202e\u2028"
        for arguments in (["devices", "-v"], ["devices", "--json"], ["doctor"],
                          ["doctor", "--json"]):
            result = self.about_hostile("names=forged", *arguments)
            for text in (result.stdout, result.stderr):
                self.assertFalse(set(harmful) & set(text), arguments)
                self.assertNotRegex(text, r"(?m)^\s*ERROR forged")
            self.assertIn("plugin hostile: chip  ERROR forged", result.stdout + result.stderr)
        json_text = self.about_hostile("names=forged", "devices", "--json").stdout
        device = {row["name"]: row for row in json.loads(json_text)["devices"]}["hostile:0"]
        cleaned = "chip  ERROR forged  [31m\ufffd \ufffd \ufffd  "
        self.assertEqual([device[key] for key in ("full_name", "vendor", "driver")], [cleaned] * 3)

    def test_long_texts_are_cut_between_characters(self):
        json_text = self.about_hostile("names=long", "devices", "--json").stdout
        drivers = [device["driver"] for device in json.loads(json_text)["devices"]]
        self.assertIn("\u00e9" * 128 + "...", drivers)
        text = self.about_hostile("names=long", "devices", "-v").stdout
        self.assertEqual((" " + "\u00e9" * 20 + "..." in text, "\ufffd" in text), (True, False))

    def test_a_plugin_without_memory_for_its_list_is_named_and_alone(self):
        wish = "kernel_list=no_memory"
        told = cli_test.run("devices", "--plugin-path", self.hostile(),
                            program=self.beside("sound"), FAKE_HOSTILE=wish).stdout
        self.assertIn("The kernels of hostile:0 are not known: OUT_OF_MEMORY: hostile:0: "
                      "kernel_list", told)
        self.assertIn("sound:0", told)
        rows = json.loads(self.about_hostile(wish, "devices", "--json").stdout)["devices"]
        row = {each["name"]: each for each in rows}["hostile:0"]
        self.assertIn("kernel_list", row["kernels_unknown"])
        self.assertNotIn("kernel_count", row)
        seen = self.doctor_beside_sound(wish, "--json")
        self.assertEqual(seen.returncode, FAILED, seen)
        results = {(device["name"], check["name"]): check["result"]
                   for device in json.loads(seen.stdout)["devices"] for check in device["checks"]}
        self.assertEqual(results["sound:0", "kernels"], "ok")
        self.assertEqual(results["hostile:0", "kernels"], "FAILED")
        ops = cli_test.run("ops", "--device", "hostile:0", "--plugin-path", self.hostile(),
                           program=self.beside(), FAKE_HOSTILE=wish)
        self.assertEqual(ops.returncode, DEVICE)
        self.assertIn("hostile:0: kernel_list", ops.stderr)

    def test_doctor_counts_the_kernels_that_ran(self):
        seen = self.doctor_beside_sound("plan=unsupported", "--json")
        checks = {(device["name"], check["name"]): check
                  for device in json.loads(seen.stdout)["devices"] for check in device["checks"]}
        self.assertRegex(checks["hostile:0", "kernels"]["words"], r"^\d+ of \d+ kernels in")
        self.assertRegex(checks["sound:0", "kernels"]["words"], r"^\d+ (of \d+ )?kernels in")

    def doctor_of_fake(self, fake, fault):
        """What doctor says of one fake beside a sound plugin."""
        result = cli_test.run("doctor", "--json", "--plugin-path",
                              cli_test.BIN.parent / "lib/fakes" / fake, "--option",
                              f"{fake}.device_fault={fault}", program=self.beside("sound"))
        self.assertEqual(result.returncode, FAILED, result.stdout)
        report = json.loads(result.stdout)
        self.assertFalse(report["ok"])
        checks = {(device["name"], check["name"]): check
                  for device in report["devices"] for check in device["checks"]}
        self.assertEqual(checks["sound:0", "kernels"]["result"], "ok")
        self.assertIn(f"{fake}:0 failed kernels", report["problems"][0]["words"])
        return checks[f"{fake}:0", "kernels"]["words"]

    def test_doctor_finds_wrong_and_failing_kernels(self):
        for fault, words in {"relu_negates": "relu_told, relu of [2, 3, 35] as f32",
                             "mul_adds_one": "mul_told, mul of ",
                             "relu_fails": "the plugin says: the unit overheated"}.items():
            told = self.doctor_of_fake("wrong_kernels", fault)
            self.assertIn(words, told)
            self.assertLess(len(told), 900, "a line that can be read")

    def test_doctor_is_not_well_with_a_refused_kernel(self):
        self.assertIn("(broken): launch is missing", self.doctor_of_fake("good", "none"))

    def test_doctor_outlives_what_a_plugin_does_to_its_process(self):
        for wish, words in (("launch_relu=end", "ended by exit code 42; it was at: hostile:0: "),
                            ("root_shutdown=throw", "at the end: INTERNAL: plugin hostile: ")):
            for option in ([], ["--json"]):
                seen = self.doctor_beside_sound(wish, *option)
                self.assertEqual((seen.returncode, words in seen.stdout), (FAILED, True), seen)
            self.assertFalse(json.loads(seen.stdout)["ok"])


if __name__ == "__main__":
    cli_test.BIN, cli_test.DIGITS = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
