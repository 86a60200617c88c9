# SPDX-License-Identifier: Apache-2.0
"""What the answers of case_runner mean: which cases must pass, why others need not, and the tables
of them.

A case must pass if its values are tensors and every operator and dtype in it is in ops.json, unless
excused.txt names it with a reason.
"""

import collections
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
OLDEST_OPSET = 6  # ops/onnx/import.hpp
DTYPES = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "BOOL": "bool",
          "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64", "UINT8": "u8",
          "UINT16": "u16", "UINT32": "u32", "UINT64": "u64"}

# How many cases each list of floor.json has. The lists only grow, and whoever makes one longer
# writes its new length here: a name that is taken out of the file alone is missed.
LISTED = {"cpu:0": 1549, "npu:0": 1549, "npu:0 denied": 1471, "xpu:0": 1549, "xpu:0 denied": 1471}

# How a passing case ran; the last word that applies.
WAYS = ("views only", "native", "decomposed", "fallback")


class Operators:
    """The ONNX operators that ops/ has, and the dtypes of their arguments."""

    def __init__(self, ops_json):
        self.dtypes = collections.defaultdict(set)
        for op in json.loads(pathlib.Path(ops_json).read_text("utf-8"))["operators"]:
            found = {d for variable in op["types"] for d in variable["dtypes"]}
            found |= {a["dtype"] for a in [*op["inputs"], *op["outputs"]] if a["dtype"]}
            for name in op["onnx_operators"]:
                self.dtypes[name] |= found

    def lack(self, case):
        """Why the case need not pass, or ""."""
        if case["values"]:
            return f"not tensors: {case['values']}"
        if 0 < case["opset"] < OLDEST_OPSET:
            return f"operator set {case['opset']}; {OLDEST_OPSET} is the oldest that is read"
        kinds = sorted({t for n in case["nodes"] for t in n["types"]} - set(DTYPES))
        if kinds:
            return f"types that are not ours: {', '.join(kinds).lower()}"
        unknown = sorted({f"{n['domain']}.{n['op']}".lstrip(".") for n in case["nodes"]
                          if n["domain"] or n["op"] not in self.dtypes})
        if unknown:
            return f"operators that are not ours: {', '.join(unknown)}"
        for node in case["nodes"]:
            lacking = sorted({DTYPES[t] for t in node["types"]} - self.dtypes[node["op"]])
            if lacking:
                return f"{node['op']} is not for {', '.join(lacking)}"
        return ""


# widest: the widest error that is excused, in tolerances; None: the case may be refused instead.
Excuse = collections.namedtuple("Excuse", "pattern widest reason")
EXCUSE_LINE = re.compile(r"(.+?): (?:refused|(\d+(?:\.\d+)?) tolerances): (.+)")


def read_excuses(path=HERE / "excused.txt"):
    """Of each line "PATTERN: refused: REASON" or "PATTERN: NUMBER tolerances: REASON"."""
    excuses = []
    for line in path.read_text("utf-8").splitlines():
        if not line or line[0] == "#":
            continue
        parts = EXCUSE_LINE.fullmatch(line)
        if not parts:
            raise ValueError(f"{path}: not of the form that its first lines tell: {line}")
        pattern, widest, reason = parts.groups()
        excuses.append(Excuse(pattern, None if widest is None else float(widest), reason))
    return excuses


def reason_of(case, answer, excuses):
    """Of the first excuse with such a name, if it is one for this answer; else ""."""
    excuse = next((e for e in excuses if re.fullmatch(e.pattern, case["name"])), None)
    if excuse is None:
        return ""
    if excuse.widest is None:
        return excuse.reason if answer.verdict == "REFUSED" else ""
    return excuse.reason if answer.verdict == "WRONG" and answer.widest <= excuse.widest else ""


def way_of(answer):
    """How a passing case ran."""
    if answer.fallback:
        return "fallback"
    if answer.decomposed:
        return "decomposed"
    return "native" if answer.native else "views only"


def counts_as_denied(answer):
    """Passed with fallbacks refused: launched there and nowhere else."""
    return answer.verdict == "PASS" and answer.here > 0 and answer.elsewhere == 0


def why_not(case, answer, operators, excuses):
    """Why the case need not pass, or "". What we don't have is refused: that excuses no crash, no
    hang, no other error, and no wrong values, which excused.txt alone does within a bound."""
    excuse = reason_of(case, answer, excuses)
    return excuse or (operators.lack(case) if answer.verdict == "REFUSED" else "")


def judge(device, cases, answers, denied, operators, excuses):
    """The table of one device. answers, denied: {case name: Answer}; denied is None where no
    fallback is possible."""
    table = {"device": device, "total": len(cases), "passed": 0, "failed": 0, "refused": 0,
             **{way: 0 for way in WAYS}, "denied": None, "not_passed": [], "passing": [],
             "passing_denied": []}
    for case in cases:
        answer = answers[case["name"]]
        if answer.verdict == "PASS":
            table["passed"] += 1
            table[way_of(answer)] += 1
            table["passing"].append(case["name"])
            continue
        lack = why_not(case, answer, operators, excuses)
        table["refused" if lack else "failed"] += 1
        table["not_passed"].append({"case": case["name"], "reason": lack or "must pass",
                                    "verdict": answer.verdict, "words": answer.words})
    if denied is not None:
        table["passing_denied"] = [n for n, a in denied.items() if counts_as_denied(a)]
        table["denied"] = len(table["passing_denied"])
    return table


def idle_excuses(excuses, table):
    """Lines for patterns that excuse nothing, or have the name of a case that passes."""
    missed = [row["case"] for row in table["not_passed"]]
    lines = [f"excused.txt: '{pattern}' excuses no case" for pattern, *_ in excuses
             if not any(re.fullmatch(pattern, name) for name in missed)]
    return lines + [f"excused.txt: '{pattern}' excuses {name}, which passes"
                    for pattern, *_ in excuses for name in table["passing"]
                    if re.fullmatch(pattern, name)]


def problems_of(table, floor):
    """Lines about what must be mended: cases that must pass, and those that once passed."""
    device = table["device"]
    lines = [f"{device}: {row['case']} must pass: {row['verdict']} {row['words']}"
             for row in table["not_passed"] if row["reason"] == "must pass"]
    tried = {row["case"] for row in table["not_passed"]} | set(table["passing"])
    for kind, passing in (("", "passing"), ("denied", "passing_denied")):
        for name in sorted(set(floor.get(f"{device} {kind}".strip(), [])) & tried):
            if name not in table[passing]:
                how = " with BACKPLANE_FALLBACK=deny" if kind else ""
                lines.append(f"{device}: {name} passed{how} before")
    return lines


def floor_problems(floor, names):
    """Lines about floor.json itself, which could shrink, or name cases that are never tried."""
    lines = [f"floor.json: '{key}' has {len(floor.get(key, []))} cases, LISTED in verdicts.py "
             f"says {count}" for key, count in LISTED.items() if len(floor.get(key, [])) != count]
    return lines + [f"floor.json: '{key}' has {name}, which is no case"
                    for key, passing in floor.items() for name in sorted(set(passing) - set(names))]


def write_reports(tables, sampled, folder):
    folder.mkdir(parents=True, exist_ok=True)
    summed = {key: sum(t[key] for t in tables) for key in ("passed", "failed", "total")}
    rows = [{k: v for k, v in t.items() if not k.startswith("passing")} for t in tables]
    (folder / "onnx.json").write_text(json.dumps({**summed, "devices": rows}, indent=1))
    lines = ["# The onnx package's own cases", "",
             "Through the public API. *deny*: passed with BACKPLANE_FALLBACK=deny, with a launch "
             "on the device and none elsewhere.", "",
             "| device | passed | failed | refused or excused | total | native | decomposed |"
             " fallback |"
             " views only | deny |", "|---|" + "---|" * 9]
    for t in tables:
        name = t["device"] + ("" if sampled[t["device"]] == 1
                              else f" (every {sampled[t['device']]}th case)")
        cells = [t["passed"], t["failed"], t["refused"], t["total"], t["native"], t["decomposed"],
                 t["fallback"], t["views only"], "" if t["denied"] is None else t["denied"]]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    for t in tables:
        lines += ["", f"## Not passed on {t['device']}", "", "| reason | cases | which |",
                  "|---|---|---|", *_by_reason(t["not_passed"])]
    (folder / "onnx.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines[4:6 + len(tables)]


def _by_reason(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        reason = row["reason"] if row["reason"] != "must pass" else f"must pass: {row['words']}"
        groups[reason.replace("|", "\\|")].append(row["case"])
    return [f"| {reason} | {len(names)} | {', '.join(names)} |"
            for reason, names in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))]
