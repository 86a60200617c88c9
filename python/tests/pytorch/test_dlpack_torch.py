# SPDX-License-Identifier: Apache-2.0
"""Memory that torch and tensors share, both ways."""

import gc

import pytest
import torch

import backplane as bp

SHARED = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
          torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
          torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8).tolist()


@pytest.mark.parametrize("dtype", SHARED)
def test_both_ways_without_a_copy(dtype):
    t = torch.arange(12).reshape(3, 4).to(dtype)
    x = bp.from_dlpack(t)
    assert x.dtype == str(dtype).removeprefix("torch.") and x.shape == (3, 4)
    back = torch.from_dlpack(x)
    assert back.dtype == dtype and back.data_ptr() == t.data_ptr()
    assert bits(back) == bits(t)
    t[1, 2] = 0
    assert bits(back) == bits(t)
    moved = torch.from_dlpack(x.T[1:])
    assert moved.stride() == (1, 4) and moved.data_ptr() == t.data_ptr() + t.element_size()
    assert bits(moved) == bits(t.t()[1:])


@pytest.mark.parametrize(
    "view",
    [lambda t: t[::2, 1::3], lambda t: t.t(), lambda t: t[2], lambda t: t[1:1], lambda t: t[0, 0],
     lambda t: t[:1].expand(3, 8)],
    ids=["steps", "transposed", "row", "empty", "scalar", "expanded"],
)
def test_views_of_torch(view):
    t = view(torch.randn(6, 8))
    x = bp.from_dlpack(t)
    assert x.shape == tuple(t.shape) and x.tolist() == t.tolist()
    assert (x + x).tolist() == (t + t).tolist()


def test_writes_show_on_both_sides():
    t = torch.zeros(4)
    x = bp.from_dlpack(t)
    x[1] = 5
    t[2] = 6
    assert t.tolist() == x.tolist() == [0, 5, 6, 0]
    back = torch.from_dlpack(x)
    back.mul_(2)
    assert t.tolist() == x.tolist() == [0, 10, 12, 0]


def test_from_devices_with_memory_of_their_own(device):
    x = bp.asarray([[1.5, 2.5], [3.5, 4.5]], device=device) * 2
    capsule = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    assert torch.from_dlpack(capsule).tolist() == [[3, 5], [7, 9]]
    assert bp.from_dlpack(torch.ones(2, 2).t(), device=device).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("dtype", SHARED)
def test_lists_of_torch(dtype):
    t = torch.arange(6).reshape(2, 3).to(dtype)
    found = bp.asarray([t.t(), t.t()])
    assert found.dtype == str(dtype).removeprefix("torch.") and found.shape == (2, 3, 2)
    assert bits(torch.from_dlpack(found)) == bits(torch.stack([t.t(), t.t()]))
    assert bp.asarray([t[0, 0], t[1, 1]], device="npu:0").dtype == found.dtype


def test_what_torch_does_not_lend():
    with pytest.raises(BufferError, match="requires? grad"):
        bp.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="conjugate"):
        bp.from_dlpack(torch.ones(2, dtype=torch.complex64).conj())
    with pytest.raises((BufferError, RuntimeError)):
        bp.from_dlpack(torch.ones(2).to_sparse())


def test_either_side_may_go_first():
    t = torch.full((1000,), 3.0)
    x = bp.from_dlpack(t)
    back = torch.from_dlpack(x + 1)
    del t
    gc.collect()
    assert x.tolist() == [3.0] * 1000
    del x
    gc.collect()
    assert back.eq(4).all()
    with bp.Runtime() as runtime:
        kept = torch.from_dlpack(bp.ones(1 << 18, device=runtime.device("cpu:0")))
    gc.collect()
    assert kept.sum() == 1 << 18
