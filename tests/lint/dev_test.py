# SPDX-License-Identifier: Apache-2.0
"""./dev on bad input and on machines that lack something: it must refuse, say what to do next,
and install nothing. Commands that build are tested by using them.
"""

import contextlib
import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dev"))
import compile_seconds  # noqa: E402  (found through the line above)
import count_tests  # noqa: E402
import list_failures  # noqa: E402
import table_totals  # noqa: E402

JUNIT = '<testsuite><testcase name="a" status="{}">{}<system-out>{}</system-out></testcase>' \
        '</testsuite>'


def run_dev(*arguments, path=None, root=ROOT):
    environment = dict(os.environ, PATH=path or os.environ["PATH"])
    return subprocess.run([str(root / "dev"), *arguments], env=environment, text=True, check=False,
                          capture_output=True, stdin=subprocess.DEVNULL)


class Usage(unittest.TestCase):
    def assert_refused(self, arguments, *parts):
        result = run_dev(*arguments)
        self.assertEqual(result.returncode, 2, result)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_help(self):
        result = run_dev("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for command in ("run", "test", "build", "bench", "models", "wheel", "format", "clean"):
            self.assertIn(f"\n  {command}", result.stdout)

    def test_nothing_given(self):
        self.assert_refused([], "Usage:")

    def test_unknown_words_name_the_nearest(self):
        self.assert_refused(["tset"], "unknown command 'tset'", "'test'")
        self.assert_refused(["run", "--no-instal"], "unknown option", "'--no-install'")
        self.assert_refused(["build", "relase"], "unknown preset", "'release'")
        self.assert_refused(["test", "ful"], "unknown suite", "'full'")

    def test_words_that_do_not_go_together(self):
        self.assert_refused(["run", "cpu"], "run takes no argument", "'cpu'")
        self.assert_refused(["wheel", "cpu"], "wheel takes no argument", "'cpu'")
        self.assert_refused(["build", "asan", "tsan"], "one preset at most")
        self.assert_refused(["run", "--check"], "--check goes with format")
        self.assert_refused(["run", "--all"], "--all goes with clean")
        self.assert_refused(["run", "--against", "build"], "--against goes with bench")
        self.assert_refused(["bench", "--against", "nowhere"], "--against needs a build folder",
                            "'nowhere'")
        self.assert_refused(["build", "--jobs"], "--jobs needs a number")
        self.assert_refused(["build", "--jobs", "0"], "--jobs needs a number", "'0'")


class MissingThings(unittest.TestCase):
    """A copy of ./dev with stand-ins for the programs of the system first on the PATH."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"
        self.bin = pathlib.Path(folder.name) / "bin"
        self.bin.mkdir()
        (self.root / "tools").mkdir(parents=True)
        shutil.copy(ROOT / "dev", self.root)
        shutil.copytree(ROOT / "tools/dev", self.root / "tools/dev")
        for file in ("requirements-build.txt", "requirements-test.txt"):
            shutil.copy(ROOT / "tools" / file, self.root / "tools")
        self.calls = pathlib.Path(folder.name) / "calls"
        self.stand_in("apt-get", f'echo "$*" >>{self.calls}; echo "no route to mirror"; exit 100')
        self.stand_in("sudo", "exit 1")

    def stand_in(self, name, body):
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def everything_installed_but(self, *missing):
        skip = "|".join(missing) or "-"
        self.stand_in("dpkg-query", 'for p; do case $p in -*|*Status*|' + skip + ') ;; '
                      '*) echo "installed $p" ;; esac; done')

    def run_copy(self, *arguments):
        return run_dev(*arguments, path=f"{self.bin}:{os.environ['PATH']}", root=self.root)

    def test_no_install_prints_the_line(self):
        self.everything_installed_but("ninja-build", "patchelf")
        result = self.run_copy("run", "--no-install")
        self.assertEqual(result.returncode, 3, result)
        self.assertIn("apt-get install -y --no-install-recommends ninja-build patchelf\n",
                      result.stdout)
        self.assertFalse(self.calls.exists())

    def test_apt_that_fails_is_named(self):
        self.everything_installed_but("patchelf")
        if os.geteuid() != 0:
            self.stand_in("sudo", 'shift; case $1 in env) exec "$@" ;; esac')
        result = self.run_copy("build")
        self.assertEqual(result.returncode, 3, result)
        for part in ("no route to mirror", "Install 1 packages", "next:", "log:"):
            self.assertIn(part, result.stdout)
        self.assertIn("install -y", self.calls.read_text(encoding="utf-8"))

    def test_all_there_calls_no_apt(self):
        self.everything_installed_but()
        result = self.run_copy("build", "--no-install")
        self.assertEqual(result.returncode, 3, result)
        self.assertIn("-m venv", result.stdout)
        self.assertFalse(self.calls.exists())

    def test_clean_removes_only_what_it_says(self):
        (self.root / "build/release").mkdir(parents=True)
        (self.root / ".venv").mkdir()
        self.assertEqual(self.run_copy("clean").returncode, 0)
        self.assertFalse((self.root / "build").exists())
        self.assertTrue((self.root / ".venv").exists())
        self.assertEqual(self.run_copy("clean", "--all").returncode, 0)
        self.assertFalse((self.root / ".venv").exists())
        self.assertTrue((self.root / "dev").exists())

    def configured_with(self, compiler, home=None):
        """What cmake is called with where a build folder has this compiler and this source."""
        self.stand_in("cmake", f'echo "$*" >{self.calls}')
        (self.root / "build/asan").mkdir(parents=True, exist_ok=True)
        (self.root / "build/asan/CMakeCache.txt").write_text(
            f"CMAKE_HOME_DIRECTORY:INTERNAL={home or self.root}\n"
            f"CMAKE_CXX_COMPILER:STRING={compiler}\n", encoding="utf-8")
        script = ". tools/dev/common.sh; . tools/dev/build.sh; configure_preset asan"
        subprocess.run(["bash", "-c", script], cwd=self.root, check=True, capture_output=True,
                       env=dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}",
                                root=str(self.root)))
        return self.calls.read_text(encoding="utf-8").strip()

    def test_folder_from_elsewhere_or_for_another_compiler_is_configured_afresh(self):
        self.stand_in("g++", "")
        own = self.bin / "g++"
        self.assertEqual(self.configured_with(own), "--preset asan")
        self.assertEqual(self.configured_with("/elsewhere/g++"), "--fresh --preset asan")
        self.assertEqual(self.configured_with(own, "/elsewhere"), "--fresh --preset asan")


class Counting(unittest.TestCase):
    def count(self, status, output, more=""):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(JUNIT.format(status, more, output))
            file.flush()
            return count_tests.count_report(file.name)

    def test_program_with_sums(self):
        self.assertEqual(self.count("run", "[  PASSED  ] 12 tests.\n"), (12, 0, 0))
        self.assertEqual(self.count("run", "[  PASSED  ] 1 test.\n[  SKIPPED ] 2 tests, listed "
                                    "below:\n"), (1, 0, 2))
        self.assertEqual(self.count("fail", "[  PASSED  ] 3 tests.\n[  FAILED  ] 2 tests, listed "
                                    "below:\n"), (3, 2, 0))

    def test_program_that_died(self):
        self.assertEqual(self.count("fail", "[ RUN      ] A.B\n"), (0, 1, 0))
        self.assertEqual(self.count("notrun", ""), (0, 1, 0))

    def test_skipped_is_not_unable_to_start(self):
        skipped = '<skipped message="SKIP_RETURN_CODE=77"/>'
        self.assertEqual(self.count("notrun", "no onnx", skipped), (0, 0, 1))
        unable = '<skipped message="Unable to find executable"/>'
        self.assertEqual(self.count("notrun", "", unable), (0, 1, 0))

    def test_sums_do_not_hide_a_failing_exit(self):
        self.assertEqual(self.count("fail", "[  PASSED  ] 3 tests.\n"), (3, 1, 0))

    def test_script(self):
        self.assertEqual(self.count("run", "fine\n"), (1, 0, 0))

    def test_no_report(self):
        self.assertEqual(count_tests.count_report("/nonexistent.xml"), (0, 1, 0))


class Failures(unittest.TestCase):
    def listed(self, status, output, more=""):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(JUNIT.format(status, more, output))
            file.flush()
            return list_failures.report(file.name).splitlines()

    def test_cases_from_their_first_failure_on(self):
        text = ("[ RUN      ] A.Good\nnoise\n[       OK ] A.Good (1 ms)\n[ RUN      ] A.Bad\n"
                "noise\na.cpp:7: Failure\nexpected 1\nnoise\n[  FAILED  ] A.Bad (20 ms)\n"
                "[ RUN      ] A.Fine\n[       OK ] A.Fine (1 ms)\n"
                "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.Bad\n")
        self.assertEqual(self.listed("fail", text)[1:], [
            "  a.cpp:7: Failure", "  expected 1", "  noise", "  [  FAILED  ] A.Bad (20 ms)"])
        self.assertEqual(self.listed("run", text), [])

    def test_end_of_what_has_no_such_case(self):
        lines = [f"line {i}" for i in range(100)]
        self.assertEqual(self.listed("fail", "\n".join(lines))[1:],
                         [f"  {line}" for line in lines[-40:]])

    def test_long_cases_lose_their_middle(self):
        text = "a.cpp:7: Failure\n" + "noise\n" * 100 + "[  FAILED  ] A.Bad (20 ms)\n"
        listed = self.listed("fail", text)[1:]
        self.assertEqual(len(listed), 25)
        self.assertEqual(listed[0], "  a.cpp:7: Failure")
        self.assertEqual(listed[12], "  ... 78 lines ...")

    def test_unable_to_start_is_told_and_skipped_is_not(self):
        self.assertEqual(self.listed("notrun", "", '<skipped message="SKIP_RETURN_CODE=77"/>'), [])
        self.assertEqual(len(self.listed("notrun", "", '<skipped message="Unable to find"/>')), 1)


class CompileSeconds(unittest.TestCase):
    COLD = "# ninja log v5\n0\t5000\t1\ta/CMakeFiles/x.dir/b.cpp.o\tf\n" \
           "0\t7000\t1\tCMakeFiles/p.dir/cmake_pch.hxx.gch\tf\n7000\t9000\t1\tlib/x.so\tf\n"

    def test_cold_build_is_summed_without_links(self):
        text = compile_seconds.summary(compile_seconds.read_log(self.COLD), 0)
        self.assertEqual(text.splitlines()[0], "12 compile-seconds for 2 objects, 0 from ccache")
        self.assertIn("5.0 a", text)

    def test_warm_build_says_nothing(self):
        warm = self.COLD + "0\t1000\t1\ta/CMakeFiles/x.dir/b.cpp.o\tf\n"
        self.assertIsNone(compile_seconds.summary(compile_seconds.read_log(warm), 0))
        self.assertIsNone(compile_seconds.summary([], 0))

    def test_cold_build_after_another_counts_once(self):
        text = compile_seconds.summary(compile_seconds.read_log(self.COLD * 2), 0)
        self.assertEqual(text.splitlines()[0], "12 compile-seconds for 2 objects, 0 from ccache")

    def printed_for(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(compile_seconds.main(folder), 0)
            return printed.getvalue().split(": ")[1]

    def test_objects_from_the_cache_are_counted(self):
        cache = "# a/b.cpp\ndirect_cache_hit\nlocal_storage_hit\n" \
                "# c.hxx\npreprocessed_cache_hit\ndirect_cache_miss\n# d.cpp\ncache_miss\n"
        self.assertEqual(self.printed_for({".ninja_log": self.COLD, "ccache.log": cache}),
                         "12 compile-seconds for 2 objects, 2 from ccache\n")
        self.assertEqual(self.printed_for({".ninja_log": self.COLD}),
                         "12 compile-seconds for 2 objects, 0 from ccache\n")

    @unittest.skipUnless(shutil.which("ccache"), "ccache is not installed")
    def test_ccache_writes_what_is_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.c").write_text("int a;\n", encoding="utf-8")
            log = pathlib.Path(folder, "ccache.log")
            environment = dict(os.environ, CCACHE_DIR=folder, CCACHE_STATSLOG=str(log))
            for hits in (0, 1):
                subprocess.run(["ccache", "cc", "-c", "a.c"], cwd=folder, env=environment,
                               check=True)
                self.assertEqual(compile_seconds.ccache_hits(log.read_text("utf-8")), hits)


class Tables(unittest.TestCase):
    def lines(self, text, since=0.0):
        with tempfile.TemporaryDirectory() as folder:
            reports = pathlib.Path(folder, "asan", "reports")
            reports.mkdir(parents=True)
            (reports / "pairs.json").write_text(text, encoding="utf-8")
            return table_totals.lines(reports.parent, since)

    def test_sums_of_its_own(self):
        self.assertEqual(self.lines('{"passed": 3, "failed": 1, "total": 4}'),
                         ["asan pairs: 3 passed, 1 failed, 4 in all"])

    def test_cells_that_decide_before_their_consumer_are_counted_apart(self):
        self.assertEqual(
            self.lines('{"passed": 4, "failed": 0, "told_by_producer": 3, "total": 4}'),
            ["asan pairs: 4 passed, 0 failed, 3 decided before their consumer, 4 in all"])

    def test_devices_are_added_up(self):
        device = '{"native": {"passed": 2, "failed": 0, "total": 3}, ' \
                 '"emulated": {"passed": 1, "failed": 1, "total": 2}}'
        self.assertEqual(
            self.lines(f'{{"devices": [{device}, {device}]}}'),
            ["asan pairs: 6 passed, 2 failed, 2 unsupported or excused, 10 in all"])

    def test_broken_table_is_named(self):
        self.assertIn("cannot be read", self.lines("{")[0])

    def test_other_files_and_other_runs_are_left_out(self):
        self.assertEqual(self.lines('{"rows": []}'), [])
        self.assertEqual(self.lines('{"passed": 3, "failed": 1, "total": 4}', since=1e12), [])


@unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
class Shell(unittest.TestCase):
    def test_shellcheck(self):
        result = subprocess.run(["shellcheck", "-x", "-a", "dev", ".ci/run"], cwd=ROOT, text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
