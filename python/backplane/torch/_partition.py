# SPDX-License-Identifier: Apache-2.0
"""Takes a graph apart into what sessions compute and what torch does."""

import collections
import dataclasses
import threading

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

import backplane as bp

from ._compiled import CompiledGraph
from ._decompositions import drop_statistics, name_attention
from ._export import ExportError, can_export, copy_of, export, export_alone, is_computation
from ._options import Options
from ._report import Fallback, count, fall_back
from ._support import reason_against

_NO_SESSION = (bp.UnsupportedError, bp.InvalidArgumentError, ExportError)  # torch can run the graph


class _Support(OperatorSupportBase):
    def __init__(self, refused):
        self._refused = refused

    def is_node_supported(self, submodules, node):
        return reason_against(node, self._refused) is None


class _Part(torch.nn.Module):
    """A graph whose session is loaded with the first call. Where it cannot be, the operators that
    are why run in torch from then on, or all of them."""

    def __init__(self, module, weights, job):
        super().__init__()
        self._compiled = CompiledGraph(export(module, weights), job.options, job.training)
        self.node_count = self._compiled.node_count
        self._module = module
        self._weights = weights
        self._job = job
        self._instead = None
        self._lock = threading.Lock()

    def forward(self, *arguments):
        compiled = self._compiled
        if self._instead is not None:
            return self._instead(*arguments)
        try:
            session = compiled.session_for(arguments)
        except _NO_SESSION as error:
            return self._replacement(error, self._cannot_load)(*arguments)
        try:
            return compiled.run(session, arguments)
        except bp.UnsupportedError as error:  # that these sizes have no kernel
            return self._replacement(error, lambda: {})(*arguments)

    def _cannot_load(self):
        """Why the device loads no model of an operator, by operator. Where that is so of each, no
        operator is why."""
        nodes, reasons = _computations(self._module, {}), {}
        for node in nodes:
            try:
                model = export_alone(node).model_without_weights()
                bp.load(model, device=self._job.options.device, **self._job.options.load)
            except _NO_SESSION as error:
                reasons[str(node.target)] = str(error)
        return reasons if len(reasons) < len({node.target for node in nodes}) else {}

    def _replacement(self, error, find_culprits):
        job = self._job
        if job.options.fallback == "error":
            raise bp.UnsupportedError(str(Fallback(job.number, "", self.node_count, str(error))))
        with self._lock:
            if self._instead is None:
                refused = find_culprits()
                instead, against = self._module, {("", str(error)): self.node_count}
                if refused:
                    instead, against = _compile(self._module, self._weights, job, refused)
                self._instead, self._compiled = instead, None
                count("device_nodes", -self.node_count)
                _tell(instead, against, self.node_count, job)
        return self._instead


def _against(module, refused):
    """By operator and reason, how many nodes torch has to compute."""
    found = collections.Counter()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        reason = reason_against(node, refused)
        if reason is not None:
            found[str(node.target), reason] += 1
    return found


def _compile_around(module, weights, job, refused):
    """The graph with a part in place of each run of nodes that sessions can compute."""
    fused = copy_of(module)
    holders = fused.graph.find_nodes(op="placeholder")
    holds_weight = {node for position, node in enumerate(holders) if position in weights}
    CapabilityBasedPartitioner(
        fused, _Support(refused), allows_single_node_partition=True
    ).partition_and_fuse()
    for node in fused.graph.find_nodes(op="call_module"):
        inner = fused.get_submodule(node.target)
        if not any(map(is_computation, inner.graph.nodes)):
            continue
        inner_weights = frozenset(i for i, from_ in enumerate(node.args) if from_ in holds_weight)
        fused.add_submodule(node.target, _Part(inner, inner_weights, job))
    fused.recompile()
    return fused


def _kind(source):
    value = source.meta.get("val")
    return f"{value.dtype}{tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""


def _computations(module, refused):
    """The nodes that a session may be asked for: of those that are alike, one."""
    nodes = {}
    for node in module.graph.nodes:
        if is_computation(node) and reason_against(node, refused) is None:
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), _kind)
            nodes[str(node.target), repr(arguments)] = node
    return nodes.values()


def _culprits(module, error, refused):
    """The operators of the graph that are why it has no ONNX form, without those known before. The
    exporter may name one that only its own decompositions brought in: then each is tried."""
    nodes = _computations(module, refused)
    if error.target in {str(node.target) for node in nodes}:
        return {error.target}
    return {str(node.target) for node in nodes if not can_export(node)}


def _compile(module, weights, job, refused):
    """The callable, and what keeps torch busy, by operator and reason."""
    while True:
        against = _against(module, refused)
        try:
            if not against:
                return _Part(module, weights, job), against
            return _compile_around(module, weights, job, refused), against
        except ExportError as error:
            found = _culprits(module, error, refused)
            if not found:
                total = sum(map(is_computation, module.graph.nodes))
                return module, {("", str(error)): total}
            refused |= dict.fromkeys(found, str(error))


@dataclasses.dataclass
class Training:
    has_begun: bool = False  # somebody asked for gradients: weights may change with each call


@dataclasses.dataclass(frozen=True)
class Job:
    number: int  # of the graph
    options: Options
    training: Training


def compile_parts(module, weights, job):
    """A callable that computes the graph `module`: in sessions, and in torch what these cannot,
    with a warning for each operator. `weights`: the positions of the arguments that hold them."""
    module = copy_of(module)
    name_attention(module.graph)
    drop_statistics(module.graph)
    module.recompile()
    total = sum(map(is_computation, module.graph.nodes))
    if total == 0:
        return module
    compiled, against = _compile(module, weights, job, {})
    _tell(compiled, against, total, job)
    return compiled


def _tell(compiled, against, total, job):
    """Notes and counts which of `total` nodes sessions compute, and which torch."""
    for (operator, reason), nodes in against.items():
        fall_back(Fallback(job.number, operator, nodes, reason), job.options.fallback)
    parts = [part for part in compiled.modules() if isinstance(part, _Part)]
    on_device = sum(part.node_count for part in parts)
    count("device_nodes", on_device)
    count("torch_nodes", total - on_device)
