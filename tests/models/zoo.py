# SPDX-License-Identifier: Apache-2.0
"""The list of models, and how one becomes a case: PyTorch's own export, and PyTorch's outputs in
float64 for several inputs."""

import copy
import dataclasses
import json
import pathlib
import sys

import numpy as np
import onnx
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "onnx"))
import write_case  # noqa: E402  it stands in the folder above

SEED = 20261
TOLERANCE = (1e-3, 0, 1e-4)  # relative, absolute, in units of the output's root mean square
OPSET = 20


@dataclasses.dataclass
class Sample:
    """A module and what it is called with. inputs: one dictionary per shape, batch 1 first.
    dynamic: {input: {axis: name}}, the dimensions that differ among them."""
    module: nn.Module
    inputs: list
    outputs: list
    dynamic: dict = dataclasses.field(default_factory=dict)
    opset: int = OPSET
    old: bool = False  # by the exporter that PyTorch had before 2.9


@dataclasses.dataclass
class Model:
    name: str
    about: str
    build: object
    large: bool  # minutes on a slow device: left to the long run


MODELS = {}


def model(about, large=False):
    """Registers a builder under its function's name."""
    def register(build):
        MODELS[build.__name__] = Model(build.__name__, about, build, large)
        return build
    return register


def settle(module, example):
    """Makes an untrained network behave like a trained one: no activation vanishes or explodes.

    Batch norms get the statistics of the example itself, a little off so that they are not the
    identity, and random scales and shifts.
    """
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.momentum = 1.0
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0.0, 0.3)
        if isinstance(part, nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    module.train()
    with torch.no_grad():
        module(torch.cat((example, torch.randn(3, *example.shape[1:]))))
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_var.mul_(torch.empty_like(part.running_var).uniform_(0.8, 1.25)).add_(1e-3)
    return module.eval()


def export(sample, path):
    """Traced with the last inputs: sizes of 1 would be taken for constants."""
    if sample.old:
        torch.onnx.export(
            sample.module, tuple(sample.inputs[-1].values()), str(path), dynamo=False,
            input_names=list(sample.inputs[-1]), output_names=sample.outputs,
            dynamic_axes=sample.dynamic, opset_version=sample.opset)
        return
    dims = {}
    shapes = None
    if sample.dynamic:
        for axes in sample.dynamic.values():
            for name in axes.values():
                dims.setdefault(name, torch.export.Dim(name, min=1, max=4096))
        shapes = tuple({axis: dims[name] for axis, name in sample.dynamic.get(key, {}).items()}
                       for key in sample.inputs[-1])
    torch.onnx.export(
        sample.module, tuple(sample.inputs[-1].values()), str(path),
        input_names=list(sample.inputs[-1]), output_names=sample.outputs, dynamic_shapes=shapes,
        opset_version=sample.opset, dynamo=True, external_data=False, verbose=False)


def reference(sample, inputs):
    """The outputs in float64, as float32. Weights and inputs are widened exactly, so that what a
    float32 run differs by is its own rounding."""
    def widen(value):
        return value.double() if value.is_floating_point() else value
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.inference_mode():
            found = copy.deepcopy(sample.module).double()(*map(widen, inputs.values()))
    finally:
        torch.set_default_dtype(default)
    found = found if isinstance(found, (tuple, list)) else [found]
    return [(v.float() if v.dtype == torch.float64 else v).numpy() for v in found]


def check_outputs(names, values):
    assert len(values) == len(names), (len(values), names)
    for value in values:
        assert np.isfinite(value).all(), "a model must stay finite"
        size = np.sqrt(np.square(value.astype(np.float64)).mean())
        assert value.dtype.kind != "f" or 1e-3 < size < 1e4, f"a model must not vanish: {size}"


def write(entry, folder):
    """folder/{model.onnx, values, manifest.json}; answers the manifest."""
    torch.manual_seed(SEED)
    sample = entry.build()
    sample.module.eval()
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        export(sample, folder / "model.onnx")
    sets = []
    for inputs in sample.inputs:
        outputs = reference(sample, inputs)
        check_outputs(sample.outputs, outputs)
        sets.append(({k: v.numpy() for k, v in inputs.items()},
                     dict(zip(sample.outputs, outputs))))
    write_case.write_case(onnx, folder, None, sets, TOLERANCE)
    graph = onnx.load(str(folder / "model.onnx"), load_external_data=False).graph
    manifest = {"name": entry.name, "about": entry.about, "large": entry.large,
                "opset": sample.opset, "sets": len(sets), "nodes": len(graph.node),
                "operators": sorted({node.op_type for node in graph.node}),
                "bytes": (folder / "model.onnx").stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest
