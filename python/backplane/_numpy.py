# SPDX-License-Identifier: Apache-2.0
"""Tensors as NumPy arrays. The one place that imports NumPy, when first asked for an array."""

from __future__ import annotations

from . import _core
from ._errors import InvalidArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


_dtypes: dict[_core.Dtype, Any] = {}  # NumPy's, by ours


def _numpy_dtype(numpy: Any, dtype: _core.Dtype) -> Any:
    """NumPy's own of a dtype; ml_dtypes has those that NumPy lacks."""
    found = _dtypes.get(dtype)
    if found is None:
        found = _dtypes[dtype] = _find_dtype(numpy, dtype.name)
    return found


def _find_dtype(numpy: Any, name: str) -> Any:
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"numpy: NumPy has no {name}: install ml_dtypes, or convert with astype('float32')"
        ) from None
    return numpy.dtype(getattr(ml_dtypes, name))


def to_numpy(tensor: _core.Tensor, copy: bool | None = None) -> NDArray[Any]:
    """See Tensor.numpy."""
    import numpy

    dtype = _numpy_dtype(numpy, tensor.dtype)
    if copy is not True and _core._is_host_memory(tensor):
        array = numpy.asarray(_core._HostBuffer(tensor))
        return array if array.dtype == dtype else array.view(dtype)
    if copy is False:
        raise InvalidArgumentError(
            f"numpy: argument 'copy' is False, and {tensor.device.name} has memory of its own"
        )
    array = numpy.empty(tensor.shape, dtype)
    _core._read_into(tensor, array if dtype.isbuiltin == 1 else array.view(f"u{dtype.itemsize}"))
    return array


def to_array(tensor: _core.Tensor, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """See Tensor.__array__: NumPy's protocol."""
    array = to_numpy(tensor, copy)
    if dtype is None or array.dtype == dtype:
        return array
    if copy is False:
        raise InvalidArgumentError(
            f"__array__: argument 'copy' is False, and {dtype} of {tensor.dtype} needs a copy"
        )
    return array.astype(dtype)
