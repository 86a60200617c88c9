# SPDX-License-Identifier: Apache-2.0
"""Asks truth_runner, which answers what the oracle says."""

import json
import subprocess

import numpy

from formats import storage


class Oracle:
    """One process; ends with the block it is used in."""

    def __init__(self, path):
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)

    def ask(self, request, payload=b""):
        """The line of the answer. RuntimeError: what the oracle says is wrong."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n" + payload)
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"truth_runner ended at {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def rows(self):
        return self.ask({"rows": True})

    def mutants(self, seed, each):
        return self.ask({"mutants": seed, "each": each})["mutants"]

    def evaluate(self, op, dtypes, inputs, attributes=None, mutant=None):
        """The bits of the first output."""
        request = {
            "op": op,
            "inputs": [{"dtype": dtype, "sizes": list(array.shape)}
                       for dtype, array in zip(dtypes, inputs)],
            "attributes": attributes or {},
        }
        if mutant:
            request["mutant"] = mutant
        payload = b"".join(array.tobytes() for array in inputs)
        output = self.ask(request, payload)["outputs"][0]
        kind = storage(output["dtype"])
        count = int(numpy.prod(output["sizes"], dtype=numpy.int64))
        data = self._process.stdout.read(count * kind.itemsize)
        return numpy.frombuffer(data, dtype=kind).reshape(output["sizes"])
