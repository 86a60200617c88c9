# SPDX-License-Identifier: Apache-2.0
"""How compiled models are compared with torch's own, and with float64."""

import copy

import torch
from torch.utils import _pytree

import backplane as bp
import backplane.torch

FLOATS = {torch.float64, torch.float32, torch.bfloat16, torch.float16}


def compile(function, device, **options):
    return torch.compile(function, backend="backplane", options={"device": device, **options})


def launches(device):
    return bp.device(device).counters["launch_count"]


def widen(value):
    if isinstance(value, torch.Tensor) and value.dtype in FLOATS:
        return value.double()
    return value


def exact(function, args, kwargs):
    """What `function` means, in float64."""
    function = copy.deepcopy(function)
    if isinstance(function, torch.nn.Module):
        function = function.double()
    args, kwargs = _pytree.tree_map(widen, (copy.deepcopy(args), copy.deepcopy(kwargs)))
    return function(*args, **kwargs)


def check_leaf(found, eager, wanted, has_strides):
    if not isinstance(eager, torch.Tensor):
        assert type(found) is type(eager) and found == eager
        return
    assert isinstance(found, torch.Tensor) and found.device == eager.device
    assert found.dtype == eager.dtype and found.shape == eager.shape
    assert found.stride() == eager.stride() or not has_strides
    if eager.dtype not in FLOATS:
        assert torch.equal(found, eager)
        return
    if found.numel() == 0:
        return
    error = (found.double() - wanted).abs().max()
    torchs_error = (eager.double() - wanted).abs().max()
    unit = torch.finfo(eager.dtype).eps * wanted.abs().max()
    assert error <= 4 * torchs_error + 8 * unit, (error, torchs_error, unit)


def check_values(found, eager, wanted, has_strides=True):
    """Errors against float64 are of the size that torch's own are of."""
    found, spec = _pytree.tree_flatten(found)
    eager, spec_of_eager = _pytree.tree_flatten(eager)
    assert spec == spec_of_eager
    for leaves in zip(found, eager, _pytree.tree_leaves(wanted), strict=True):
        check_leaf(*leaves, has_strides)


def check(function, *args, device="cpu:0", compiled=None, has_strides=True, **kwargs):
    """Calls both, also looks at what they wrote into their arguments; answers the compiled one.
    has_strides: outputs lie in memory as torch's do."""
    compiled = compile(function, device) if compiled is None else compiled
    with torch.no_grad():
        wanted = exact(function, args, kwargs)
        their_args, our_args = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        eager = function(*their_args[0], **their_args[1])
        found = compiled(*our_args[0], **our_args[1])
    check_values(found, eager, wanted, has_strides)
    check_values(our_args, their_args, _pytree.tree_map(widen, our_args))
    return compiled


def check_all_on_device():
    report = bp.torch.report()
    assert report.graphs > 0 and report.device_nodes > 0 and report.runs > 0
    assert report.torch_nodes == 0 and report.fallbacks == ()
    assert report.graph_breaks == {}
