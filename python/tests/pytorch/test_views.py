# SPDX-License-Identifier: Apache-2.0
"""Outputs that share memory do so as without the compiler: what is written to one shows in another,
and a session's memory is nobody else's."""

import pytest
import torch

import backplane as bp
import backplane.torch
from checks import compile

INDEPENDENT = {  # outputs alone are views
    "whole_rows_columns": lambda y: (y, y.view(-1), y[0], y[:, 1], y.t(), y[1:, 1:]),
    "no_whole": lambda y: (y[0:2], y[1:3], y.t()[0]),
    "one_part": lambda y: y[1:3].t(),
    "split": lambda y: (y, *y.split([1, 2])),
    "unbind": lambda y: y.unbind(0),
    "expand": lambda y: (y, y.expand(2, 3, 4)),
    "other_dtype": lambda y: (y, y.view(torch.int32), y.view(torch.int16)[:, 1:]),
    "detach": lambda y: (y, y.detach()),
    "windows": lambda y: (y, y.unfold(1, 2, 1), y.diagonal(), y.as_strided((2,), (5,), 1)),
    "twice": lambda y: (y, [y], y + 0, y.clone()),
    "contiguous": lambda y: (y.contiguous(), y.t().contiguous(), y.reshape(2, 6)),
    "sorted": lambda y: (y.sort(1)[0][1:], y.sort(1)[1].view(-1)),
}


def leaves(values):
    return [x for x in torch.utils._pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]


def after_writes(tensors):
    """What all look like after a write to each, in turn; None where it must not be written to."""
    seen = []
    for number, tensor in enumerate(tensors):
        try:
            tensor.fill_(100 + number)
            seen.append([x.tolist() for x in tensors])
        except RuntimeError:
            seen.append(None)
    return seen


def check_writes(function, *args, device="cpu:0", compiled=None, gradients=False):
    ours, theirs = ([x.clone().requires_grad_(gradients) for x in args] for _ in range(2))
    compiled = compile(function, device) if compiled is None else compiled
    with torch.set_grad_enabled(gradients):
        found, eager = leaves(compiled(*ours)), leaves(function(*theirs))
    for a, b in zip(found, eager, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert a.requires_grad == b.requires_grad
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        assert after_writes([*found, *ours]) == after_writes([*eager, *theirs])
    report = bp.torch.report()
    assert report.runs > 0 and report.torch_nodes == 0 and report.fallbacks == ()
    return compiled


@pytest.mark.parametrize("views", INDEPENDENT)
@pytest.mark.parametrize("gradients", [False, True])
def test_views_of_results(views, gradients):
    check_writes(lambda x: INDEPENDENT[views](x + 1), torch.randn(3, 4), gradients=gradients)


def test_views_of_results_on_devices(device):
    check_writes(lambda x: INDEPENDENT["whole_rows_columns"](x * 2), torch.randn(3, 4),
                 device=device)


def test_views_of_results_of_any_size():
    def f(x):
        y = x * 2
        return y[1:], y.t(), y.view(-1), y[:, x.shape[1] // 2 :]

    compiled = check_writes(f, torch.randn(3, 4))
    for shape in ((5, 6), (7, 8), (4, 9)):
        check_writes(f, torch.randn(shape), compiled=compiled)
    assert bp.torch.report().graphs == 2


def test_views_of_a_result_that_lies_otherwise():
    def f(x):
        y = x.t() + 1
        return y.t(), y[1], y

    check_writes(f, torch.randn(3, 4))


@pytest.mark.parametrize("gradients", [False, True])
def test_views_of_arguments(gradients):
    def f(x):
        return x.view(-1), x[1], x, x.t() + 0, x[1:, 2:], x.view(torch.int16)[1:]

    check_writes(f, torch.randn(3, 4), gradients=gradients)


def test_views_of_arguments_that_begin_later():
    """Where an argument begins in its memory is not known to the graph."""
    compiled = compile(lambda x: (x[1:], x.view(torch.int16), x + 1), "cpu:0")
    base = torch.arange(20.0)
    for begin in (0, 5, 9):
        x = base[begin : begin + 4]
        with torch.no_grad():
            later, other, _ = compiled(x)
        assert later.tolist() == x[1:].tolist()
        assert other.data_ptr() == x.data_ptr() and other.tolist() == x.view(torch.int16).tolist()
        later.fill_(-begin)
        assert x[1:].tolist() == [-begin] * 3


def test_views_of_weights():
    layer = torch.nn.Linear(3, 3)
    with torch.no_grad():
        row, _ = compile(lambda x: (layer.weight[1], layer(x)), "cpu:0")(torch.randn(2, 3))
        row.fill_(5)
    assert layer.weight[1].tolist() == [5, 5, 5]


def test_views_alone_need_no_device():
    with torch.no_grad():
        assert compile(lambda x: x.view(-1)[2:], "cpu:0")(torch.arange(4.0)).tolist() == [2, 3]
    report = bp.torch.report()
    assert (report.device_nodes, report.torch_nodes, report.sessions) == (0, 0, 0)


def test_views_across_torch_and_sessions():
    """torch computes y; a session is given y, and returns a view of it."""
    def f(x):
        y = torch.special.bessel_j0(x + 1)
        return y, y.view(-1), y[0] * 2, y[1:]

    with torch.no_grad(), pytest.warns(bp.torch.FallbackWarning, match="bessel_j0"):
        found = compile(f, "cpu:0")(torch.ones(3, 4))
    assert after_writes(leaves(found)) == after_writes(leaves(f(torch.ones(3, 4))))


def test_writes_to_arguments_and_their_views(device):
    def f(x, y):
        x.add_(1)
        row = x[0]
        row.mul_(2)
        y[1:] = 3
        return row, y.view(-1), x

    check_writes(f, torch.randn(4, 3), torch.randn(4), device=device)


def test_writes_to_results_and_their_views():
    def f(x):
        y = x + 1
        rest = y[1:]
        rest.mul_(3)
        y[0] = rest[0]
        return y, rest, y.sum()

    check_writes(f, torch.randn(4, 3))
    check_writes(f, torch.randn(4, 3), gradients=True)
