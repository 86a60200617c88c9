# SPDX-License-Identifier: Apache-2.0
"""What pickles of tensors and dtypes call: plain functions, which pickle finds by name."""

from __future__ import annotations

from . import _core


def tensor(values: bytes, dtype: str, shape: tuple[int, ...], device: str) -> _core.Tensor:
    """The tensor on the device of that name of the default Runtime."""
    made: _core.Tensor = _core._rebuild(values, dtype, shape, device)
    return made


def dtype(name: str) -> _core.Dtype:
    """The dtype of that name."""
    return _core.dtype(name)
