# SPDX-License-Identifier: Apache-2.0
"""Digits at batch 1 under ONNX Runtime's Python run, beside which call_cost's figure is read.

Prints one line; NOT RUN where the test venv has no onnxruntime. Medians over interleaved rounds.
"""

import statistics
import sys
import time


def main():
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        print(f"digits_batch_1 under ONNX Runtime: NOT RUN ({error})")
        return 0
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
    image = {"image": numpy.full((1, 1, 8, 8), 0.5, numpy.float32)}
    for _ in range(200):
        session.run(None, image)
    medians = []
    for _ in range(9):
        times = []
        for _ in range(300):
            start = time.perf_counter_ns()
            session.run(None, image)
            times.append(time.perf_counter_ns() - start)
        medians.append(statistics.median(times))
    print(f"digits_batch_1 under ONNX Runtime {onnxruntime.__version__} (Python run, 1 thread): "
          f"median {statistics.median(medians) / 1000:.1f} us, min {min(medians) / 1000:.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
