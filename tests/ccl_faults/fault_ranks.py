# SPDX-License-Identifier: Apache-2.0
"""Processes of the fault table: fault_rank programs that do what they are told, one line each."""

import collections
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

PATIENCE_S = 60  # longer than anything takes on a machine that is busy


class Wrong(Exception):
    """A row has failed, with the words why."""


def now_ns():
    """Of the clock that ranks answer with."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def wait_until(condition, what, within_s=PATIENCE_S):
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Wrong(f"{what}: not within {within_s} s")
        time.sleep(0.002)


def clean_environment():
    """Long blocks go back to the system when they are freed, so that a limit is felt."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("BACKPLANE_", "UCX_"))}
    return {**kept, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


class Program:
    """One fault_rank on a host. Its commands are numbered; a number may get several answers."""

    def __init__(self, program, host, device, log, variables=()):
        self.host = host
        self.device = device
        self.answers = collections.defaultdict(list)
        self.changed = threading.Condition()
        self.next_id = 1
        self.has_ended = False
        self.log = pathlib.Path(log)
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                [*host.enter, str(program), device], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
                env={**clean_environment(), **host.environment, **dict(variables)})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.answer(0)
        self.pid = host.pid_of(self.process.pid)

    def _read(self):
        for line in self.process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                continue  # the half of a line, of one that was killed
            with self.changed:
                self.answers[answer["id"]].append(answer)
                self.changed.notify_all()
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()

    def begin(self, *words):
        """Its number."""
        number = self.next_id
        self.next_id += 1
        try:
            self.process.stdin.write(" ".join(map(str, (number, *words))) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Wrong(f"{self}: it has ended: {self.last_words()}") from None
        return number

    def answer(self, number, nth=0, within_s=PATIENCE_S):
        """The answer that came as the nth, from 0."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.has_ended or len(self.answers.get(number, ())) > nth, within_s)
            found = self.answers.get(number, ())
            if len(found) > nth:
                return found[nth]
        raise Wrong(f"{self}: no answer within {within_s} s, {self.last_words()}")

    def do(self, *words, within_s=PATIENCE_S):
        """What has to go well."""
        answer = self.answer(self.begin(*words), within_s=within_s)
        if answer["code"] != "OK":
            raise Wrong(f"{self}: {' '.join(map(str, words))}: {answer['words']}")
        return answer

    def last_words(self):
        text = self.log.read_text(errors="replace")[-600:]
        return f"exit code {self.process.poll()}, its last lines: {text}"

    def signal(self, number):
        os.kill(self.pid, number)
        if number == signal.SIGCONT:
            os.kill(self.process.pid, number)  # what entered the host stops with it
        if number == signal.SIGSTOP:
            wait_until(lambda: self._state() in "Tt", "its stop")

    def _state(self):
        text = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]

    def possessions(self):
        """Descriptors and threads."""
        return {what: len(os.listdir(f"/proc/{self.pid}/{folder}"))
                for what, folder in (("descriptors", "fd"), ("threads", "task"))}

    def memory_kib(self):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0])

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
            # What entered the host stopped with a rank that was stopped, and would not see its end.
            os.kill(self.process.pid, signal.SIGCONT)
        self.process.wait(PATIENCE_S)

    def end(self):
        """Its exit code, once its input has ended."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def discard(self):
        """Whatever it does."""
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()

    def __str__(self):
        return f"process {self.process.pid} ({self.device} on {self.host.name})"
