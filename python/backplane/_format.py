# SPDX-License-Identifier: Apache-2.0
"""How tensors print: their values, summarised where there are many, their dtype and device."""

from __future__ import annotations

from . import _core
from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    _Rows = Union[None, str, list["_Rows"]]  # None stands for what is left out

_MOST_ELEMENTS = 1000  # more are summarised
_EDGE = 3  # of a long axis, so many at each end


def _number(value: Any, digits: int) -> str:
    if isinstance(value, bool) or isinstance(value, int):
        return str(value)
    if isinstance(value, complex):
        imaginary = _number(value.imag, digits)
        sign = "" if imaginary.startswith("-") else "+"
        return f"{_number(value.real, digits)}{sign}{imaginary}j"
    text = format(value, f".{digits}g")
    return text if any(mark in text for mark in ".en") else text + "."


def _rows(tensor: _core.Tensor, digits: int, summarise: bool) -> _Rows:
    """Nested lists of texts."""
    if tensor.ndim == 0:
        return _number(tensor.item(), digits)
    length = tensor.shape[0]
    is_long = summarise and length > 2 * _EDGE
    if tensor.ndim == 1:
        if not is_long:
            return [_number(value, digits) for value in tensor.tolist()]
        first = [_number(value, digits) for value in tensor[:_EDGE].tolist()]
        last = [_number(value, digits) for value in tensor[-_EDGE:].tolist()]
        return [*first, None, *last]
    if not is_long:
        return [_rows(tensor[i], digits, summarise) for i in range(length)]
    above = [_rows(tensor[i], digits, summarise) for i in range(_EDGE)]
    below = [_rows(tensor[i], digits, summarise) for i in range(length - _EDGE, length)]
    return [*above, None, *below]


def _width(rows: _Rows) -> int:
    if isinstance(rows, list):
        return max((_width(row) for row in rows), default=0)
    return 0 if rows is None else len(rows)


def _join(rows: _Rows, width: int, indent: int) -> str:
    if rows is None:
        return "..."
    if not isinstance(rows, list):
        return rows.rjust(width)
    if rows and isinstance(next(row for row in rows if row is not None), list):
        lines = [_join(row, width, indent + 1) for row in rows]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    return "[" + ", ".join(_join(row, width, indent) for row in rows) + "]"


def describe(tensor: _core.Tensor) -> str:
    """repr of a tensor. Never raises for a device that is gone: then it says why."""
    tail = f"dtype={tensor.dtype}, device='{tensor.device}'"
    if tensor.size == 0:
        return f"tensor([], shape={tensor.shape}, {tail})"
    digits = 8 if tensor.dtype.itemsize > 4 and "64" in str(tensor.dtype) else 6
    try:
        rows = _rows(tensor, digits, tensor.size > _MOST_ELEMENTS)
    except Error as error:
        return f"<tensor of shape {tensor.shape}, {tail}: {error.status}: {error}>"
    start = "tensor("
    return f"{start}{_join(rows, _width(rows), len(start))}, {tail})"
