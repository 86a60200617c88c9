# SPDX-License-Identifier: Apache-2.0
"""Turns ops/defs into everything that restates it: generate.py FOLDER RECORD OUTPUT_FOLDER, where
RECORD is the file of ids that are fixed (record.py).

A file whose content stays the same is left untouched, so nothing that includes it is rebuilt.
"""

import argparse
import pathlib
import sys

import c_code
import cpp_api
import cpp_code
import description
import expr_code
import onnx_code
import python_api
import record
import source

# Where each output goes below the folder, besides one header per family; ops/CMakeLists.txt names
# the same files.
OUTPUTS = {
    "include/backplane/ops/attributes.h": c_code.attributes_header,
    "include/backplane/ops.h": c_code.calls_header,
    "include/backplane/ops.hpp": cpp_api.calls_header,
    "ops/schemas.cpp": cpp_code.schemas_source,
    "ops/evaluators.cpp": cpp_code.evaluators_source,
    "ops/expressions.cpp": expr_code.rows_source,
    "ops/onnx_rules.cpp": onnx_code.rules_source,
    "ops/operators.md": description.reference,
    "ops/ops.json": description.ops_json,
    "python/operators.cpp": python_api.rows_source,
    "python/ops.py": python_api.module_source,
}


def texts_of(operators):
    """Every output by its path."""
    texts = {name: make(operators) for name, make in OUTPUTS.items()}
    for family in c_code.families(operators):
        texts[f"include/backplane/ops/{family}.h"] = c_code.family_header(family, operators)
    return texts


def write_if_changed(path, text):
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="the folder of rows, ops/defs")
    parser.add_argument("record", type=pathlib.Path, help="ops/record.json")
    parser.add_argument("folder", type=pathlib.Path, help="where the generated files go")
    options = parser.parse_args(arguments)
    try:
        operators = source.read_folder(options.source)
        record.check(operators, record.read(options.record))
        # All texts first: an error leaves no half-written set behind.
        texts = texts_of(operators)
    except (source.SourceError, OSError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1
    for name, text in texts.items():
        write_if_changed(options.folder / name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
