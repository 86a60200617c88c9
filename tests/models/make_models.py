# SPDX-License-Identifier: Apache-2.0
"""Makes the models of tests/models with PyTorch (requirements.txt), each with vectors.

make_models.py OUT [--only NAME...] [--list]. What stands in OUT and was made by these scripts is
kept.
"""

import argparse
import hashlib
import pathlib
import sys
import time
import warnings

import torch

import exports
import language
import others
import vision
import zoo

KINDS = (exports, language, others, vision)  # each registers its models


def mark():
    """Of all scripts that a model is made by, and PyTorch."""
    modules = (zoo, zoo.write_case, *KINDS)
    paths = [pathlib.Path(__file__), *(pathlib.Path(m.__file__) for m in modules)]
    text = b"".join(path.read_bytes() for path in paths)
    return f"{torch.__version__} {hashlib.sha256(text).hexdigest()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(zoo.MODELS))
    parser.add_argument("--list", action="store_true", help="print the models and stop")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{m.name:20} {m.about}" for m in zoo.MODELS.values()))
        return 0
    if args.out is None:
        parser.error("OUT is missing")
    torch.set_num_threads(1)  # the same sums in the same order
    warnings.simplefilter("ignore")
    failed = 0
    for name in args.only:
        folder, started = args.out / name, time.time()
        stamp = folder / "stamp"
        if stamp.is_file() and stamp.read_text() == mark():
            continue
        try:
            made = zoo.write(zoo.MODELS[name], folder)
            stamp.write_text(mark())
            print(f"{name:20} {made['nodes']:5} nodes {made['bytes'] / 2**20:7.1f} MiB "
                  f"{time.time() - started:5.1f} s", flush=True)
        except Exception as error:  # one that cannot be made must not hide the others
            failed += 1
            print(f"{name:20} FAILED: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{len(args.only) - failed} of {len(args.only)} models in {args.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
