# SPDX-License-Identifier: Apache-2.0
"""What torch's users rely on: any arguments and results, writes, views, weights that change."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn

import backplane as bp
import backplane.torch
from checks import check, check_all_on_device, compile


def test_arguments_and_results_of_any_structure(device):
    def f(x, pair, *, scale, extra=None, flag=True):
        a, b = pair
        y = x * scale + a
        return {"sum": y, "more": (b - y, [y.mean()]), "n": x.shape[0], "text": "t", "none": None,
                "flag": flag and extra is None}

    compiled = check(f, torch.randn(2, 3), (torch.randn(3), torch.randn(2, 1)), device=device,
                     scale=torch.tensor(2.0))
    check(f, torch.randn(4, 3), (torch.randn(3), torch.randn(4, 1)), device=device,
          compiled=compiled, scale=torch.tensor(2.0))
    check_all_on_device()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16,
                                   torch.int64, torch.int32, torch.int8, torch.uint8])
def test_dtypes(device, dtype):
    x = (torch.randn(4, 5) * 9).to(dtype)
    check(lambda a, b: (a + b, a * b, a.amax(1), a == b), x, x.flip(0), device=device)
    check_all_on_device()


def test_mixed_dtypes_and_bools():
    def f(x, i, mask):
        return torch.where(mask, x * i, -x), i // 2 + mask, x.to(torch.float16), x[i.clamp(0, 2)]

    check(f, torch.randn(3, 3), torch.tensor([5, -7, 2]), torch.tensor([True, False, True]))
    check_all_on_device()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_in_half_precision(device, dtype):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(dtype).eval()
    check(model, torch.randn(3, 8, dtype=dtype), device=device)
    check_all_on_device()


def test_inputs_of_any_layout(device):
    def f(a, b, c, d, e):
        return a + 1, b.sum(0), c * 2, d + 0.5, e * 3

    base = torch.randn(6, 8)
    check(f, base.t(), base[::2, 1::3], torch.randn(3, 1).expand(3, 4),
          torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.tensor(3.0),
          device=device)
    check_all_on_device()


def test_outputs_have_the_strides_of_torch():
    def f(x):
        y = x + 1
        return y.t(), y.permute(1, 0).clone(), y.view(-1), y[1], y.flip(0), y.flip(0, 1)[1:]

    check(f, torch.randn(3, 4))
    check(nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
          torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last))
    check_all_on_device()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), ()])
def test_empty_and_scalar(shape):
    check(lambda x: (x * 2, x.sum()), torch.randn(shape))
    check_all_on_device()


def test_numbers_as_arguments():
    """torch makes a graph of its own for a number first, then one for any."""
    def f(x, n):
        return x * n, torch.zeros(n) + x.sum(), n

    compiled = check(f, torch.randn(4), 2)
    for n in (3, 5, 9):
        check(f, torch.randn(4), n, compiled=compiled)
    check_all_on_device()


def test_sizes_that_are_computed():
    def f(x):
        return x.reshape(x.shape[0] * 2, -1).sum(1), x.shape[0] * 2 + 1, x[: x.shape[0] // 2]

    compiled = check(f, torch.randn(4, 6))
    for n in (6, 8, 10):
        check(f, torch.randn(n, 6), compiled=compiled)
    check_all_on_device()


# --- Writes and views -------------------------------------------------------------------------


def test_writes_into_inputs(device):
    def f(x, y):
        x.add_(1)
        y[0] = x[0]
        return x * y

    check(f, torch.randn(2, 3), torch.randn(2, 3), device=device)
    check_all_on_device()


def test_views_of_inputs_are_views():
    def f(x):
        return x.view(-1), x[0], x, x.t() + 0

    compiled = compile(f, "cpu:0")
    x = torch.randn(2, 3)
    flat, first, same, apart = compiled(x)
    x[0, 0] = 42
    assert flat[0] == 42 and first[0] == 42 and same is x and apart[0, 0] != 42


def test_results_share_no_memory_by_accident():
    """A session may answer the memory of an input or a weight, or one memory twice."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x.clone(), x.clone(), x + 0, self.weight * 2, self.weight.clone()

    net = Net().eval()
    compiled = compile(net, "cpu:0")
    x = torch.zeros(3)
    with torch.no_grad():
        for _ in range(3):
            results = compiled(x)
            values = [r.tolist() for r in results]
            assert values == [[0] * 3] * 3 + [[2] * 3, [1] * 3]
            for number, result in enumerate(results):
                result.fill_(10 + number)
            assert [r[0].item() for r in results] == [10, 11, 12, 13, 14]
            assert x.tolist() == [0] * 3 and net.weight.tolist() == [1] * 3


def test_host_memory_is_shared():
    """On cpu:0 nothing is copied on the way in or out."""
    compiled = compile(lambda x: x + 1, "cpu:0")
    before = bp.device("cpu:0").counters
    x = torch.zeros(1 << 20)
    y = compiled(x)
    after = bp.device("cpu:0").counters
    assert y[-1] == 1
    for name in ("copy_in_count", "copy_out_count", "materialise_count", "output_copy_count"):
        assert after[name] == before[name], name


def test_outputs_outlive_everything():
    compiled = compile(lambda x: x * 2, "cpu:0")
    y = compiled(torch.full((1 << 18,), 3.0))
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert y.eq(6).all()


# --- Weights ----------------------------------------------------------------------------------


def test_weights_move_once(device):
    model = nn.Linear(64, 64).eval()
    compiled = compile(model, device)
    x = torch.randn(2, 64)
    with torch.no_grad():
        compiled(x)
        copies = bp.device(device).counters["copy_in_count"]
        for _ in range(5):
            compiled(x)
    assert bp.device(device).counters["copy_in_count"] - copies <= 5  # the inputs
    assert bp.torch.report().sessions == 1


def test_changed_weights_are_seen(device):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    compiled = compile(model, device)
    x = torch.randn(3, 4)
    changes = [
        lambda: model[0].weight.mul_(2),
        lambda: model[1].running_mean.add_(1),
        lambda: setattr(model[0], "bias", nn.Parameter(torch.randn(4))),
        lambda: setattr(model[0].weight, "data", torch.randn(4, 4)),
        lambda: model.load_state_dict({k: v * 3 for k, v in model.state_dict().items()}),
    ]
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        for change in changes:
            change()
            torch.testing.assert_close(compiled(x), model(x))
    assert bp.torch.report().torch_nodes == 0


def test_new_memory_at_an_old_address():
    """What was given back may be given out again: here, by taking the same buffer twice."""
    buffer = bytearray(64 * 64 * 4)
    weights = lambda: torch.frombuffer(buffer, dtype=torch.float32).view(64, 64)
    model = nn.Linear(64, 64).eval()
    model.weight.data = weights()
    compiled = compile(model, "cpu:0")
    x = torch.randn(2, 64)
    address = model.weight.data_ptr()
    with torch.no_grad():
        compiled(x)
        for _ in range(3):
            model.weight.data = torch.zeros(64, 64)
            weights().normal_()
            model.weight.data = weights()
            assert model.weight.data_ptr() == address
            torch.testing.assert_close(compiled(x), model(x))
    assert bp.torch.report().sessions == 4


def test_other_parts_of_one_memory():
    model = nn.Linear(4, 4, bias=False).eval()
    pool = torch.randn(3, 4, 4)
    compiled = compile(model, "cpu:0")
    x = torch.randn(2, 4)
    with torch.no_grad():
        for part in (pool[0], pool[1], pool[2].t(), pool[0]):
            model.weight.data = part
            torch.testing.assert_close(compiled(x), model(x))


def test_writes_that_torch_does_not_see():
    model = nn.Linear(4, 4).eval()
    compiled = compile(model, "cpu:0")
    x = torch.randn(3, 4)
    with torch.no_grad():
        compiled(x)
        model.weight.data.add_(1)
        bp.torch.forget_weights()
        torch.testing.assert_close(compiled(x), model(x))


def test_weights_are_not_kept_alive():
    model = nn.Linear(4, 4).eval()
    compiled = compile(model, "cpu:0")
    with torch.no_grad():
        compiled(torch.randn(2, 4))
    alive = weakref.ref(model.weight)
    model.weight = nn.Parameter(torch.zeros(4, 4))
    gc.collect()
    assert alive() is None


def test_inference_tensors():
    with torch.inference_mode():
        model = nn.Linear(4, 3).eval()
        compiled = compile(model, "cpu:0")
        for _ in range(2):
            x = torch.randn(2, 4)
            torch.testing.assert_close(compiled(x), model(x))
            model.weight.add_(1)  # such tensors have no version counter
    check_all_on_device()


def test_buffers_that_the_model_writes(device):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen += x.sum(0)
            return x + self.seen

    model, wanted = Counter(), Counter()
    compiled = compile(model, device)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(2, 3)
            torch.testing.assert_close(compiled(x), wanted(x))
            torch.testing.assert_close(model.seen, wanted.seen)
    assert bp.torch.report().sessions == 1
    check_all_on_device()


def test_constants_of_the_graph():
    table = torch.arange(4.0)
    check(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]) * table, torch.randn(2, 4))
    check(lambda x: x * torch.from_numpy(np.arange(4.0)), torch.randn(4))
