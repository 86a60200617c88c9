# SPDX-License-Identifier: Apache-2.0
"""The sides of the comparison of collectives: two ranks each, idle until they are told to run."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ccl_faults"))

import fault_hosts  # noqa: E402

GLOO_WAYS = ("gloo_ring", "gloo_bcube")
READY_WITHIN_S = 60
ANSWER_WITHIN_S = 120


class NoAnswer(Exception):
    """A rank that said nothing, or why it cannot."""


def build_peer(source, program, compiler, libraries):
    """Builds a peer's rank. The reason where that cannot be."""
    stamp = program.with_suffix(".built")
    built = " ".join(str((HERE / name).stat().st_mtime_ns) for name in (source, "speed_rank.hpp"))
    if program.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == built:
        return ""
    command = [compiler, "-O2", "-std=c++20", f"-I{ROOT}", HERE / source, "-o", program, *libraries]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        return f"there is no {compiler}"
    if done.returncode != 0:
        return f"{source} does not compile: {done.stderr.strip()[-300:]}"
    stamp.write_text(built, encoding="utf-8")
    return ""


def build_peers(programs):
    """Why some are not there, by name."""
    reasons = {}
    for name, source, compiler, libraries in (
            ("mpi", "speed_mpi.cpp", "mpicxx", ()),
            ("gloo", "speed_gloo.cpp", "g++", ("-lgloo", "-lpthread"))):
        why = build_peer(source, programs / f"speed_{name}", compiler, libraries)
        if why:
            reasons[name] = why
    return reasons


def build_oneccl(programs, venv):
    """As build_peers(). venv: where the packages of oneccl-requirements.txt are."""
    if venv is None:
        return {"oneccl": "--oneccl-venv names no environment that has it"}
    if not (venv / "include" / "oneapi" / "ccl.hpp").is_file():
        return {"oneccl": f"oneCCL is not installed in {venv}"}
    why = build_peer("speed_oneccl.cpp", programs / "speed_oneccl", "g++",
                     (f"-I{venv}/include", f"-L{venv}/lib", "-lccl", f"-Wl,-rpath,{venv}/lib"))
    return {"oneccl": why} if why else {}


def both(program, *more):
    """Commands of two ranks."""
    return [[program, None, str(rank), *more] for rank in (0, 1)]


def gloo_sides(programs, folder, *addresses):
    """addresses: of each rank, or of both."""
    for way in GLOO_WAYS:
        (pathlib.Path(folder) / f"{way}.store").mkdir()
        yield way, [[programs / "speed_gloo", None, str(rank), way.removeprefix("gloo_"),
                     addresses[rank % len(addresses)]] for rank in (0, 1)]


def open_all(commands, folder, reasons, hosts=(None, None)):
    """The sides that start, by name, and why the others do not."""
    found, reasons = {}, dict(reasons)
    for name, command in commands:
        try:
            found[name] = Side(name, command, folder, hosts)
        except NoAnswer as error:
            reasons[name.split("_")[0]] = str(error)
    return found, reasons


@contextlib.contextmanager
def closing(sides):
    try:
        yield
    finally:
        for side in sides:
            side.close()


@contextlib.contextmanager
def wire():
    """Two hosts. All that runs on them ends with them, and they with this process."""
    made = fault_hosts.Wire()
    try:
        yield made
    finally:
        made.close()


class Side:
    """Two ranks that a command starts, or two commands, one for each, on a host each, if given."""

    def __init__(self, name, commands, folder, hosts=(None, None)):
        self.name = name
        self.prefix = pathlib.Path(folder) / name
        for rank in (0, 1):
            for end in ("in", "out"):
                os.mkfifo(f"{self.prefix}.{rank}.{end}")
        self.log = open(f"{self.prefix}.log", "w", encoding="utf-8")
        # A rank's commands, of which None stands for the prefix.
        self.processes = [
            subprocess.Popen(
                [*(host.enter if host else ()),
                 *(str(self.prefix) if word is None else word for word in command)],
                env=dict(os.environ, **(host.environment if host else {})), stdout=self.log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            for host, command in zip(hosts, commands)]
        self.ins, self.outs = {}, {}
        try:
            self.open_all()
        except NoAnswer:
            self.kill()
            raise

    def open_all(self):
        """Opens what waits for the rank to open it too."""
        def run(rank):
            self.ins[rank] = open(f"{self.prefix}.{rank}.in", "w", encoding="utf-8")
            self.outs[rank] = open(f"{self.prefix}.{rank}.out", encoding="utf-8")
        openers = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in (0, 1)]
        for opener in openers:
            opener.start()
        deadline = time.monotonic() + READY_WITHIN_S
        for opener in openers:
            while opener.is_alive():
                opener.join(0.05)
                has_ended = any(process.poll() is not None for process in self.processes)
                if opener.is_alive() and (has_ended or time.monotonic() > deadline):
                    raise NoAnswer(f"{self.name} did not start: {self.tail()}")
        for rank in (0, 1):
            self.answer_of(rank, READY_WITHIN_S)

    def tail(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8").strip()[-300:]

    def answer_of(self, rank, seconds):
        lines = []
        reader = threading.Thread(target=lambda: lines.append(self.outs[rank].readline()),
                                  daemon=True)
        reader.start()
        reader.join(seconds)
        line = lines[0].strip() if lines else ""
        if not line or line.startswith("error"):
            raise NoAnswer(f"{self.name}, rank {rank}: {line or 'no answer'} {self.tail()}")
        return line

    def measure(self, what, size, iterations, ranks=(0, 1)):
        """The greatest figure of the ranks: mostly nanoseconds of one operation."""
        for rank in ranks:
            try:
                self.ins[rank].write(f"{what} {size} {iterations}\n")
                self.ins[rank].flush()
            except BrokenPipeError:
                raise NoAnswer(f"{self.name}, rank {rank}: it has ended {self.tail()}") from None
        return max(float(self.answer_of(rank, ANSWER_WITHIN_S)) for rank in ranks)

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def close(self):
        for rank in (0, 1):
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                self.ins[rank].write("end\n")
                self.ins[rank].flush()
            with contextlib.suppress(BrokenPipeError):
                self.ins[rank].close()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
