# SPDX-License-Identifier: Apache-2.0
"""The backend that torch.compile calls with each graph.

AOTAutograd makes the graph functional first: it takes writes into inputs, outputs that are views,
and gradients apart from it, and does these itself around each call. What is left goes to sessions,
except for what they cannot do: that stays in torch, and says so.
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

import backplane as bp

from . import _options
from ._decompositions import TABLE
from ._export import is_computation
from ._partition import Job, Training, compile_parts
from ._report import Fallback, begin_graph, count, fall_back, forget_functions

_GRADIENTS = "these are gradients, which sessions do not compute"


def backend(module, example_inputs, *, options=None, **unknown):
    """torch.compile(model, backend="backplane", options={...}): options are

    device: a Device, its name, or None for the default device;
    fallback: "warn" (torch runs what sessions cannot, with a FallbackWarning), or "error";
    deterministic, memory_limit: as backplane.load has them.
    """
    for name in unknown:
        raise bp.InvalidArgumentError(f"torch.compile: argument {name!r} is not for backplane")
    parsed = _options.parse(options)
    number = begin_graph(parsed.fallback)
    training = Training()
    # Such tensors do not say when they were written to: they are no constants.
    has_versions = not any(isinstance(x, torch.Tensor) and x.is_inference() for x in example_inputs)

    def compile_forwards(graph_module, _):
        weights = _weight_positions() if has_versions else frozenset()
        job = Job(number, parsed, training)
        return make_boxed_func(compile_parts(graph_module, weights, job))

    compiler = aot_autograd(
        fw_compiler=compile_forwards,
        bw_compiler=lambda graph_module, _: make_boxed_func(
            _Gradients(graph_module, number, parsed.fallback, training)
        ),
        inference_compiler=compile_forwards,
        decompositions=TABLE,
    )
    return compiler(module, example_inputs)


backend.reset = forget_functions  # torch._dynamo.reset() calls it


class _Gradients:
    """The graph of the gradients, in torch. It says so when somebody asks for them: a model that is
    merely called without torch.no_grad() has such a graph too."""

    def __init__(self, module, number, policy, training):
        self._module = module
        self._number = number
        self._policy = policy
        self._training = training

    def __call__(self, *arguments):
        if not self._training.has_begun:
            nodes = sum(map(is_computation, self._module.graph.nodes))
            fall_back(Fallback(self._number, "", nodes, _GRADIENTS), self._policy)
            count("torch_nodes", nodes)
            self._training.has_begun = True
        return self._module(*arguments)


def _weight_positions():
    """The arguments that are parameters and buffers of modules, and that the graph does not write
    into."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return frozenset()
    return frozenset(metadata.static_input_indices) - frozenset(
        metadata.mutated_inp_runtime_indices
    )
