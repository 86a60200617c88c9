# SPDX-License-Identifier: Apache-2.0
"""A functional aten graph as an ONNX model, by torch's own exporter.

Weights are inputs of the model while it is exported, so that nothing of their values gets into the
graph, and become initializers in each copy that is loaded. Sizes that vary are dimensions with a
name, and not inputs: torch passes them as numbers beside the tensors whose sizes they are.
"""

import collections
import contextlib
import dataclasses
import logging
import operator
import re

import onnx
import onnx_ir
import torch
from onnx_ir.tensor_adapters import TorchTensor
from torch.export import graph_signature as signature
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.utils import _pytree
from torch.utils._python_dispatch import _disable_current_modes

OPSET = 23  # the first with Attention
_LARGEST_MODEL = 2**31 - 2**20  # that protobuf writes


class ExportError(Exception):
    """A graph that has no ONNX form. ``target`` names the operator, "" where it is not known."""

    def __init__(self, target, reason):
        super().__init__(reason)
        self.target = target


@dataclasses.dataclass
class Result:
    """One output of the session."""

    dtype: object  # of torch: the exporter leaves some in a wider one
    axes: tuple  # in the order that brings back torch's strides
    sizes: tuple  # None: one that varies


@dataclasses.dataclass
class View:
    """A tensor in the memory of another: numbers, or expressions of symbols by sympy."""

    dtype: object
    sizes: tuple
    strides: tuple
    offset_bytes: object  # behind the other's first


@dataclasses.dataclass
class Output:
    """One output of the graph: a result or an argument, or a view of either; or a plain value."""

    result: int = -1
    argument: int = -1
    view: View = None
    value: object = None
    expression: object = None  # a size: of symbols, by sympy


@dataclasses.dataclass
class Exported:
    template: onnx.ModelProto  # without weights
    inputs: list  # positions among the graph's arguments
    weights: list  # (name, position)
    weight_inputs: list  # of the template, were they inputs
    constants: list  # (name, tensor)
    results: list  # of Result
    outputs: list  # of Output
    is_single: bool  # the graph's result is one value, and not a tuple of them
    symbols: dict  # by symbol: (position, axis), or (position, None) for a number
    node_count: int

    def model(self, arguments):
        """With the weights among the arguments of a call as initializers."""
        model = onnx.ModelProto()
        model.CopyFrom(self.template)
        _initialize(model, [(name, arguments[position]) for name, position in self.weights])
        return self._finish(model)

    def model_without_weights(self):
        """Weights are inputs, behind the others."""
        model = onnx.ModelProto()
        model.CopyFrom(self.template)
        model.graph.input.extend(self.weight_inputs)
        return self._finish(model)

    def _finish(self, model):
        _initialize(model, self.constants)
        if model.ByteSize() > _LARGEST_MODEL:
            raise ExportError("", f"the model has {model.ByteSize() >> 20} MiB; ONNX ends at 2 GiB")
        return model.SerializeToString()


def _initialize(model, named_tensors):
    for name, tensor in named_tensors:
        adapter = TorchTensor(tensor.detach(), name=name)
        model.graph.initializer.append(onnx_ir.serde.serialize_tensor(adapter))


def _storages(node):
    values = node.meta.get("val")
    values = values if isinstance(values, (list, tuple)) else (values,)
    return {v.untyped_storage()._cdata for v in values if isinstance(v, torch.Tensor)}


def _viewed(node):
    """The node whose memory this one's tensors lie in, or None."""
    mine = _storages(node) if node.op == "call_function" else set()
    return next((source for source in node.all_input_nodes if mine & _storages(source)), None)


def owner_of(node):
    """The node that a view is one of, through views of views: itself, if it has its own memory."""
    owner = node
    while node is not None:
        if isinstance(node.meta["val"], torch.Tensor):  # and not a list that views come in
            owner = node
        node = _viewed(node)
    return owner


def is_computation(node):
    """Whether a node computes something, rather than takes it from where it lies."""
    is_operator = isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))
    return (
        node.op == "call_function" and is_operator and not is_size(node) and _viewed(node) is None
    )


def is_symbolic(value):
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def is_size(node):
    return is_symbolic(node.meta.get("val"))


def _hint(size):
    return size if isinstance(size, int) else size.node.hint


def _order_of_strides(value):
    """The axes from the slowest to the fastest, or () where that is their own order."""
    sizes, strides = [[_hint(v) for v in part] for part in (value.shape, value.stride())]
    if None in sizes or None in strides or 0 in strides:
        return ()
    order = tuple(sorted(range(value.ndim), key=lambda axis: (-strides[axis], axis)))
    moved = [axis for axis in order if sizes[axis] != 1]
    return () if moved == sorted(moved) else order


def copy_of(module):
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


class _Exporter:
    def __init__(self, module, weights):
        self.module = copy_of(module)
        self.graph = self.module.graph
        self.weight_positions = weights
        self.placeholders = self.graph.find_nodes(op="placeholder")
        self.symbols = self._find_symbols()
        self.specs, self.names, self.kept = [], [], []
        self.inputs, self.weights, self.constants = [], [], []

    def _find_symbols(self):
        symbols = {}
        for position, node in enumerate(self.placeholders):
            value = node.meta["val"]
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                        symbols.setdefault(size.node.expr, (position, axis))
        for position, node in enumerate(self.placeholders):
            if is_size(node):
                symbols.setdefault(node.meta["val"].node.expr, (position, None))
        return symbols

    def _keep(self, node, name, kind=signature.TensorArgument):
        self.specs.append(
            signature.InputSpec(signature.InputKind.USER_INPUT, kind(node.name), None)
        )
        self.names.append(name)
        self.kept.append(node.meta["val"])

    def _take_placeholders(self):
        for position, node in enumerate(self.placeholders):
            if is_size(node):
                self._take_size(node, position)
            elif not node.users:
                self.graph.erase_node(node)
            elif position in self.weight_positions:
                self.weights.append((f"weight{position}", position))
                self._keep(node, self.weights[-1][0])
            else:
                self.inputs.append(position)
                self._keep(node, f"input{position}")

    def _take_size(self, node, position):
        source, axis = self.symbols[node.meta["val"].node.expr]
        if not node.users:
            self.graph.erase_node(node)
        elif axis is None:
            self.inputs.append(position)
            self._keep(node, f"input{position}", signature.SymIntArgument)
        else:
            with self.graph.inserting_after(self.placeholders[-1]):
                size = self.graph.call_function(
                    torch.ops.aten.sym_size.int, (self.placeholders[source], axis)
                )
            size.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(size)
            self.graph.erase_node(node)

    def _take_constants(self):
        """Tensors that the graph holds become inputs behind the others."""
        behind = self.placeholders[-1] if self.placeholders else None
        for node in self.graph.find_nodes(op="get_attr"):
            tensor = getattr(self.module, node.target)
            if not isinstance(tensor, torch.Tensor):
                raise ExportError("", f"the graph holds a {type(tensor).__name__}")
            place = self.graph.inserting_after(behind) if behind else (
                self.graph.inserting_before(next(iter(self.graph.nodes))))
            with place:
                lifted = self.graph.placeholder(f"constant_{len(self.constants)}")
            lifted.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(lifted)
            self.graph.erase_node(node)
            self.constants.append((f"constant{len(self.constants)}", tensor))
            self._keep(lifted, self.constants[-1][0])
            behind = lifted

    def _take_outputs(self):
        """One for each memory that is computed; the others need no session."""
        end = self.graph.output_node()
        values = end.args[0] if isinstance(end.args[0], (list, tuple)) else (end.args[0],)
        owners = {v: owner_of(v) for v in values if isinstance(v, torch.fx.Node) and not is_size(v)}
        uses = collections.Counter(owners.values())
        wanted, outputs = [], []
        for value in values:
            if not isinstance(value, torch.fx.Node):
                outputs.append(Output(value=value))
                continue
            if is_size(value):
                outputs.append(Output(expression=self._known(value.meta["val"])))
                continue
            owner = owners[value]
            if owner in self.placeholders:
                place = Output(argument=self.placeholders.index(owner))
            else:
                # Of a view that shares its memory with no other output nobody sees the rest.
                owner = value if uses[owner] == 1 else owner
                if owner not in wanted:
                    wanted.append(owner)
                place = Output(result=wanted.index(owner))
            if owner is not value:
                place.view = self._view(value.meta["val"], owner.meta["val"])
            outputs.append(place)
        results = [self._result(node.meta["val"]) for node in wanted]
        end.args = (tuple(self._in_memory_order(node, end) for node in wanted),)
        return results, outputs

    def _result(self, value):
        order = _order_of_strides(value)
        axes = tuple(order.index(axis) for axis in range(len(order)))
        sizes = tuple(size if isinstance(size, int) else None for size in value.shape)
        return Result(value.dtype, axes, sizes)

    def _view(self, value, owner):
        return View(
            value.dtype,
            tuple(map(self._known, value.shape)),
            tuple(map(self._known, value.stride())),
            self._known(value.storage_offset() * value.itemsize
                        - owner.storage_offset() * owner.itemsize),
        )

    def _known(self, number):
        """A number, or an expression of symbols that are sizes of arguments."""
        expression = number.node.expr if is_symbolic(number) else number
        unknown = getattr(expression, "free_symbols", set()) - self.symbols.keys()
        if unknown:
            raise ExportError("", f"a size that no argument has: {expression}")
        return expression

    def _in_memory_order(self, node, end):
        order = _order_of_strides(node.meta["val"])
        if not order:
            return node
        with self.graph.inserting_before(end):
            moved = self.graph.call_function(torch.ops.aten.permute.default, (node, order))
        moved.meta["val"] = node.meta["val"].permute(order)
        return moved

    def _program(self):
        results = self.graph.output_node().args[0]
        made = [
            signature.OutputSpec(
                signature.OutputKind.USER_OUTPUT, signature.TensorArgument(node.name), None
            )
            for node in results
        ]
        arguments = (tuple(self.kept), {})
        call = ModuleCallSignature(
            inputs=[], outputs=[], in_spec=_pytree.tree_structure(arguments),
            out_spec=_pytree.tree_structure(tuple(range(len(made)))),
        )
        self.graph.eliminate_dead_code()
        self.graph.lint()
        self.module.recompile()
        program = torch.export.ExportedProgram(
            self.module, self.graph, signature.ExportGraphSignature(self.specs, made), {}, {},
            [ModuleCallEntry("", call)], example_inputs=arguments,
        )
        program._guards_code = []  # torch.compile checks them before each call
        return program

    def export(self):
        node_count = sum(map(is_computation, self.graph.nodes))
        is_single = isinstance(self.graph.output_node().args[0], torch.fx.Node)
        results, outputs = self._take_outputs()
        self._take_placeholders()
        self._take_constants()
        template = _to_onnx(self._program(), self.names)
        by_name = {value.name: value for value in template.graph.input}
        del template.graph.input[:]
        template.graph.input.extend(by_name[f"input{position}"] for position in self.inputs)
        return Exported(
            template, self.inputs, self.weights, [by_name[name] for name, _ in self.weights],
            self.constants, results, outputs, is_single, self.symbols, node_count,
        )


def _to_onnx(program, names):
    count = len(program.graph_signature.output_specs)
    with torch._guards.tracing(None), _disable_current_modes(), _quiet():
        made = torch.onnx.export(
            program, dynamo=True, external_data=False, verbose=False, opset_version=OPSET,
            input_names=names, output_names=[f"output{i}" for i in range(count)],
        )
    return made.model_proto


@contextlib.contextmanager
def _quiet():
    """The exporter logs what becomes an exception here, or matters to nobody."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _explain(error):
    """The operator that failed and the first cause, out of the exporter's nested words."""
    target, cause = "", error
    while True:
        found = re.search(r"target=torch\.ops\.([\w.]+)", str(cause))
        target = target or (found.group(1) if found else "")
        if cause.__cause__ is None:
            break
        cause = cause.__cause__
    words = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    return ExportError(target, f"the ONNX exporter: {words or type(cause).__name__}")


def export(module, weights):
    """`weights`: the positions of the placeholders that hold them. Throws ExportError."""
    try:
        return _Exporter(module, weights).export()
    except ExportError:
        raise
    except Exception as error:  # whatever a graph meets in there: torch can still run it
        raise _explain(error) from error


def export_alone(node):
    """One operator by itself. Throws ExportError."""
    graph = torch.fx.Graph()
    values = {}
    for source in node.all_input_nodes:
        values[source] = graph.placeholder(source.name)
        values[source].meta["val"] = source.meta["val"]
    copied = graph.node_copy(node, values.__getitem__)
    graph.output(tuple(_parts_of(copied)))
    return export(torch.fx.GraphModule({}, graph), frozenset())


def can_export(node):
    """Whether one operator has an ONNX form, by itself."""
    try:
        export_alone(node)
    except ExportError:
        return False
    return True


def _parts_of(node):
    """The tensors that one operator computes, each as a node."""
    values = node.meta["val"]
    if isinstance(values, torch.Tensor):
        yield node
        return
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            part = node.graph.call_function(operator.getitem, (node, number))
            part.meta["val"] = value
            yield part
