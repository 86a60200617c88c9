# SPDX-License-Identifier: Apache-2.0
"""Operators that the exporter has other values for than torch, or none."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backplane as bp
import backplane.torch
from backplane.torch import FallbackWarning
from checks import check, check_all_on_device, compile


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.BatchNorm1d(4), (8, 4)),
        (lambda: nn.BatchNorm2d(4, affine=False, momentum=0.3), (2, 4, 3, 3)),
        (lambda: nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 3, 3)),
        (lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True), (2, 3, 5)),
    ],
    ids=["1d", "2d_not_affine", "2d_no_statistics", "instance"],
)
def test_norms_in_training_mode(device, make, shape):
    """They use the statistics of their input, and write them into their buffers."""
    ours, theirs = make().train(), make().train()
    compiled = compile(ours, device)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(shape) * 3 + 2
            torch.testing.assert_close(compiled(x), theirs(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-4, atol=1e-5)
    check_all_on_device()


def test_gradients_of_norms_in_training_mode():
    ours, theirs = nn.BatchNorm1d(4).train(), nn.BatchNorm1d(4).train()
    x = torch.randn(8, 4)
    found = compile(ours, "cpu:0")(x)
    with pytest.warns(FallbackWarning, match="these are gradients"):
        found.pow(3).sum().backward()
    theirs(x).pow(3).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_norms_in_eval_mode_are_one_operator():
    check(nn.BatchNorm2d(4).eval(), torch.randn(2, 4, 3, 3))
    check_all_on_device()
    assert bp.torch.report().device_nodes == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32, torch.uint8])
@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_any(shape, dtype):
    x = torch.zeros(shape, dtype=dtype)
    x[1:, 2:] = 1
    check(lambda x: (x.any(), x.any(0), x.any(1, keepdim=True), x.all(), x.any(dim=(0, 1))), x)
    check_all_on_device()


def test_sign_of_nan(device):
    x = torch.tensor([float("nan"), -2.0, 0.0, float("inf")])
    with torch.no_grad():
        assert compile(lambda x: x.sign(), device)(x).tolist() == [0, -1, 0, 1]
    check(lambda x: x.sign(), torch.tensor([-3, 0, 5]))
    check_all_on_device()


@pytest.mark.parametrize(
    "divide",
    [
        lambda x, y: x // y,
        lambda x, y: x % y,
        lambda x, y: torch.fmod(x, y),
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    ],
    ids=["floor", "remainder", "fmod", "trunc"],
)
def test_integers_divided_by_zero(device, divide):
    compiled = compile(divide, device)
    x = torch.tensor([7, -7, 3])
    with pytest.warns(FallbackWarning, match="torch raises where integers are divided by 0"):
        check(divide, x, torch.tensor([2, 2, -5]), compiled=compiled)
    with torch.no_grad(), pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, torch.tensor([1, 0, 1]))


def test_divisions_that_stay_on_the_device(device):
    def f(i, x):
        return i // 2, i % 3, i / i, i // i.shape[0], x // x, x % 2, torch.div(x, i)

    check(f, torch.tensor([7, -7, 3]), torch.tensor([2.0, -2.5, 8.0]), device=device)
    check_all_on_device()


@pytest.mark.parametrize("causal", [False, True])
def test_attention_whose_heads_share_keys(device, causal):
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    keys = torch.randn(2, 2, 2, 6, 8)
    check(attend, torch.randn(2, 4, 6, 8), *keys, device=device)
    check_all_on_device()


def test_operators_of_several_results_are_not_blamed():
    """The exporter has no form of bessel_j0, and does not say whose part it was."""
    def f(x):
        top = x.max(1)
        return top.values, top.indices, x.sort(0)[0], torch.special.i0(x)

    with pytest.warns(FallbackWarning):
        check(f, torch.rand(3, 4))
    assert {f.operator for f in bp.torch.report().fallbacks} == {"aten.i0.default"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 0.1 + 0.3,
        lambda x: 0.3**x,
        lambda x: x == 0.1,
        lambda x: x.clamp(-0.1, 0.1),
        lambda x: torch.where(x > 0.7, x, 0.1),
        lambda x: torch.full_like(x, 0.1) + x,
        lambda x: F.leaky_relu(x, 0.1),
        lambda x: torch.arange(0, 1, 0.1, dtype=torch.float64) + x[0],
        lambda x: (x.abs() + 1).log2(),
        lambda x: x.norm(p=3),
    ],
)
def test_numbers_of_float64(function):
    """The exporter writes numbers as float32: where that would round them, torch computes."""
    x = torch.tensor([0.3, 0.7, -1.3, 0.1], dtype=torch.float64)
    with pytest.warns(FallbackWarning, match="rounds its numbers to float32"):
        check(function, x)


def test_float64_without_such_numbers(device):
    check(lambda x: ((x * 0.5 + 2).exp().sum(0), x.softmax(0), x > 0, x @ x.T, x.mean(), x + 3),
          torch.randn(3, 4, dtype=torch.float64), device=device)
    check(lambda x: x * 0.1, torch.randn(3), device=device)
    check_all_on_device()
