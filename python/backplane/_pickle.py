# SPDX-License-Identifier: Apache-2.0
"""What pickles of tensors and dtypes call: plain functions, which pickle finds by name."""

from . import _core


def tensor(values, dtype, shape, device):
    """The tensor on the device of that name of the default Runtime."""
    return _core._rebuild(values, dtype, shape, device)


def dtype(name):
    """The dtype of that name."""
    return _core.dtype(name)
