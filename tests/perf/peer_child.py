# SPDX-License-Identifier: Apache-2.0
"""A peer in a process of its own, timed in turns (sides.py):

    peer_child.py onnxruntime|openvino FOLDER THREADS          FOLDER/model.onnx and its inputs
    peer_child.py torch-op CASE THREADS                        of op_cases.py
    peer_child.py torch-eager|torch-compiled FOLDER THREADS    as speed_models.py made it there

Run by the Python of a venv that has the peer (peers-requirements.txt).
"""

import json
import os
import pathlib
import re
import sys
import time


ONNX_TYPES = {"tensor(float)": 1, "tensor(int64)": 7, "tensor(bool)": 9, "tensor(bfloat16)": 16}
NUMPY_TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(bool)": "bool"}


def read_inputs(folder, dtypes):
    import numpy
    values = {}
    for line in (folder / "inputs.txt").read_text("utf-8").splitlines():
        name, file, *sizes = line.split()
        if name not in dtypes:
            continue
        found = numpy.fromfile(folder / file, dtypes[name])
        values[name] = found.reshape([int(size) for size in sizes])
    return values


def open_onnxruntime(folder, threads):
    """A session of folder/model.onnx, its inputs by name, and how long the session took."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    begin = time.perf_counter_ns()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options,
                                           providers=["CPUExecutionProvider"])
    create_ns = time.perf_counter_ns() - begin
    dtypes = {i.name: NUMPY_TYPES[i.type] for i in session.get_inputs()}
    return session, read_inputs(folder, dtypes), create_ns


def resident_bytes():
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(re.search(r"^VmRSS:\s*(\d+) kB$", status, re.MULTILINE)[1])


def language_bytes():
    """What Python and numpy have resident before a peer is imported."""
    import numpy  # noqa: F401
    return resident_bytes()


def onnxruntime_side(folder, threads):
    import onnxruntime
    session, inputs, create_ns = open_onnxruntime(folder, threads)
    binding = session.io_binding()
    for name, values in inputs.items():
        binding.bind_cpu_input(name, values)
    kept = []
    for output in session.get_outputs():
        if output.type in ONNX_TYPES and all(isinstance(size, int) for size in output.shape):
            kept.append(onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                output.shape, ONNX_TYPES[output.type], "cpu"))
            binding.bind_ortvalue_output(output.name, kept[-1])
        else:
            binding.bind_output(output.name)
    return create_ns, lambda: session.run_with_iobinding(binding)


def openvino_side(folder, threads):
    import openvino
    begin = time.perf_counter_ns()
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
              "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(folder / "model.onnx"), "CPU", config)
    request = compiled.create_infer_request()
    create_ns = time.perf_counter_ns() - begin
    dtypes = {name: port.get_element_type().to_dtype()
              for port in compiled.inputs for name in port.get_names()}
    for name, values in read_inputs(folder, dtypes).items():
        request.set_tensor(name, openvino.Tensor(values, shared_memory=False))
    return create_ns, request.infer


def torch_op_side(name, threads):
    import torch
    import op_cases
    torch.set_num_threads(threads)
    case = op_cases.nothing() if name == "nothing" else op_cases.cases()[name]
    inputs = [torch.from_numpy(values) for values in op_cases.values_of(case).values()]
    outputs = [torch.empty(sizes, dtype=getattr(torch, dtype)) for dtype, sizes in case.outputs]
    call = case.torch(torch, inputs, outputs)

    def run():
        with torch.inference_mode():
            call()
    return 0, run


def torch_model_side(folder, threads, is_compiled):
    import torch
    import speed_models
    if not speed_models.is_current(folder):  # then the module is not what model.onnx has
        raise RuntimeError(f"{folder} is of other scripts or packages: speed_models.py makes it")
    torch.set_num_threads(threads)
    sample = speed_models.build(folder.name)
    values = tuple(sample.inputs[0].values())
    call = torch.compile(sample.module, dynamic=False) if is_compiled else sample.module

    def run():
        with torch.inference_mode():
            call(*values)
    return 0, run


def make_side(kind, what, threads):
    if kind == "onnxruntime":
        return onnxruntime_side(pathlib.Path(what), threads)
    if kind == "openvino":
        return openvino_side(pathlib.Path(what), threads)
    if kind == "torch-op":
        return torch_op_side(what, threads)
    return torch_model_side(pathlib.Path(what), threads, kind == "torch-compiled")


def main():
    kind, what, threads = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")  # what a peer prints stays out of it
    os.dup2(2, 1)

    def say(answer):
        print(json.dumps(answer), file=answers, flush=True)

    try:
        ready = {"language_bytes": language_bytes()}
        create_ns, run = make_side(kind, what, int(threads))
        begin = time.perf_counter_ns()
        run()
        ready.update(create_ns=create_ns, first_ns=time.perf_counter_ns() - begin)
        for _ in range(3):
            run()
    except Exception as error:  # whatever keeps a peer from running is what the table says
        say({"absent": " ".join(f"{type(error).__name__}: {error}".split())[:200]})
        return

    def lap():
        begin = time.perf_counter_ns()
        run()
        return time.perf_counter_ns() - begin

    serve_turns(say, ready, lap)


def serve_turns(say, ready, lap):
    """Says that it is ready, and then, for as long as each line of the input says, measures laps.
    lap: makes a run and gives its nanoseconds."""
    say(ready)
    for line in sys.stdin:
        wanted_ns = float(line.split()[1]) * 1e9
        laps = []
        lap()  # wakes threads; not counted
        begin = time.perf_counter_ns()
        while len(laps) < 3 or time.perf_counter_ns() - begin < wanted_ns:
            laps.append(lap())
        say({"latency_ns": laps})


if __name__ == "__main__":
    main()
