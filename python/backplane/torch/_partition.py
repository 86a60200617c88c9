# SPDX-License-Identifier: Apache-2.0
"""Takes a graph apart into what sessions compute and what torch does."""

import collections
import dataclasses

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from backplane import InvalidArgumentError, UnsupportedError

from ._compiled import CompiledGraph
from ._decompositions import name_attention
from ._export import ExportError, can_export, copy_of, export, is_computation
from ._options import Options
from ._report import Fallback, count, fall_back
from ._support import reason_against


class _Support(OperatorSupportBase):
    def __init__(self, refused):
        self._refused = refused

    def is_node_supported(self, submodules, node):
        return reason_against(node, self._refused) is None


class _Part(torch.nn.Module):
    """A graph whose session is loaded with the first call. Where it cannot be, torch computes the
    graph from then on."""

    def __init__(self, module, compiled, number, policy):
        super().__init__()
        self.node_count = compiled.node_count
        self._module = module
        self._compiled = compiled
        self._number = number
        self._policy = policy

    def forward(self, *arguments):
        compiled = self._compiled
        if compiled is None:
            return self._module(*arguments)
        try:
            session = compiled.session_for(arguments)
        except (UnsupportedError, InvalidArgumentError, ExportError) as error:
            return self._give_up(arguments, error)
        try:
            return compiled.run(session, arguments)
        except UnsupportedError as error:  # that these sizes have no kernel
            return self._give_up(arguments, error)

    def _give_up(self, arguments, error):
        note = Fallback(self._number, "", self.node_count, str(error))
        if self._policy == "error":
            fall_back(note, self._policy)
        if self._compiled is not None:
            self._compiled = None
            count("device_nodes", -self.node_count)
            count("torch_nodes", self.node_count)
            fall_back(note, self._policy)
        return self._module(*arguments)


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


def _compile_part(module, weights, job):
    compiled = CompiledGraph(export(module, weights), job.options, job.training)
    return _Part(module, compiled, job.number, job.options.fallback)


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
        fused.add_submodule(node.target, _compile_part(inner, inner_weights, job))
    fused.recompile()
    return fused


def _culprits(module, error, refused):
    """The operators of the graph that are why it has no ONNX form, without those known before. The
    exporter may name one that only its own decompositions brought in: then each is tried."""
    nodes = {
        str(node.target): node
        for node in module.graph.nodes
        if is_computation(node) and reason_against(node, refused) is None
    }
    if error.target in nodes:
        return {error.target}
    return {name for name, node in nodes.items() if not can_export(node)}


def _compile(module, weights, job, refused):
    """The callable, and what keeps torch busy, by operator and reason."""
    while True:
        against = _against(module, refused)
        try:
            if not against:
                return _compile_part(module, weights, job), against
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
    total = sum(map(is_computation, module.graph.nodes))
    if total == 0:
        return module
    module = copy_of(module)
    name_attention(module.graph)
    module.recompile()
    compiled, against = _compile(module, weights, job, {})
    for (operator, reason), nodes in against.items():
        fall_back(Fallback(job.number, operator, nodes, reason), job.options.fallback)
    parts = [part for part in compiled.modules() if isinstance(part, _Part)]
    on_device = sum(part.node_count for part in parts)
    count("device_nodes", on_device)
    count("torch_nodes", total - on_device)
    return compiled
