# SPDX-License-Identifier: Apache-2.0
"""Tests of launch_test.py about signals: those to the launcher, and what becomes of its ranks."""

import signal

import launch_case
from launch_case import LaunchCase, python, sh, wait_until

# A rank that is in the group of a process that it has started, which ends with it.
MOVED = """
import os, pathlib, signal, sys, time
end, held = os.pipe()
ready, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(held)
    os.setpgid(0, 0)
    os.write(told, b"x")
    os.read(end, 1)
    os._exit(0)
os.read(ready, 1)
os.setpgid(0, child)
{handler}
pathlib.Path({up!r}).touch()
while True:
    time.sleep(600)
"""


class SignalTest(LaunchCase):
    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                name = signal.Signals(number).name[3:]
                up, told = self.file(f"up{name}"), self.file(f"told{name}")
                process = self.launch("-n", 2, "--grace", 60, *sh(
                    f'trap "echo >> {told}; exit 0" {name}; echo >> {up}; '
                    "while :; do sleep 0.01; done"))
                wait_until(lambda up=up: up.exists() and up.read_text() == "\n\n", "both ranks")
                process.send_signal(number)
                _, errors = self.finish(process, 128 + number)
                self.assertEqual(told.read_text(), "\n\n")
                self.assertIn(f"the launcher was told to stop by signal {int(number)}",
                              errors.decode())

    def test_second_signal_kills(self):
        process = self.launch("-n", 1, "--grace", 600, *sh(
            f'trap "echo >> {self.file("told")}" INT; echo > {self.file("up")}; '
            "while :; do sleep 0.01; done"))
        wait_until(self.file("up").exists, "the rank")
        process.send_signal(signal.SIGINT)
        wait_until(self.file("told").exists, "the first signal")
        process.send_signal(signal.SIGINT)
        self.finish(process, 128 + signal.SIGINT)

    def test_signals_that_are_ignored_stay_so(self):
        """As under nohup: the ranks go on, and other signals are heard."""
        for ignored, heard in (("HUP", "TERM"), ("INT", "HUP"), ("TERM", "INT")):
            with self.subTest(ignored):
                up, more, heard_by = (self.file(f"{name}{ignored}")
                                      for name in ("up", "more", "heard_by"))
                process = self.start(
                    "sh", "-c", f'trap "" {ignored}; exec "$@"', "sh",
                    launch_case.BIN / "backplane", "launch", "-n", 1, "--grace", 60,
                    *sh(f'trap "echo > {heard_by}; exit 0" {heard}; echo > {up}; '
                        f"while [ ! -e {more} ]; do sleep 0.01; done; echo on; "
                        "while :; do sleep 0.01; done"))
                wait_until(up.exists, "the rank")
                process.send_signal(signal.Signals[f"SIG{ignored}"])
                more.touch()
                self.assertEqual(process.stdout.readline(), b"[rank 0] on\n")
                number = signal.Signals[f"SIG{heard}"]
                process.send_signal(number)
                _, errors = self.finish(process, 128 + number)
                self.assertTrue(heard_by.exists())
                self.assertIn(f"by signal {int(number)} ", errors.decode())

    def launch_moved(self, handler):
        up = self.file("up")
        process = self.launch("-n", 1, "--grace", 1,
                              *python(MOVED.format(handler=handler, up=str(up))))
        wait_until(up.exists, "the rank")
        return process

    def test_rank_that_left_its_group_is_told_once(self):
        told = self.file("told")
        process = self.launch_moved(
            f"tell = lambda *_: (open({str(told)!r}, 'a').write('told'), time.sleep(0.2),"
            " sys.exit(0))\nsignal.signal(signal.SIGTERM, tell)")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)
        self.assertEqual(told.read_text(), "told")

    def test_rank_that_left_its_group_is_killed_after_the_grace(self):
        process = self.launch_moved("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)
