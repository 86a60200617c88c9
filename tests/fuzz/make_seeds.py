# SPDX-License-Identifier: Apache-2.0
"""What the fuzzer begins with: make_seeds.py ROOT OUT makes the folder OUT of models, ONNX's own
node cases, the smallest of each operator, and the digits; and OUT.dict, the words that models
hold."""

import pathlib
import shutil
import sys
import warnings

MOST_BYTES = 4096
FEWEST = 150


def smallest_cases():
    """{operator: bytes}"""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow on purpose
        cases = collect_testcases(None)
    found = {}
    for case in cases:
        data = case.model.SerializeToString()
        kinds = {node.op_type for node in case.model.graph.node}
        for kind in kinds:
            if len(data) <= MOST_BYTES and len(data) < len(found.get(kind, data + b"1")):
                found[kind] = data
    return found


def words():
    """Names of operators and of their attributes."""
    import onnx
    found = set()
    for schema in onnx.defs.get_all_schemas():
        found.add(schema.name)
        found.update(schema.attributes)
    return sorted(found)


def main(root, out):
    out = pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    cases = smallest_cases()
    if len(cases) < FEWEST:
        sys.exit(f"expected {FEWEST} operators or more, found {len(cases)}")
    for kind, data in cases.items():
        (out / kind).write_bytes(data)
    lines = [f'"{word}"' for word in words()]
    out.with_suffix(".dict").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copy(pathlib.Path(root) / "docs/examples/digits/digits.onnx", out / "digits")


if __name__ == "__main__":
    main(*sys.argv[1:])
