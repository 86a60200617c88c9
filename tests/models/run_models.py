# SPDX-License-Identifier: Apache-2.0
"""The models that `./dev models` made, through the public API, on each device;
reports/models.{md,json}.

run_models.py --build BUILD --runner PROGRAM --plugins FOLDER --models FOLDER --device DEVICE...
[--small] [--required]: --small leaves out the large ones, --required fails where there are none, or
others than these scripts make now.
BP_TEST_MODELS in the environment is another folder of models.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "onnx"))
import case_pool  # noqa: E402  it stands in the folder above

MAKE = "./dev models makes them"
# What make_models.py makes the mark of, which needs PyTorch; in its order.
SCRIPTS = ("make_models.py", "zoo.py", "../onnx/write_case.py", "exports.py", "language.py",
           "others.py", "vision.py")
# What a device is opened with: what its own memory holds is not the question here.
OPTIONS = ["npu.memory=1024MiB", "BACKPLANE_FALLBACK=allow"]
# A model that a device of the default memory has no room for: the error lists who took how much.
TOO_LARGE = ("bert_base", "npu:0", ["npu.memory=256MiB", "BACKPLANE_FALLBACK=allow"])
TOO_LARGE_WORDS = ("OUT_OF_MEMORY", "weights")
DEADLINE = 300


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--device", action="append", required=True)
    parser.add_argument("--may-be-absent", action="append", default=[], metavar="DEVICE")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--required", action="store_true")
    args = parser.parse_args()
    args.models = pathlib.Path(os.environ.get("BP_TEST_MODELS") or args.models).absolute()
    return args


def find_models(args):
    """The manifests of all models that are to run, and where."""
    found = [json.loads(path.read_text("utf-8"))
             for path in sorted(args.models.glob("*/manifest.json"))]
    return [m for m in found if not (args.small and m["large"])
            and (not args.only or m["name"] in args.only)]


def listed_models():
    """The names of all models that make_models.py knows, without PyTorch."""
    here = pathlib.Path(__file__).resolve().parent
    lines = [line for path in sorted(here.glob("*.py"))
             for line in path.read_text("utf-8").splitlines()]
    return [after.split("(")[0].removeprefix("def ")
            for line, after in zip(lines, lines[1:]) if line.startswith("@zoo.model(")]


def old_models(args, models):
    """The names of those that other scripts made than stand here."""
    here = pathlib.Path(__file__).resolve().parent
    text = b"".join((here / script).read_bytes() for script in SCRIPTS)
    mark = hashlib.sha256(text).hexdigest()  # after PyTorch's version, which is not known here

    def stamp(name):
        path = args.models / name / "stamp"
        return path.read_text("utf-8") if path.is_file() else ""
    return [m["name"] for m in models if not stamp(m["name"]).endswith(f" {mark}")]


def run_device(args, device, models):
    command = [args.runner, device, args.plugins, *OPTIONS]
    folders = [args.models / m["name"] for m in models]
    answers = case_pool.run(command, folders, deadline=DEADLINE, workers=1)
    rows = []
    for model in models:
        answer = answers[args.models / model["name"]]
        rows.append({"model": model["name"], "about": model["about"], "verdict": answer.verdict,
                     "native": answer.native, "decomposed": answer.decomposed,
                     "fallback": answer.fallback, "views": answer.views, "words": answer.words})
    passed = sum(row["verdict"] == "PASS" for row in rows)
    return {"device": device, "passed": passed, "failed": len(rows) - passed, "total": len(rows),
            "models": rows}


def check_too_large(args):
    """Problems with the words for a model that has no room."""
    name, device, options = TOO_LARGE
    folder = args.models / name
    command = [args.runner, device, args.plugins, *options]
    answer = case_pool.run(command, [folder], deadline=DEADLINE)[folder]
    missing = [word for word in TOO_LARGE_WORDS if word not in answer.words]
    if answer.verdict == "ERROR" and not missing:
        return []
    return [f"{device}: {name} with {options[0]}: expected an error with {TOO_LARGE_WORDS}, found "
            f"{answer.verdict} {answer.words}"]


def write_reports(tables, folder):
    folder.mkdir(parents=True, exist_ok=True)
    summed = {key: sum(t[key] for t in tables) for key in ("passed", "failed", "total")}
    (folder / "models.json").write_text(json.dumps({**summed, "devices": tables}, indent=1))
    lines = ["# Models made by PyTorch", "",
             "Against PyTorch in float64: |error| <= 1e-3 |reference| + 1e-4 rms(reference), for "
             "each of several shapes. In the cells: operators run natively, decomposed, on another "
             "device.", "",
             "| model | " + " | ".join(t["device"] for t in tables) + " |",
             "|---|" + "---|" * len(tables)]
    for row, *others in zip(*(t["models"] for t in tables)):
        cells = [f"{r['verdict']} {r['native']}/{r['decomposed']}/{r['fallback']}"
                 for r in (row, *others)]
        lines.append(f"| {row['model']}: {row['about']} | " + " | ".join(cells) + " |")
    lines += ["", "| device | passed | failed | total |", "|---|---|---|---|"]
    lines += [f"| {t['device']} | {t['passed']} | {t['failed']} | {t['total']} |" for t in tables]
    (folder / "models.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines[4:]


def main():
    args = parse()
    models = find_models(args)
    if not models:
        print(f"NOT RUN: there are no models in {args.models}; {MAKE}")
        return 1 if args.required else 77
    old = old_models(args, models)
    if old:
        print(f"NOT RUN: other scripts than tests/models has now made {', '.join(old)} in "
              f"{args.models}; {MAKE} again (one that is no longer among them: remove its folder)")
        return 1 if args.required else 77
    made = {m["name"] for m in find_models(argparse.Namespace(
        models=args.models, small=False, only=[]))}
    problems = [f"{name} is not in {args.models}; {MAKE}" for name in listed_models()
                if name not in made and args.required]
    tables = []
    for device in args.device:
        try:
            tables.append(run_device(args, device, models))
        except case_pool.DeviceAbsent as error:
            print(f"{device}: NOT RUN: {error}")
            if device not in args.may_be_absent or "BP_REQUIRE_DEVICES" in os.environ:
                problems.append(f"{device} is not here")
    problems += [f"{t['device']}: {r['model']}: {r['verdict']} {r['words']}"
                 for t in tables for r in t["models"] if r["verdict"] != "PASS"]
    if any(m["name"] == TOO_LARGE[0] for m in models) and TOO_LARGE[1] in args.device:
        problems += check_too_large(args)
    if tables and not args.only:
        print("\n".join(write_reports(tables, args.build / "reports")))
    print("\n".join(problems))
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
