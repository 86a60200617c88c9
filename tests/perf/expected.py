# SPDX-License-Identifier: Apache-2.0
"""A model's inputs and what ONNX Runtime makes of them, in the form of `backplane bench --vectors`:

    expected.py FOLDER FILE.npz THREADS    FOLDER/model.onnx and its inputs

Run by the Python of a venv that has ONNX Runtime, as peer_child.py is.
"""

import pathlib
import sys

import numpy

import peer_child


def main():
    folder, path, threads = sys.argv[1:]
    session, inputs, _ = peer_child.open_onnxruntime(pathlib.Path(folder), int(threads))
    names = [output.name for output in session.get_outputs()]
    arrays = {f"in/{name}": values for name, values in inputs.items()}
    for name, values in zip(names, session.run(names, inputs), strict=True):
        if not numpy.isfinite(values).all():  # NaN agrees with NaN, and would say nothing
            raise SystemExit(f"output {name} is not finite")
        arrays[f"out/{name}"] = values
    numpy.savez(path, **arrays)


if __name__ == "__main__":
    main()
