# SPDX-License-Identifier: Apache-2.0
"""Models with one thing wrong, made from ONNX's own node cases: right ones of one node."""

import copy
import re
import warnings

import onnx

NODE = "the_node"
# Values that no operator with such an attribute takes, by ONNX's name for it.
FAR = 100
WRONG_INTS = {
    "axis": [FAR, -FAR], "batch_dims": [-1, FAR], "blocksize": [0, -1],
    "group": [0, 7],
    "num_groups": [0, 7], "p": [0], "storage_order": [2], "keepdims": [2], "largest": [2],
    "sorted": [2], "exclusive": [2], "reverse": [2], "upper": [2], "fmod": [2], "is_causal": [2],
    "noop_with_empty_axes": [2], "select_last_index": [2], "ceil_mode": [2],
    "count_include_pad": [2], "allowzero": [2], "detect_negative": [2], "detect_positive": [2],
    "antialias": [2], "exclude_outside": [2], "transA": [2], "transB": [2], "to": [0, 999, -1],
    "saturate": [2], "interleaved": [2],
}
WRONG_INT_LISTS = {
    "axes": [[FAR], [-FAR], [0, 0]], "dilations": [[0], [1] * 9], "strides": [[0], [1] * 9],
    "kernel_shape": [[0], [1] * 9], "pads": [[0, 0, 0]], "output_padding": [[-1]],
    "perm": [[0, 0], [FAR, 0], [0] * 9],
}
WRONG_WORD = "no_such_word"
# Our names in errors, where they are not ONNX's.
OWN_NAMES = {"blocksize": "block_size", "coordinate_transformation_mode": "coordinates"}
# What a value contradicts may be told instead: the input, and what the attribute asks of it.
ASKED_BY = {"num_groups": "groups", "group": "groups"}
# Attributes that hold any word, or anything but a list of words.
FREE_WORDS = ("equation", "value_string")
ARGUMENT = r"(attribute|input) ('\w+'|\d+( \('\w+'\))?)|inputs ('\w+', )*'\w+' and '\w+'"


def right_models():
    """{operator: cases of one node of it, the smallest first}, of the standard's own domain."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow on purpose
        cases = collect_testcases(None)
    found = {}
    for case in cases:
        model = case.model
        node = model.graph.node[0]
        if len(model.graph.node) != 1 or node.domain not in ("", "ai.onnx") or model.functions:
            continue
        model.graph.node[0].name = NODE
        found.setdefault(node.op_type, []).append(model)
    return {kind: sorted(models, key=lambda m: m.ByteSize())
            for kind, models in sorted(found.items())}


def schema_of(model):
    version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return onnx.defs.get_schema(model.graph.node[0].op_type, version)


def spoilt_models(model):
    """(what is wrong, model, how the error tells the argument, what was expected and what was
    found, as a regular expression) of each way to spoil it."""
    yield from _attributes(model)
    yield from _counts(model)
    yield from _dtypes(model)
    yield from _ranks(model)


def _with(model, change):
    changed = copy.deepcopy(model)
    change(changed.graph.node[0])
    return changed


def _set(model, name, value):
    def change(node):
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    return _with(model, change)


def _told(argument, expected=".+", found=".+"):
    return rf"{argument}(: .*)?: expected {expected}, found {found}"


def _told_of_value(name, value):
    """Of a list, what of it is wrong is enough."""
    found = rf"'?{re.escape(str(value))}'?( \(\w+\))?"
    if isinstance(value, list):
        found = r"(-?\d+( again)?|\[.*\])"
    asked = rf"expected .*\b{ASKED_BY.get(name, name)}\b.*, found .+"
    return (_told(f"attribute '{OWN_NAMES.get(name, name)}'", found=found + "$")
            + rf"|input '\w+': {asked}")


def _attributes(model):
    # What there is to choose from is what is expected.
    yield ("unknown attribute", _set(model, "no_such_attribute", 1),
           r"attribute 'no_such_attribute' is not known; it has \w+")
    kinds = onnx.defs.OpSchema.AttrType
    for name, attribute in sorted(schema_of(model).attributes.items()):
        other, found = ("text", "STRING") if attribute.type != kinds.STRING else (1.5, "FLOAT")
        yield (f"{name} of a wrong type", _set(model, name, other),
               _told(f"attribute '{name}'", attribute.type.name, found + "$"))
        if attribute.type == kinds.INT:
            values = WRONG_INTS.get(name, [])
        elif attribute.type == kinds.INTS:
            values = WRONG_INT_LISTS.get(name, [])
        else:
            words = attribute.type == kinds.STRING and name not in FREE_WORDS
            values = [WRONG_WORD] if words else []
        for value in values:
            yield f"{name} = {value}", _set(model, name, value), _told_of_value(name, value)


def _counts(model):
    schema, node = schema_of(model), model.graph.node[0]
    told = r"expected \d+( to \d+| or more)? inputs, found \d+$"
    if schema.min_input > 0:
        few = _with(model, lambda n: n.input.__delitem__(slice(schema.min_input - 1, None)))
        yield "too few inputs", few, told
    if schema.max_input < 100 and node.input:
        first = node.input[0]
        extra = [first] * (schema.max_input + 1 - len(node.input))
        yield "too many inputs", _with(model, lambda n: n.input.extend(extra)), told
    for place in range(schema.min_input):
        if place < len(node.input) - 1:
            yield f"input {place} missing", _with(
                model, lambda n, p=place: n.input.__setitem__(p, "")), f"input {place} is missing$"


def _info_of(model, name):
    return next((info for info in model.graph.input if info.name == name), None)


def _dtypes(model):
    """Of each input a dtype that the standard does not let it have."""
    schema, node = schema_of(model), model.graph.node[0]
    for place, name in enumerate(node.input):
        info = _info_of(model, name)
        if info is None or info.type.WhichOneof("value") != "tensor_type":
            continue
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        for wrong, text, own in ((onnx.TensorProto.BOOL, "bool", "bool"),
                                 (onnx.TensorProto.FLOAT, "float", "f32")):
            if f"tensor({text})" not in formal.types:
                changed = copy.deepcopy(model)
                _info_of(changed, name).type.tensor_type.elem_type = wrong
                # By its place, or by the operator's own name for it.
                yield (f"input {place} of {text}", changed,
                       _told(rf"input ({place}|'\w+')", found=rf"{own}\b"))
                break


def _ranks(model):
    """Sizes of each input that ONNX's own inference refuses too."""
    for place, name in enumerate(model.graph.node[0].input):
        info = _info_of(model, name)
        if info is None or info.type.WhichOneof("value") != "tensor_type":
            continue
        for sizes in ([], [7], [7, 11], [7, 11, 13], [7, 11, 13, 17, 19]):
            changed = copy.deepcopy(model)
            shape = _info_of(changed, name).type.tensor_type.shape
            del shape.dim[:]
            for size in sizes:
                shape.dim.add().dim_value = size
            if _is_refused(changed):
                # It, or the argument that it does not go with.
                yield f"input {place} of sizes {sizes}", changed, _told(f"({ARGUMENT})")


def _is_refused(model):
    model = copy.deepcopy(model)
    for output in model.graph.output:  # what it says of them is not what is looked at
        output.type.tensor_type.ClearField("shape")
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return True
    return False
