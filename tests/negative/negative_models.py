# SPDX-License-Identifier: Apache-2.0
"""Models that must be refused: negative_models.py MODEL_RUNNER PLUGIN_DIR OPS_JSON OUT. Each is
one of ONNX's node cases with one thing wrong (spoil.py). Making a session of it must end with an
error before a launch, which names the node, the operator and the argument, what was expected and
what was found. An operator that is not read at all is passed over, and counted."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import spoil

FEWEST = 1425
OWN_NAME = re.compile(rf"node '{spoil.NODE}[^']*': (\w+): ")
# What is refused by ONNX and not by us.
EXCUSED = {
    "Cast: round_mode = no_such_word": "it is of float8e8m0, which is no dtype of ours",
    "CastLike: round_mode = no_such_word": "it is of float8e8m0, which is no dtype of ours",
    "DequantizeLinear: axis = 100": "the standard ignores it where there is one scale",
    "DequantizeLinear: axis = -100": "the standard ignores it where there is one scale",
    "QuantizeLinear: axis = 100": "the standard ignores it where there is one scale",
    "QuantizeLinear: axis = -100": "the standard ignores it where there is one scale",
    "Dropout: input 0 of bool": "without training it hands on every dtype",
    "ReduceMax: input 0 of bool": "later operator sets take it, and so do we in all",
    "ReduceMin: input 0 of bool": "later operator sets take it, and so do we in all",
    "MeanVarianceNormalization: input 0 of sizes [7, 11, 13, 17, 19]": "it has the axes",
    "OneHot: input 0 of sizes []": "one index gives one row",
    "Expand: input 1 of sizes []": "a list of one, as ONNX Runtime has it",
}
INVALID_ARGUMENT, UNSUPPORTED = 1, 2  # of device_api/include/backplane/status.h


class Runner:
    def __init__(self, command):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)

    def ask(self, path):
        """(status, launches, words)"""
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"model_runner ended at {path}")
        status, launches, words = line.rstrip("\n").split("\t", 2)
        return int(status), int(launches), words

    def end(self):
        self._process.stdin.close()
        return self._process.wait(timeout=60)


def names_operator(kind, own_names, words):
    """ONNX's name for it, or one of ours, which stands before what its inference says."""
    own = OWN_NAME.search(words)
    return f"({kind}, opset" in words or bool(own and own.group(1) in own_names)


def fault_of(kind, told, own_names, answer):
    """What is wrong with the answer; empty: nothing."""
    status, launches, words = answer
    if status == 0:
        return "it was taken"
    if status not in (INVALID_ARGUMENT, UNSUPPORTED):
        return f"status {status}: {words}"
    if launches:
        return f"after {launches} launches: {words}"
    missing = [] if f"node '{spoil.NODE}" in words else [spoil.NODE]
    missing += [] if names_operator(kind, own_names, words) else [kind]
    missing += [] if re.search(told, words) else [told]
    return f"no {', '.join(map(repr, missing))} in: {words}" if missing else ""


def first_read(runner, path, models):
    """The first one of which a session can be made; None: there is none."""
    for model in models:
        path.write_bytes(model.SerializeToString())
        if runner.ask(path)[0] == 0:
            return model
    return None


def main(program, plugins, ops_json, out):
    own_names = {op["name"]
                 for op in json.loads(pathlib.Path(ops_json).read_text("utf-8"))["operators"]}
    out = pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    runner = Runner([program, plugins])
    count, unread, problems, excused = 0, [], [], set()
    for kind, models in spoil.right_models().items():
        path = out / f"{kind}.onnx"
        model = first_read(runner, path, models)
        if model is None:
            unread.append(kind)
            continue
        for what, spoilt, told in spoil.spoilt_models(model):
            count += 1
            path.write_bytes(spoilt.SerializeToString())
            fault = fault_of(kind, told, own_names, runner.ask(path))
            if fault and f"{kind}: {what}" in EXCUSED:
                excused.add(f"{kind}: {what}")
            elif fault:
                problems.append(f"{kind}: {what}: {fault}")
    ended = runner.end()
    problems += [f"{name}: excused, and refused by now" for name in set(EXCUSED) - excused]
    for problem in problems:
        print(problem)
    print(f"negative models: {count - len(problems) - len(excused)} of {count} refused with all "
          f"names, {len(excused)} taken for a reason; not read at all: {len(unread)} operators "
          f"({' '.join(unread)})")
    if count < FEWEST:
        print(f"expected {FEWEST} or more")
    return 1 if problems or count < FEWEST or ended != 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
