# SPDX-License-Identifier: Apache-2.0
"""Inspection: what the namespace can do."""

from typing import Any

from .. import _core
from .._core import Device, Dtype
from . import _kinds, _views

__all__ = ["__array_namespace_info__"]

_DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def _need_device(function: str, device: Any) -> None:
    """It answers the same for all of them, but for none that is not there."""
    if isinstance(device, str):
        _core.device(device)
    elif device is not None and not isinstance(device, Device):
        raise TypeError(
            f"{function}: argument 'device': expected a Device, found {type(device).__name__}"
        )


class Info:
    """What __array_namespace_info__() answers."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _views.MAX_RANK,
        }

    def default_device(self) -> Device:
        """Where tensors are made unless told otherwise."""
        return _core.default_runtime().default_device

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, Dtype]:
        """The same on every device. Python floats become float32, as in asarray()."""
        _need_device("default_dtypes", device)
        return {
            "real floating": _core.float32,
            "complex floating": _core.complex64,
            "integral": _core.int64,
            "indexing": _core.int64,
        }

    def devices(self) -> tuple[Device, ...]:
        """All devices of the default Runtime."""
        return tuple(_core.devices())

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Dtype]:
        """The dtypes of the standard, or those of kinds, by name; the same on every device."""
        _need_device("dtypes", device)
        found = {name: getattr(_core, name) for name in _DTYPES}
        if kind is None:
            return found
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for one in kinds:
            if one not in _kinds.BY_NAME:
                raise ValueError(
                    f"dtypes: argument 'kind': expected some of {list(_kinds.BY_NAME)}, "
                    f"found {one!r}"
                )
        wanted = frozenset[Dtype]().union(*(_kinds.BY_NAME[one].dtypes for one in kinds))
        return {name: dtype for name, dtype in found.items() if dtype in wanted}


def __array_namespace_info__() -> Info:
    """Functions that say what the namespace can do."""
    return Info()
