# SPDX-License-Identifier: Apache-2.0
"""Processes of case_runner, two at a time. One that dies or hangs costs the case that it was at,
and the next one goes on."""

import collections
import os
import queue
import select
import signal
import subprocess
import threading

WORKERS = 2
CASES_PER_PROCESS = 300
ABSENT_STATUS = 77

Answer = collections.namedtuple(
    "Answer", "verdict native decomposed fallback views here elsewhere widest words")


class DeviceAbsent(Exception):
    """The device is not on this machine."""


def run(command, folders, environment=None, deadline=60, workers=WORKERS):
    """{folder: Answer} of all folders. command: case_runner with its arguments."""
    waiting = queue.SimpleQueue()
    for folder in folders:
        waiting.put(folder)
    answers, errors = {}, []
    threads = [threading.Thread(target=_work, args=(command, environment, deadline, waiting,
                                                    answers, errors))
               for _ in range(min(workers, len(folders)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return answers


def failure(verdict, words):
    return Answer(verdict, 0, 0, 0, 0, 0, 0, 0, words)


def _work(command, environment, deadline, waiting, answers, errors):
    runner = None
    try:
        while not errors:
            folder = waiting.get_nowait()
            if runner is None or runner.count >= CASES_PER_PROCESS or not runner.lives():
                if runner is not None:
                    runner.end()
                runner = _Runner(command, environment)
            answers[folder] = runner.ask(folder, deadline)
    except queue.Empty:
        pass
    except Exception as error:  # told by run(), on its thread
        errors.append(error)
    if runner is not None:
        runner.end()


class _Runner:
    def __init__(self, command, environment):
        self.count = 0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})})
        os.set_blocking(self.process.stderr.fileno(), False)

    def lives(self):
        return self.process.poll() is None

    def ask(self, folder, deadline):
        self.count += 1
        try:
            self.process.stdin.write(f"{folder}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its end is read below
        ready, _, _ = select.select([self.process.stdout], [], [], deadline)
        if not ready:
            self.process.kill()
            return failure("ERROR", f"no answer in {deadline} s")
        fields = self.process.stdout.readline().decode(errors="replace").rstrip("\n").split("\t", 9)
        if len(fields) == 10 and fields[0] == str(folder):
            return Answer(fields[1], *map(int, fields[2:8]), float(fields[8]), fields[9])
        return self._ended(fields)

    def _ended(self, fields):
        status = self.process.wait()
        if len(fields) > 2 and fields[1] == "ABSENT":
            if status == ABSENT_STATUS:
                raise DeviceAbsent(fields[2])
            raise RuntimeError(fields[2])
        said = (self.process.stderr.read() or b"").decode(errors="replace").strip()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return failure("CRASH", f"the process ended: {how} {said[-300:]}".replace("\n", " "))

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=30)
        except BrokenPipeError:
            self.process.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
