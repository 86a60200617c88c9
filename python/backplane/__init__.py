# SPDX-License-Identifier: Apache-2.0
"""Backplane: tensors and operators on any device that a plugin brings.

import backplane as bp
x = bp.asarray([[1.0, 2.0], [3.0, 4.0]], device="npu:0")
y = x @ x + 1
print(y.numpy())
"""

from . import _core, _methods
from ._core import (
    Cancel,
    Device,
    Dtype,
    Runtime,
    Session,
    Stream,
    Tensor,
    asarray,
    current_stream,
    default_runtime,
    device,
    devices,
    dtype,
    empty,
    empty_like,
    from_dlpack,
    full,
    full_like,
    load,
    ones,
    ones_like,
    to_dlpack,
    zeros,
    zeros_like,
)
from ._core import (
    bfloat16,
    bool as bool,  # not in a star import: that must not hide Python's own
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._errors import (
    CancelledError,
    Error,
    InvalidArgumentError,
    MissingFileError,
    OutOfMemoryError,
    TimedOutError,
    UnsupportedError,
)

__version__ = _core.__version__
_methods.attach()

TYPE_CHECKING = False  # what type checkers take for true; the module typing takes time to import
if TYPE_CHECKING:
    from . import array_api, ops
    from ._session import Node, Placement, TensorInfo
else:
    # What is imported when first asked for: modules, and names in a module.
    _LATER = ("array_api", "ops")
    _OF_SESSIONS = ("Node", "Placement", "TensorInfo")

    def __getattr__(name):
        import importlib

        if name in _LATER:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _OF_SESSIONS:
            return getattr(importlib.import_module(f"{__name__}._session"), name)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


# Written out for type checkers.
__all__ = [
    "Cancel",
    "CancelledError",
    "Device",
    "Dtype",
    "Error",
    "InvalidArgumentError",
    "MissingFileError",
    "Node",
    "OutOfMemoryError",
    "Placement",
    "Runtime",
    "Session",
    "Stream",
    "Tensor",
    "TensorInfo",
    "TimedOutError",
    "UnsupportedError",
    "array_api",
    "asarray",
    "bfloat16",
    "complex128",
    "complex64",
    "current_stream",
    "default_runtime",
    "device",
    "devices",
    "dtype",
    "empty",
    "empty_like",
    "float16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "from_dlpack",
    "full",
    "full_like",
    "int16",
    "int32",
    "int64",
    "int8",
    "load",
    "ones",
    "ones_like",
    "ops",
    "to_dlpack",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "zeros",
    "zeros_like",
]
