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


# --- Arguments that the exporter leaves out, or takes for others ------------------------------


def test_means_in_another_dtype(device):
    """The result of integers would have no fraction, and that of halves no end."""
    f = lambda x: (x.mean(0, dtype=torch.float32), x.mean(dtype=torch.float64), x.float().mean(1))
    check(f, torch.tensor([[1, 2], [2, 5]]), device=device)
    check(f, torch.full((3000, 2), 100, dtype=torch.float16), device=device)
    check_all_on_device()


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(device, reduce, include_self):
    def f(x, index, values):
        return x.scatter_reduce(1, index, values, reduce, include_self=include_self)

    index = torch.tensor([[0, 1, 1], [2, 2, 3]])
    check(f, torch.randn(4, 5), index, torch.randn(3, 4), device=device)
    check(f, torch.randn(2, 4), index, torch.randn(2, 3), device=device)
    check_all_on_device()


@pytest.mark.parametrize(("reduce", "end"), [("amax", float("-inf")), ("amin", float("inf"))])
def test_scatter_reduce_of_infinities(reduce, end):
    def f(x, index, values):
        return x.scatter_reduce(0, index, values, reduce, include_self=False)

    args = torch.zeros(3), torch.tensor([0, 2, 2]), torch.tensor([end, 1.0, end])
    with torch.no_grad():
        assert compile(f, "cpu:0")(*args).tolist() == f(*args).tolist() == [end, 0, 1]
    check_all_on_device()


def test_scatter_reduce_of_integers():
    def f(x, index, values):
        return [x.scatter_reduce(0, index, values, reduce, include_self=False)
                for reduce in ("sum", "prod", "amax", "amin")]

    check(f, torch.tensor([5, -5, 7]), torch.tensor([0, 2, 2]), torch.tensor([-9, 4, 3]))
    check_all_on_device()


def test_more_values_than_indices(device):
    def f(x, index, values):
        return x.scatter(1, index, values), x.scatter_add(1, index, values)

    check(f, torch.randn(4, 5), torch.tensor([[0, 1], [2, 3]]), torch.randn(3, 5), device=device)
    check_all_on_device()


def test_what_is_added_no_times(device):
    def f(x, a, b):
        return (torch.baddbmm(x, a, b, beta=0, alpha=2), torch.addbmm(x, a, b, beta=0),
                torch.addmm(x, a[0], b[0], beta=0), torch.addmv(x[0], a[0], b[0, :, 0], beta=0))

    with torch.no_grad():
        x, a, b = torch.full((3, 3), float("nan")), torch.randn(2, 3, 4), torch.randn(2, 4, 3)
        torch.testing.assert_close(compile(f, device)(x, a, b), f(x, a, b))
    check(lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5), torch.randn(3, 3), a, b, device=device)
    check_all_on_device()


@pytest.mark.parametrize("pool", [F.avg_pool2d, F.avg_pool3d])
def test_pools_with_a_divisor(pool):
    x = torch.randn(1, 2, *[4] * (2 if pool is F.avg_pool2d else 3))
    with pytest.warns(FallbackWarning, match="leaves out the argument 'divisor_override'"):
        check(lambda x: pool(x * 2, 2, divisor_override=3) + 1, x)
    assert (bp.torch.report().device_nodes, bp.torch.report().torch_nodes) == (2, 1)


def test_gradients_of_norms_in_eval_mode():
    """What torch keeps for gradients is empty then."""
    ours, theirs = nn.BatchNorm1d(4).eval(), nn.BatchNorm1d(4).eval()
    x = torch.randn(8, 4)
    found = compile(ours, "cpu:0")(x)
    check_all_on_device()
    with pytest.warns(FallbackWarning, match="these are gradients"):
        found.pow(3).sum().backward()
    theirs(x).pow(3).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


# --- Operators that have a form in others -----------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}], ids=["plain", "padding"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(device, mode, options):
    """The second bag is empty, and the third one has padding alone."""
    def f(weight, indices, offsets, pairs):
        return (F.embedding_bag(indices, weight, offsets, mode=mode, **options),
                F.embedding_bag(pairs, weight, mode=mode, **options),
                F.embedding_bag(indices, weight, offsets, mode=mode, include_last_offset=True))

    check(f, torch.randn(4, 3), torch.tensor([1, 2, 0, 1, 1, 3, 1]), torch.tensor([0, 3, 3, 5]),
          torch.tensor([[1, 3], [2, 0], [2, 2]]), device=device)
    check_all_on_device()


def test_bags_of_embeddings_with_weights(device):
    def f(weight, pairs, factors):
        return F.embedding_bag(pairs, weight, mode="sum", per_sample_weights=factors)

    pairs = torch.tensor([[1, 3], [2, 0]], dtype=torch.int32)
    check(f, torch.randn(4, 3), pairs, torch.randn(2, 2), device=device)
    check_all_on_device()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_modules_of_bags(device, mode):
    """Their gradients are torch's, forward part and all."""
    model = nn.EmbeddingBag(9, 4, mode=mode)
    bags = torch.randint(9, (3, 5))
    compiled = check(model, bags, device=device)
    check_all_on_device()
    with pytest.warns(FallbackWarning, match="SequenceEmpty|these are gradients"):
        compiled(bags).square().sum().backward()
    ours, model.weight.grad = model.weight.grad, None
    model(bags).square().sum().backward()
    torch.testing.assert_close(ours, model.weight.grad)


@pytest.mark.parametrize(
    ("mode", "padding"),
    [("bilinear", "zeros"), ("bilinear", "border"), ("nearest", "border"), ("bicubic", "zeros")],
)
def test_grid_sample(mode, padding):
    def f(x, grid):
        return F.grid_sample(x, grid, mode, padding, align_corners=False)

    check(f, torch.randn(2, 2, 5, 7), torch.rand(2, 4, 3, 2) * 2.6 - 1.3)
    check_all_on_device()


def test_sorts_that_are_stable(device):
    def f(x):
        return (*x.sort(stable=True, dim=1), *x.sort(stable=True, dim=0, descending=True),
                x.argsort(stable=True))

    check(f, torch.randint(3, (20, 37)), device=device)
    check_all_on_device()


def test_extremes_without_axes():
    check(lambda x: (x.amax(), x.amin(), *x.aminmax(), *x.aminmax(dim=1), x.sum().amax()),
          torch.randn(3, 4))
    check_all_on_device()


def test_extremes_without_nan():
    nan = float("nan")
    x, y = torch.tensor([1, nan, 3, nan]), torch.tensor([nan, 2, 4, nan])
    with torch.no_grad():
        for name, wanted in (("fmax", [1, 2, 4]), ("fmin", [1, 2, 3])):
            found = compile(lambda x, y: getattr(torch, name)(x, y), "cpu:0")(x, y)
            assert found[:3].tolist() == wanted and found[3].isnan()
            torch._dynamo.reset()
    check(lambda x, y: (torch.fmax(x, x.T), torch.fmin(x, y)),
          torch.tensor([[1, 2], [3, 0]]), torch.tensor([0.5, 9]))
    check_all_on_device()


def test_take_and_pools_of_any_size(device):
    check(lambda x, i: (x.take(i), F.adaptive_max_pool2d(x, (2, 3)), F.adaptive_max_pool1d(x, 3)),
          torch.randn(2, 4, 6), torch.tensor([[0, -1], [5, 11]]), device=device)
    check_all_on_device()
