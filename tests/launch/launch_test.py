# SPDX-License-Identifier: Apache-2.0
"""`backplane launch` from outside: lines, ends, signals, restarts, nodes, secrets.

    launch_test.py BIN_FOLDER [UNITTEST_ARGUMENT...]
"""

import os
import pathlib
import re
import signal
import socket
import sys
import time
import unittest

import launch_case
from launch_case import LaunchCase, processes_with, python, sh, wait_until
from launch_places import ByHandTest, HostsTest  # noqa: F401  (main() runs them)
from launch_signals import SignalTest  # noqa: F401

USAGE, ENVIRONMENT = 2, 3
TOKEN = re.compile(rb"[0-9a-fA-F]{64}")


class GroupTest(LaunchCase):
    """Groups whose ranks are processes, over the engine between them."""

    def test_ranks_of_different_devices_sum(self):
        devices = ("npu:0", "cpu:0", "npu:0")
        output, _ = self.run_launch(0, "-n", 3, "--devices", ",".join(devices), "--",
                                    launch_case.BIN / "all_reduce")
        self.assertEqual(sorted(output.splitlines()), [
            f"[rank {rank} {device}] rank {rank} of 3 on {device}: 6 30"
            for rank, device in enumerate(devices)])

    def test_rank_that_fails_is_named(self):
        """It leaves before it joins."""
        _, errors = self.run_launch(
            1, "-n", 2, "--", "sh", "-c",
            f'[ "$BACKPLANE_CCL_RANK" = 0 ] || exit 1; exec {launch_case.BIN}/all_reduce')
        self.assertIn("rank 1", errors)


class OutputTest(LaunchCase):
    def test_lines_have_their_rank(self):
        output, errors = self.run_launch(
            0, "-n", 3, "--devices", "npu:0,cpu:0,fast",
            *sh('echo $BACKPLANE_CCL_DEVICE; echo "two words"; echo wrong >&2'))
        self.assertEqual(sorted(output.splitlines()), sorted(
            f"[rank {rank} {device}] {text}"
            for rank, device in enumerate(("npu:0", "cpu:0", "fast"))
            for text in (device, "two words")))
        self.assertEqual(sorted(errors.splitlines()), [
            "[rank 0 npu:0] wrong", "[rank 1 cpu:0] wrong", "[rank 2 fast] wrong"])

    def test_one_device_for_all(self):
        output, _ = self.run_launch(0, "-n", 2, "--devices", "npu:0",
                                    *sh("echo $BACKPLANE_CCL_DEVICE"))
        self.assertEqual(sorted(output.splitlines()),
                         ["[rank 0 npu:0] npu:0", "[rank 1 npu:0] npu:0"])

    def test_variables(self):
        output, _ = self.run_launch(0, "-n", 2, *sh(
            "env | grep ^BACKPLANE_CCL_ | grep -v -e STORE -e TOKEN | sort"),
            BACKPLANE_CCL_TOKEN="not the job's", BACKPLANE_CCL_DEVICE="old",
            BACKPLANE_CCL_JOB="mine")
        self.assertEqual([line.removeprefix("[rank 1] ") for line in output.splitlines()
                          if line.startswith("[rank 1]")], [
            "BACKPLANE_CCL_JOB=mine", "BACKPLANE_CCL_LOCAL_COUNT=2", "BACKPLANE_CCL_LOCAL_RANK=1",
            "BACKPLANE_CCL_NODE_RANK=0", "BACKPLANE_CCL_RANK=1", "BACKPLANE_CCL_RANK_COUNT=2",
            "BACKPLANE_CCL_RESTART=0"])

    def test_no_last_line_end_and_any_bytes(self):
        output, errors = self.finish(self.launch("-n", 1, *sh(
            r"printf 'a\0b\377\r\nlast'; printf 'also here' >&2")), 0)
        self.assertEqual(output, b"[rank 0] a\0b\xff\r\n[rank 0] last\n")
        self.assertEqual(errors, b"[rank 0] also here\n")

    def test_long_lines_stay_whole(self):
        """A mebibyte each, from two ranks at once, in pieces."""
        output, _ = self.finish(self.launch("-n", 2, *python(
            "import os, sys\n"
            "letter = 'ab'[int(os.environ['BACKPLANE_CCL_RANK'])]\n"
            "for _ in range(1024): sys.stdout.write(letter * 1024); sys.stdout.flush()\n"
            "print('.')")), 0)
        self.assertEqual(sorted(output.splitlines()), [
            b"[rank 0] " + b"a" * 2**20 + b".", b"[rank 1] " + b"b" * 2**20 + b"."])

    def test_both_streams_to_one_place(self):
        """Lines of output and errors do not run into each other where both are one pipe."""
        script = ("import sys\n"
                  "for i in range(200):\n"
                  "    print('o' * 9000, flush=True)\n"
                  "    print('e' * 9000, file=sys.stderr, flush=True)")
        command = [str(launch_case.BIN / "backplane"), "launch", "-n", "2", *python(script)]
        merged = self.start("sh", "-c", 'exec "$@" 2>&1', "sh", *command)
        output, _ = self.finish(merged, 0)
        self.assertEqual({line.partition(b"] ")[2] for line in output.splitlines()},
                         {b"o" * 9000, b"e" * 9000})
        self.assertEqual(len(output.splitlines()), 800)

    def test_outputs_closed_early(self):
        output, errors = self.run_launch(0, "-n", 2, *sh("echo before; exec >&- 2>&-; sleep 0.1"))
        self.assertEqual(sorted(output.splitlines()), ["[rank 0] before", "[rank 1] before"])
        self.assertEqual(errors, "")

    def test_reader_that_goes_away(self):
        """The ranks go on."""
        process = self.launch("-n", 1, *sh(
            f"for i in $(seq 20000); do echo a line of output; done; echo > {self.file('done')}"))
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(launch_case.PATIENCE_S), 0)
        self.assertTrue(self.file("done").exists())

    def test_reader_that_does_not_read(self):
        """Signals are heard all the same."""
        process = self.launch("-n", 1, "--grace", 60, *python(
            "import os, pathlib, select, time\n"
            "os.set_blocking(1, False)\n"
            "while select.select([], [1], [], 0.5)[1]:\n"
            "    os.write(1, b'a line of output\\n' * 64)\n"
            f"pathlib.Path({str(self.file('full'))!r}).touch()\n"
            "time.sleep(600)"))
        wait_until(self.file("full").exists, "the pipes are full")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)

    def test_nothing_on_standard_input(self):
        output, _ = self.run_launch(0, "-n", 2, *sh("wc -c"))
        self.assertEqual(sorted(output.split()), sorted("[rank 0] 0 [rank 1] 0".split()))


class EndTest(LaunchCase):
    def test_exit_code_of_the_first_that_failed(self):
        _, errors = self.run_launch(7, "-n", 3, *sh(
            'echo the reason >&2; [ $BACKPLANE_CCL_RANK != 1 ] || exit 7; sleep 600'))
        self.assertIn("[rank 1] the reason\n", errors)
        self.assertRegex(errors.splitlines()[-1], r"^backplane launch: rank 1 \(process \d+\) "
                         r"ended with exit code 7$")

    def test_crash(self):
        _, errors = self.run_launch(128 + signal.SIGSEGV, "-n", 2, "--devices", "npu:0", *sh(
            '[ $BACKPLANE_CCL_RANK != 0 ] || kill -SEGV $$; sleep 600'))
        self.assertRegex(errors.splitlines()[-1], r"^backplane launch: rank 0 \(npu:0, process "
                         r"\d+\) was ended by signal 11 \(Segmentation fault\)$")

    def test_grace_ends_with_sigkill(self):
        """Also for what a rank started, which ignores SIGTERM as the rank does."""
        self.run_launch(3, "-n", 2, "--grace", 1, *sh(
            'trap "" TERM; sleep 600 & [ $BACKPLANE_CCL_RANK != 1 ] || exit 3; '
            f'echo > {self.file("deaf")}; while :; do sleep 600; done'))

    def test_ranks_may_end_well_within_the_grace(self):
        self.run_launch(3, "-n", 2, "--grace", 60, *sh(
            'if [ $BACKPLANE_CCL_RANK = 1 ]; then '
            f'while [ ! -e {self.file("up")} ]; do sleep 0.01; done; exit 3; fi; '
            f'trap "echo > {self.file("saved")}; exit 0" TERM; '
            f'echo > {self.file("up")}; while :; do sleep 0.01; done'))
        self.assertTrue(self.file("saved").exists())

    def test_what_a_rank_leaves_ends_with_it(self):
        self.run_launch(0, "-n", 2, *sh("sleep 600 & (sleep 600 &) ; echo"))

    def test_output_of_a_process_of_another_session_does_not_hold_the_end(self):
        output, _ = self.run_launch(0, "-n", 1, *sh("setsid sleep 3 & echo here"))
        self.assertEqual(output, "[rank 0] here\n")

    def test_killed_launcher_takes_the_ranks_with_it(self):
        process = self.launch("-n", 2, *sh(
            f'sleep 600 & echo >> {self.file("up")}; trap "" TERM; wait; sleep 600'))
        wait_until(lambda: self.file("up").exists() and self.file("up").read_text() == "\n\n",
                   "both ranks")
        self.assertGreaterEqual(len(processes_with(self.mark)), 5)
        process.kill()
        process.wait(launch_case.PATIENCE_S)
        self.expect_nothing_left()

    def test_program_that_cannot_be_started(self):
        for program, words in (("nosuchprogram", "there is no program 'nosuchprogram' in PATH"),
                               ("./nosuch", "there is no program './nosuch': No such file"),
                               (__file__, "is there, but this user may not execute it"),
                               (self.folder, "a folder"),
                               ("", "there is no program ''")):
            _, errors = self.run_launch(ENVIRONMENT, "-n", 2, "--", program)
            self.assertIn("backplane launch: ", errors)
            self.assertIn(words, errors)
        self.file("bad").write_bytes(b"\x7fELF but no program")
        self.file("bad").chmod(0o755)
        _, errors = self.run_launch(ENVIRONMENT, "-n", 2, "--restarts", 3, "--", self.file("bad"))
        self.assertIn("Exec format error", errors)
        self.assertNotIn("restart", errors)


class WellEndTest(LaunchCase):
    def test_a_rank_that_others_outlive_is_told(self):
        process = self.launch("-n", 3, *sh(
            '[ $BACKPLANE_CCL_RANK != 1 ] || exit 0; '
            f'while [ ! -e {self.file("go")} ]; do sleep 0.01; done'))
        self.assertEqual(process.stderr.readline(), b"backplane launch: rank 1 ended with exit "
                                                    b"code 0; ranks 0, 2 still run\n")
        self.file("go").touch()
        _, errors = self.finish(process, 0)
        self.assertEqual(errors, b"")

    def test_ranks_that_end_soon_after_each_other_are_not_told(self):
        _, errors = self.run_launch(0, "-n", 2, *sh(
            '[ $BACKPLANE_CCL_RANK = 0 ] || exec sleep 1'))
        self.assertEqual(errors, "")


class KeepGoingTest(LaunchCase):
    def test_the_others_go_on(self):
        process = self.launch("-n", 3, "--keep-going", *sh(
            '[ $BACKPLANE_CCL_RANK != 1 ] || kill -KILL $$; '
            f'while [ ! -e {self.file("go")} ]; do sleep 0.01; done; '
            '[ $BACKPLANE_CCL_RANK != 2 ] || exit 5; echo done'))
        self.assertRegex(process.stderr.readline(),
                         rb"^backplane launch: rank 1 \(process \d+\) was ended by signal 9 "
                         rb"\(Killed\); the others go on \(--keep-going\)\n$")
        self.file("go").touch()
        output, errors = self.finish(process, 128 + signal.SIGKILL)
        self.assertEqual(output, b"[rank 0] done\n")
        self.assertIn(b"rank 2 ", errors)
        self.assertRegex(errors.splitlines()[-1], rb"rank 1 \(process \d+\) was ended by signal 9")

    def test_ranks_that_are_left_make_another_group(self):
        probe = launch_case.BIN / "tests/job_probe"
        output, _ = self.run_launch(128 + signal.SIGKILL, "-n", 3, "--keep-going", "--", probe,
                                    "rebuild", 1)
        self.assertEqual(sorted(re.findall(r"^\[rank (\d)\] rank (\d) of 2: (\d)$", output,
                                           re.MULTILINE)), [("0", "0", "2"), ("2", "1", "2")])

    def test_dumps_of_two_runs_are_told_apart(self):
        """Each lost rank leaves none, so that the first run's third one stays."""
        folder = self.file("dumps")
        folder.mkdir()
        for lost in (1, 2):
            self.run_launch(128 + signal.SIGKILL, "-n", 3, "--keep-going", "--",
                            launch_case.BIN / "tests/job_probe", "rebuild", lost,
                            BACKPLANE_CCL_TRACE=folder)
        trace = self.start(launch_case.BIN / "backplane", "ccl", "trace", folder)
        _, errors = self.finish(trace, 4)
        self.assertIn(f"{folder}/default-0-rank2.json and {folder}/default-0-rank0.json are of "
                      "different runs of group default, the first one of the earlier",
                      errors.decode())

    def test_a_signal_ends_them(self):
        process = self.launch("-n", 2, "--keep-going", *sh(
            '[ $BACKPLANE_CCL_RANK != 1 ] || exit 3; exec sleep 600'))
        process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)


def failing_until(run, command, folder):
    """Each rank runs the command, which has to end well; the last one then fails, up to that run,
    once all have."""
    done = f"{folder}/done$BACKPLANE_CCL_RESTART"
    return sh(f"{command} || exit 9; echo >> {done}; "
              f"[ $BACKPLANE_CCL_RESTART != {run} ] || exit 0; "
              "[ $BACKPLANE_CCL_RANK = $((BACKPLANE_CCL_RANK_COUNT - 1)) ] || exec sleep 600; "
              f"while [ $(wc -l < {done}) -lt $BACKPLANE_CCL_RANK_COUNT ]; do sleep 0.01; done; "
              "exit 6")


class RestartTest(LaunchCase):
    def test_all_ranks_start_again(self):
        output, errors = self.run_launch(0, "-n", 2, "--restarts", 3, *failing_until(
            2, "echo run $BACKPLANE_CCL_RESTART", self.folder))
        self.assertEqual(sorted(output.splitlines()),
                         [f"[rank {rank}] run {run}" for rank in (0, 1) for run in (0, 1, 2)])
        self.assertEqual(re.findall("; restart . of 3", errors),
                         ["; restart 1 of 3", "; restart 2 of 3"])

    def test_in_the_end_it_fails(self):
        output, errors = self.run_launch(5, "--restarts", 2, *sh("echo run; exit 5"))
        self.assertEqual(output, "[rank 0] run\n" * 3)
        self.assertEqual(errors.count("ended with exit code 5"), 3)

    def test_a_stopped_job_does_not_start_again(self):
        process = self.launch("--restarts", 3, *sh(f'echo >> {self.file("up")}; sleep 600'))
        wait_until(lambda: self.file("up").exists() and self.file("up").read_text(), "the rank")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)
        self.assertEqual(self.file("up").read_text(), "\n")

    def test_each_run_meets_anew(self):
        """The store keeps what earlier runs left, and they are not met there."""
        probe = launch_case.BIN / "tests/job_probe"
        output, _ = self.run_launch(0, "-n", 2, "--restarts", 1,
                                    *failing_until(1, probe, self.folder))
        self.assertEqual(sorted(re.findall(r"rank (\d) of 2, .* restart (\d)", output)),
                         [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")])


class NodesTest(LaunchCase):
    def setUp(self):
        super().setUp()
        self.token_file = self.file("token")
        self.token_file.write_text(os.urandom(32).hex() + "\n")
        self.token_file.chmod(0o600)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.endpoint = f"127.0.0.1:{found.getsockname()[1]}"

    def node(self, rank, count, *arguments, nodes=2, **environment):
        return self.launch("--nnodes", nodes, "--node-rank", rank, "-n", count, "--rdzv",
                           self.endpoint, "--token-file", self.token_file, *arguments,
                           **environment)

    def test_ranks_are_numbered_through_nodes(self):
        probe = launch_case.BIN / "tests/job_probe"
        nodes = [self.node(1, 1, "--", probe), self.node(0, 2, "--", probe)]
        text = "".join(self.finish(node, 0)[0].decode() for node in nodes)
        self.assertEqual(sorted(text.splitlines()), [
            f"[rank {rank}] rank {rank} of 3, {place} here, restart 0, launcher 'backplane', "
            "device 'none'" for rank, place in enumerate(("0 of 2", "1 of 2", "0 of 1"))])

    def test_ranks_sum_over_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as found:
                found.bind(("::1", 0))
                self.endpoint = f"[::1]:{found.getsockname()[1]}"
        except OSError as error:
            self.skipTest(f"this machine has no ::1: {error}")
        nodes = [self.node(rank, 2, "--", launch_case.BIN / "all_reduce") for rank in (0, 1)]
        text = "".join(self.finish(node, 0)[0].decode() for node in nodes)
        self.assertEqual(sorted(text.splitlines()),
                         [f"[rank {rank}] rank {rank} of 4 on cpu:0: 10 40" for rank in range(4)])

    def test_a_failure_ends_both_nodes(self):
        script = sh("[ $BACKPLANE_CCL_RANK != 2 ] || exit 4; sleep 600")
        nodes = [self.node(0, 2, *script), self.node(1, 1, *script)]
        errors = [self.finish(node, 4)[1].decode() for node in nodes]
        self.assertRegex(errors[0], r"^backplane launch: node 1: rank 2 \(process \d+\) ended with "
                         "exit code 4\n$")
        self.assertRegex(errors[1], r"^backplane launch: rank 2 \(process \d+\) ended with "
                         "exit code 4\n$")

    def test_other_nodes_go_on(self):
        script = sh("[ $BACKPLANE_CCL_RANK != 2 ] || exit 4; "
                    f'while [ ! -e {self.file("go")} ]; do sleep 0.01; done; echo done')
        nodes = [self.node(rank, 2, "--keep-going", *script) for rank in (0, 1)]
        self.assertIn(b"the others go on", nodes[1].stderr.readline())
        self.file("go").touch()
        ends = [self.finish(node, 4) for node in nodes]
        self.assertEqual(sorted(b"".join(output for output, _ in ends).splitlines()),
                         [f"[rank {rank}] done".encode() for rank in (0, 1, 3)])
        self.assertRegex(ends[0][1], rb"^backplane launch: node 1: rank 2 \(process \d+\) ended "
                         rb"with exit code 4\n$")

    def test_both_nodes_start_again(self):
        script = failing_until(1, "echo run $BACKPLANE_CCL_RESTART", self.folder)
        nodes = [self.node(rank, 1, "--restarts", 1, *script) for rank in (0, 1)]
        text = "".join(self.finish(node, 0)[0].decode() for node in nodes)
        self.assertEqual(sorted(text.splitlines()),
                         [f"[rank {rank}] run {run}" for rank in (0, 1) for run in (0, 1)])

    def test_a_stopped_node_stops_the_other(self):
        script = sh(f'echo >> {self.file("up")}; sleep 600')
        nodes = [self.node(rank, 1, *script) for rank in (0, 1)]
        wait_until(lambda: self.file("up").exists() and self.file("up").read_text() == "\n\n",
                   "both ranks")
        nodes[1].send_signal(signal.SIGTERM)
        for node in nodes:
            self.finish(node, 128 + signal.SIGTERM)

    def test_a_killed_first_node_ends_the_other(self):
        script = sh(f'echo >> {self.file("up")}; sleep 600')
        nodes = [self.node(rank, 1, *script) for rank in (0, 1)]
        wait_until(lambda: self.file("up").exists() and self.file("up").read_text() == "\n\n",
                   "both ranks")
        nodes[0].kill()
        _, errors = self.finish(nodes[1], ENVIRONMENT)
        self.assertIn(b"the launcher of node 0 does not answer", errors)

    def test_missing_nodes_are_named(self):
        _, errors = self.finish(self.node(0, 1, "--", "true", BACKPLANE_CCL_TIMEOUT=1), ENVIRONMENT)
        self.assertEqual(errors, b"backplane launch: node 1 of 2 did not come in time "
                                 b"(BACKPLANE_CCL_TIMEOUT)\n")
        _, errors = self.finish(self.node(1, 1, "--", "true", BACKPLANE_CCL_TIMEOUT=1), ENVIRONMENT)
        self.assertIn(self.endpoint.encode(), errors)

    def test_numbers_of_nodes_that_differ_are_named_on_both(self):
        """At once: no deadline is waited for."""
        for first, other in ((0, 1), (1, 0)):
            with self.subTest(first=first):
                begin = time.monotonic()
                nodes = {first: self.node(first, 1, "--", "true", nodes=2 + first)}
                time.sleep(0.3)
                nodes[other] = self.node(other, 1, "--", "true", nodes=2 + other)
                words = [self.finish(node, ENVIRONMENT)[1] for node in nodes.values()]
                self.assertEqual(words[0], words[1])
                self.assertRegex(words[0], rb"^backplane launch: node . was started with --nnodes "
                                 rb"., node . with --nnodes .\n$")
                for node in (0, 1):
                    self.assertRegex(words[0], rb"node %d (was started )?with --nnodes %d" % (
                        node, 2 + node))
                self.assertLess(time.monotonic() - begin, launch_case.PATIENCE_S)

    def test_a_wrong_token_is_refused(self):
        first = self.node(0, 1, "--", "true")
        right, other = self.token_file, self.file("other")
        other.write_text("0" * 64)
        other.chmod(0o600)
        self.token_file = other
        _, errors = self.finish(self.node(1, 1, "--", "true"), ENVIRONMENT)
        self.assertIn(b"token", errors)
        self.token_file = right  # who was refused has done no harm
        self.finish(self.node(1, 1, "--", "true"), 0)
        self.finish(first, 0)

    def test_what_is_wrong_with_the_numbers(self):
        for arguments, words in (
                (("--node-rank", 2, "--nnodes", 2), "--node-rank: expected less than --nnodes, 2"),
                (("--nnodes", 2), "--rdzv: expected ADDRESS:PORT"),
                (("--nnodes", 2, "--rdzv", "127.0.0.1:1"), "--token-file: expected a file"),
                (("--nnodes", 2, "--rdzv", "127.0.0.1:0", "--token-file", "x"), "found 0"),
                (("--nnodes", 2, "--node-rank", 1, "--rdzv", "lo:1", "--token-file", "x"),
                 "found 'lo', the name of an interface"),
                (("--nnodes", 2, "--node-rank", 1, "--rdzv", "localhost:1", "--token-file", "x"),
                 "found 'localhost', the name of an interface or a host"),
                (("--rdzv", "nowhere"), "--rdzv: "),
                (("--keep-going", "--restarts", 2), "--keep-going: expected no --restarts"),
                (("-n", 2, "--devices", "a,b,c"), "one device or one for each of the 2 ranks")):
            _, errors = self.run_launch(USAGE, *arguments, "--", "true")
            self.assertIn(words, errors)

    def test_names_of_hosts_are_not_looked_up(self):
        _, errors = self.run_launch(ENVIRONMENT, "--rdzv", "localhost:4711", "--", "true")
        self.assertIn("names of hosts are not looked up", errors)


class SecretTest(LaunchCase):
    def listeners(self):
        """Local addresses of listening sockets of our processes."""
        inodes = set()
        for process in processes_with(self.mark):
            for link in pathlib.Path(f"/proc/{process}/fd").glob("*"):
                try:
                    target = os.readlink(link)
                except OSError:
                    continue
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", target))
        found = []
        for table in ("tcp", "tcp6"):
            for row in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.append(fields[1].partition(":")[0])
        return found

    def start_job(self, *arguments):
        process = self.launch(
            "-n", 2, *arguments,
            *sh(f'env; cat /proc/self/cmdline; echo; echo >> {self.file("up")}; exec sleep 600'))
        wait_until(lambda: self.file("up").exists() and self.file("up").read_text() == "\n\n",
                   "both ranks")
        return process

    def test_token_is_nowhere_to_be_seen(self):
        process = self.start_job()
        files = list(self.file("backplane").glob("*.token"))
        self.assertEqual(len(files), 1)
        self.assertEqual(files[0].stat().st_mode & 0o777, 0o600)
        self.assertEqual(files[0].parent.stat().st_mode & 0o777, 0o700)
        token = files[0].read_bytes().strip()
        self.assertRegex(token, TOKEN)
        for number, line in processes_with(self.mark).items():
            self.assertNotIn(token, line)
            self.assertNotIn(token, pathlib.Path(f"/proc/{number}/environ").read_bytes())
        process.send_signal(signal.SIGTERM)
        output, errors = self.finish(process, 128 + signal.SIGTERM)
        self.assertIn(b"BACKPLANE_CCL_TOKEN_FILE=", output)
        self.assertNotIn(token, output + errors)
        self.assertIsNone(TOKEN.search(output + errors))
        self.assertEqual([each.name for each in self.file("backplane").iterdir()], ["gate"])

    def test_files_of_a_killed_launcher_go_with_the_next(self):
        process = self.start_job()
        process.kill()
        process.wait(launch_case.PATIENCE_S)
        self.expect_nothing_left()
        self.assertEqual(len(list(self.file("backplane").glob("*.token"))), 1)
        self.run_launch(0, "--", "true")
        self.assertEqual([each.name for each in self.file("backplane").iterdir()], ["gate"])

    def test_only_the_loopback_interface_listens(self):
        process = self.start_job()
        self.assertEqual(self.listeners(), ["0100007F"])
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)

    def test_only_the_named_interface_listens(self):
        process = self.start_job("--rdzv", "lo:0")
        self.assertEqual(self.listeners(), ["0100007F"])
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)
        self.file("up").unlink()
        process = self.start_job("--rdzv", "127.0.0.7:0")  # not where it listens unasked
        self.assertEqual(self.listeners(), ["0700007F"])
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)


class DocsTest(LaunchCase):
    def test_commands_of_the_page(self):
        page = pathlib.Path(__file__).parents[2] / "docs/launch.md"
        commands = page.read_text(encoding="utf-8").split("```sh\n")[1].split("```")[0].splitlines()
        self.assertEqual(len(commands), 4)
        found = []
        for command in commands:
            command = command.replace("build/release/bin", str(launch_case.BIN))
            output, _ = self.finish(self.start("sh", "-c", command), 0)
            found += sorted(output.decode().splitlines())
        self.assertEqual(found, [f"[rank {rank}] rank {rank} of 4" for rank in range(4)] + [
            "[rank 0 npu:0] npu:0", "[rank 1 cpu:0] cpu:0",
            "[rank 0 npu:0] rank 0 of 2 on npu:0: 3 20",
            "[rank 1 cpu:0] rank 1 of 2 on cpu:0: 3 20"])


class UsageTest(LaunchCase):
    def test_help(self):
        output, _ = self.run_launch(0, "--help")
        for words in ("-n,--ranks N=1", "--devices NAME[,NAME]...", "--grace N=5", "--restarts N=0",
                      "backplane launch [OPTIONS] -- PROGRAM [ARGUMENT]...", "--keep-going",
                      "--nnodes N=1", "--node-rank N=0", "--rdzv ADDRESS:PORT", "--token-file FILE",
                      "BACKPLANE_CCL_RANK", "Exit code: "):
            self.assertIn(words, output)

    def test_values_that_cannot_be(self):
        for arguments, words in (
                (("-n", 0), "-n: expected a whole number from 1 to 1024, found '0'"),
                (("-n", "x"), "found 'x'"), (("-n", 1025), "found '1025'"),
                (("--grace", -1), "--grace: expected a whole number"),
                (("--restarts", "1.5"), "--restarts: expected a whole number"),
                (("--nnodes", 4097), "--nnodes: expected"),
                (("--devices", "a,,b"), "--devices: expected NAME[,NAME]..., found 'a,,b'"),
                (("--devices", "a,"), "found 'a,'"),
                (("--devices", "a\nb"), "--devices: expected names of devices, found 'a b'"),
                (("--rank", 2), "unknown option '--rank'"),
                (("--option", "npu.memory=1"), "BACKPLANE_PLUGIN_OPTIONS")):
            _, errors = self.run_launch(USAGE, *arguments, "--", "true")
            self.assertIn(words, errors)
        for arguments in ((), ("--",), ("-n", 2)):
            _, errors = self.run_launch(USAGE, *arguments)
            self.assertIn("expected a program to start", errors)
        for arguments, words, better in (
                (("-n", 2, "true"), "found 'true'", "-n 2 -- true"),
                (("sh", "-c", "exit 0"), "found 'sh'", "-- sh -c 'exit 0'"),
                (("-np", 2, "true", "--lr", 1), "unknown option '-np'", "-n 2 -- true --lr 1"),
                (("--nproc-per-node=2", "--", "true"), "unknown option '--nproc-per-node'",
                 "-n 2 -- true"),
                (("--nproc-per-node", 2), "unknown option '--nproc-per-node'", "-n 2 -- PROGRAM")):
            _, errors = self.run_launch(USAGE, *arguments)
            self.assertIn(words, errors)
            self.assertIn(f"put the program behind --: backplane launch {better}\n", errors)
        _, errors = self.run_launch(ENVIRONMENT, "--", "true", BACKPLANE_CCL_TIMEOUT="soon")
        self.assertIn("BACKPLANE_CCL_TIMEOUT: expected a whole number of seconds", errors)

    def test_a_device_that_is_not_used_is_told(self):
        for arguments, count in (((), 1), (("--devices", "cpu:0"), 0)):
            _, errors = self.run_launch(0, *arguments, "--", "true", BACKPLANE_CCL_DEVICE="npu:0")
            self.assertEqual(errors.count("BACKPLANE_CCL_DEVICE is set, to 'npu:0', and is not "
                                          "used"), count)

    def test_arguments_of_the_program_are_its_own(self):
        output, _ = self.run_launch(0, "-n", 1, "--", "printf", "%s|", "--", "-n", "--help", "",
                                    "--devices=")
        self.assertEqual(output, "[rank 0] --|-n|--help||--devices=|\n")


if __name__ == "__main__":
    launch_case.BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
