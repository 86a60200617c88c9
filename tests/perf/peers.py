# SPDX-License-Identifier: Apache-2.0
"""What Backplane is compared with: ONNX Runtime on the same models and libtorch's at::add, each on
one thread, measured in the processor time of the calling thread, as our programs are."""

import pathlib
import subprocess
import sys
import time

from figures import REPETITIONS


class OnnxRuntimePeer:
    """A model's session, run as Python users do, and once more with bound inputs and outputs."""

    def __init__(self, name, path, calls):
        import numpy
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.name, self.calls = name, calls
        self.session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        shape = lambda i: [d if isinstance(d, int) else 1 for d in i.shape]
        self.inputs = {i.name: numpy.ones(shape(i), numpy.float32)
                       for i in self.session.get_inputs()}
        self.binding = self.session.io_binding()
        for key, value in self.inputs.items():
            self.binding.bind_cpu_input(key, value)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)

    def run(self, figures):
        figures.add(self.name, self.quickest(lambda: self.session.run(None, self.inputs)))
        figures.add(f"{self.name}_bound",
                    self.quickest(lambda: self.session.run_with_iobinding(self.binding)))

    def quickest(self, call):
        """Of as many repetitions as our programs make, and for the same reason (figures.py)."""
        calls = self.calls // REPETITIONS
        for _ in range(calls):
            call()
        times = []
        for _ in range(REPETITIONS):
            start = time.thread_time_ns()
            for _ in range(calls):
                call()
            times.append((time.thread_time_ns() - start) / calls)
        return min(times)


ORT_MODELS = (("ort_chain", "BP_BENCH_CHAIN", 30), ("ort_mlp", "BP_BENCH_MLP", 1500),
              ("ort_digits", "BP_BENCH_DIGITS", 1000))


def open_onnxruntime(models, figures):
    """The peers; none without the package, and then the figures say why."""
    try:
        return [OnnxRuntimePeer(name, models[variable], calls)
                for name, variable, calls in ORT_MODELS]
    except ImportError as error:
        for name, _, _ in ORT_MODELS:
            figures.lack(name, str(error))
            figures.lack(f"{name}_bound", str(error))
        return []


def build_torch_cost(venv, source, program):
    """Builds the program over the torch package of a venv. The reason where that cannot be."""
    package = next(iter(sorted(venv.glob("lib/python3*/site-packages/torch"))), None)
    if package is None:
        return f"no package torch in {venv}"
    stamp = program.with_suffix(".built")
    built = f"{source.stat().st_mtime_ns} {(package / 'version.py').read_text(encoding='utf-8')}"
    if program.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == built:
        return ""
    include, library = package / "include", package / "lib"
    command = ["g++", "-O2", "-std=c++20", "-isystem", include, "-isystem",
               include / "torch/csrc/api/include", source, "-o", program, f"-L{library}",
               "-ltorch_cpu", "-lc10", "-lbenchmark", "-lpthread",
               # What torch itself needs is found when it runs.
               "-Wl,--unresolved-symbols=ignore-in-shared-libs",
               f"-Wl,-rpath,{pathlib.Path(library).resolve()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return f"{source.name} does not compile against {package}"
    stamp.write_text(built, encoding="utf-8")
    return ""
