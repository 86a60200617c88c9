# SPDX-License-Identifier: Apache-2.0
"""Reads the expressions of a row: `definition`, `kernel`, the tolerance, and what its conformance
cases need. The texts themselves are parsed by bp-exprgen, whose build fails on a wrong one."""

import dataclasses

# Which texts a class of dtypes may be under, the most specific first.
KEYS = {
    "float": ("float",), "signed": ("signed", "int"), "unsigned": ("unsigned", "int"),
    "bool": ("bool",),
}
ALL_KEYS = ("float", "int", "signed", "unsigned", "bool")
# FillKind of sdk/conform/kernels/fill.hpp.
FILLS = ("sum", "product", "term", "square", "power", "full", "positive", "wide", "exponent",
         "sweep", "few", "odd", "unit", "above_one", "magnitude", "angle", "small", "half_zero",
         "factor", "special_lane", "infinite_lane")
DEFAULT_EXACT = ("sum",)
DEFAULT_PRECISE = ("full",)
LEAST_DIFFERENT = 8  # as tests/conform expects where a row does not say otherwise
LEAST_DIFFERENT_BOOL = 2
REDUCTION_KEYS = ("map", "start", "combine", "finish")
ROW_KEYS = ("definition", "kernel", "ulps", "half_ulps", "near", "cases")
MOST_INPUTS = 3


@dataclasses.dataclass
class Expression:
    definition: dict  # text by class
    kernel: dict  # the same classes
    ulps: float
    half_ulps: float
    near_input: bool
    exact: list
    precise: list
    either_zero: bool
    least_different: int


@dataclasses.dataclass
class Reduction:
    forms: dict  # {class: {key: text}}
    chooses: bool
    exact: str
    precise: str
    special: str
    least_different: int


def class_of(dtype):
    if dtype == "bool":
        return "bool"
    return {"i": "signed", "u": "unsigned"}.get(dtype[0], "float")


class ExpressionReader:
    """One row's expressions. take and error are source.py's, so that both report alike."""

    def __init__(self, take, error):
        self._take = take
        self._error = error

    def read(self, row, op, where):
        """None for a row without a definition."""
        if "definition" not in row:
            for key in ROW_KEYS:
                if key in row and (key != "cases" or "combine" not in row):
                    raise self._error(f"{where}: '{key}' needs a definition")
            return None
        self._check_shape(op, where)
        classes = sorted({class_of(dtype) for dtype in op.types[0].dtypes})
        definition = self._texts(row["definition"], classes, f"{where}, definition")
        kernel = dict(definition)
        if "kernel" in row:
            kernel |= self._texts(row["kernel"], classes, f"{where}, kernel", partial=True)
        ulps = float(row.get("ulps", 0))
        half_ulps = float(row.get("half_ulps", 1 if ulps else 0))
        if not 0 <= ulps <= 64 or not 0 <= half_ulps <= 64:
            raise self._error(f"{where}: ulps {ulps:g} and {half_ulps:g}; expected 0 to 64")
        if row.get("near", "input") != "input":
            raise self._error(f"{where}: near '{row['near']}'; the only kind is input")
        if "near" in row and not ulps:
            raise self._error(f"{where}: near is for a tolerance in ulps")
        return self._with_cases(Expression(
            definition=definition, kernel=kernel, ulps=ulps, half_ulps=half_ulps,
            near_input="near" in row, exact=[], precise=[], either_zero=False,
            least_different=0), row.get("cases", {}), op, where)

    def read_reduction(self, row, op, where):
        """None for a row without `combine`."""
        if "combine" not in row:
            for key in REDUCTION_KEYS:
                if key in row:
                    raise self._error(f"{where}: '{key}' needs combine")
            return None
        if "definition" in row:
            raise self._error(f"{where}: definition and combine exclude each other")
        if op.infer != "reduce" or len(op.types) != 1 or len(op.inputs) != 1:
            raise self._error(f"{where}: combine is for infer reduce, one type variable and one "
                              "input")
        if [a.name for a in op.attributes] != ["axes", "keepdims"]:
            raise self._error(f"{where}: with combine the attributes are axes and keepdims")
        if "start" not in row:
            raise self._error(f"{where}: 'start' is missing, the result over nothing")
        classes = sorted({class_of(dtype) for dtype in op.types[0].dtypes})
        texts = {key: self._texts(row.get(key, default), classes, f"{where}, {key}")
                 for key, default in zip(REDUCTION_KEYS, ("x", "", "", "a"))}
        cases = row.get("cases", {})
        self._take(cases, f"{where}, cases", required={},
                   optional={"chooses": bool, "exact": str, "precise": str, "special": str,
                             "least_different": int})
        fills = [cases.get("exact", "term"), cases.get("precise", "full"),
                 cases.get("special", "special_lane")]
        self._fills(fills, f"{where}, cases")
        return Reduction({kind: {key: texts[key][kind] for key in REDUCTION_KEYS}
                          for kind in classes}, cases.get("chooses", False), *fills,
                         cases.get("least_different", LEAST_DIFFERENT))

    def _check_shape(self, op, where):
        if len(op.types) != 1 or len(op.outputs) != 1 or len(op.inputs) > MOST_INPUTS:
            raise self._error(f"{where}: a definition is for one type variable, one output and at "
                              f"most {MOST_INPUTS} inputs")
        for argument in op.inputs + op.outputs:
            if argument.type_var or argument.dtype == "bool":
                continue
            raise self._error(f"{where}: '{argument.name}' is neither of the type variable nor "
                              "bool, and there is a definition")
        for argument in op.inputs:
            if argument.optional or argument.variadic or argument.host:
                raise self._error(f"{where}, input '{argument.name}': optional, variadic and host "
                                  "inputs have no place in a definition")
        clash = {a.name for a in op.inputs} & {a.name for a in op.attributes}
        if clash:
            raise self._error(f"{where}: '{min(clash)}' names an input and an attribute, and the "
                              "definition cannot tell them apart")
        if op.infer not in ("broadcast", "like"):
            raise self._error(f"{where}: with a definition, infer is broadcast or like")

    def _texts(self, entry, classes, where, partial=False):
        """{class: text} of one text for all, or of a map."""
        if isinstance(entry, str):
            entry = {key: entry for key in ALL_KEYS if key != "int"}
            given = set(entry)
        else:
            self._take(entry, where, required={}, optional=dict.fromkeys(ALL_KEYS, str))
            given = set(entry)
            unused = given - {key for kind in classes for key in KEYS[kind]}
            if unused:
                raise self._error(f"{where}: '{min(unused)}' is for no dtype of the row")
        found = {}
        for kind in classes:
            key = next((key for key in KEYS[kind] if key in given), None)
            if key is None and not partial:
                raise self._error(f"{where}: there is none for {kind} dtypes")
            if key is not None:
                if not entry[key].strip():
                    raise self._error(f"{where}: the text for {kind} dtypes is empty")
                found[kind] = " ".join(entry[key].split())
        return found

    def _with_cases(self, expression, cases, op, where):
        where = f"{where}, cases"
        self._take(cases, where, required={},
                   optional={"exact": list, "precise": list, "either_zero": bool,
                             "least_different": int})
        # What is rounded more than once has no exact results, unless the row knows some.
        default = [] if expression.ulps else list(DEFAULT_EXACT)
        expression.exact = self._fills(cases.get("exact", default), where)
        expression.precise = self._fills(cases.get("precise", list(DEFAULT_PRECISE)), where)
        if not expression.precise:
            raise self._error(f"{where}: precise is empty")
        expression.either_zero = cases.get("either_zero", False)
        bool_result = op.outputs[0].dtype == "bool" or op.types[0].dtypes == ["bool"]
        default = LEAST_DIFFERENT_BOOL if bool_result else LEAST_DIFFERENT
        expression.least_different = cases.get("least_different", default)
        return expression

    def _fills(self, fills, where):
        for fill in fills:
            if fill not in FILLS:
                raise self._error(f"{where}: fill {fill!r}; known are {', '.join(FILLS)}")
        return fills
