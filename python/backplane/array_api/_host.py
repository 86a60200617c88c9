# SPDX-License-Identifier: Apache-2.0
"""What NumPy computes on the host for every device: its arrays go there and back, in the tensor's
dtype. On devices with memory of their own that shows in copy_out_count and copy_in_count of their
counters. The one place of the namespace that imports NumPy, when such a function is called."""

from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor
from .._errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError


def numpy(function: str) -> Any:
    try:
        import numpy
    except ImportError:
        raise UnsupportedError(
            f"{function}: NumPy computes this on the host, and it is not installed"
        ) from None
    return numpy


def compute(function: str, run: Callable[..., Any], *tensors: Tensor) -> Any:
    """run(numpy, *arrays): an array, or several; as tensors on the device of the first tensor."""
    module = numpy(function)
    device = tensors[0].device
    for i, x in enumerate(tensors):
        if x.device != device:
            raise InvalidArgumentError(
                f"{function}: argument x1 is on {device}, x{i + 1} on {x.device}; move one with "
                "to_device()"
            )
    try:
        with module.errstate(all="ignore"):  # as on devices, infinities and NaN are answers
            found = run(module, *(x.numpy() for x in tensors))
    except ValueError as error:  # LinAlgError is one
        raise InvalidArgumentError(f"{function}: {error}") from error
    except MemoryError as error:
        raise OutOfMemoryError(f"{function}: {error}") from error
    if isinstance(found, tuple):
        return tuple(_core.asarray(module.asarray(one), device=device) for one in found)
    return _core.asarray(module.asarray(found), device=device)
