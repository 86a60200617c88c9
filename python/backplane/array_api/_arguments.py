# SPDX-License-Identifier: Apache-2.0
"""What the functions ask of their arguments, and the words where it is not so."""

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from .. import _core
from .._core import Device, Dtype, Tensor
from .._errors import Error, InvalidArgumentError
from . import _kinds, _views


class _Named(Protocol):
    """As NumPy's dtypes are."""

    @property
    def name(self) -> str: ...


Scalar: TypeAlias = builtins.bool | int | float | complex
DtypeLike: TypeAlias = Dtype | str | type | _Named


class AxisError(InvalidArgumentError, IndexError):
    """An axis that the tensor does not have."""


def tensor(function: str, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}: argument '{name}': expected a Tensor, found {type(value).__name__}"
        )
    return value


def tensor_of_kind(function: str, name: str, value: Any, kind: _kinds.Kind) -> Tensor:
    x = tensor(function, name, value)
    of_kind(function, name, x.dtype, kind)
    return x


def of_kind(function: str, name: str, dtype: Dtype, kind: _kinds.Kind) -> None:
    if dtype not in kind.dtypes:
        article = "an" if kind.name[0] in "aeiou" else "a"
        raise TypeError(
            f"{function}: argument '{name}': expected {article} {kind.name} dtype, found {dtype}"
        )


def dtype(function: str, value: Any, name: str = "dtype") -> Dtype:
    """What asarray() takes as a dtype, but None."""
    return value if isinstance(value, Dtype) else _core._dtype_of(value, function, name)


def device(function: str, value: Any) -> Device | None:
    """A device, by its name too; None where none is asked for."""
    if value is None or isinstance(value, Device):
        return value
    if not isinstance(value, str):
        raise TypeError(
            f"{function}: argument 'device': expected a Device or its name, "
            f"found {type(value).__name__}"
        )
    try:
        return _core.device(value)
    except Error as error:
        raise InvalidArgumentError(f"{function}: argument 'device': {error}") from None


def plain(value: Any) -> Any:
    """A NumPy scalar or 0-d array stands for its number, as beside the operators of Tensor."""
    if isinstance(value, (Tensor, builtins.bool, int, float, complex)):
        return value
    is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if is_scalar else value


def in_range(function: str, name: str, value: Any, dtype: Dtype) -> None:
    """A Python integer is one that the dtype holds, or beside floats rounds."""
    if isinstance(value, int):
        _core._check_number(f"{function}: argument '{name}': ", value, dtype)


def operand(function: str, name: str, value: Any) -> Any:
    """A Tensor or a Python number, which a NumPy scalar stands for too."""
    if isinstance(value, Tensor):
        return value
    value = plain(value)
    if not isinstance(value, (Tensor, builtins.bool, int, float, complex)):
        raise TypeError(
            f"{function}: argument '{name}': expected a Tensor or a number, "
            f"found {type(value).__name__}"
        )
    return value


def number(function: str, name: str, value: Any, *kinds: type) -> Any:
    """A Python number of these types, or one that a tensor of no dimensions holds; bool is none."""
    found = plain(value)
    if isinstance(found, Tensor) and found.ndim == 0:
        found = found.item()
    if not isinstance(found, kinds or (int, float)) or isinstance(found, builtins.bool):
        raise TypeError(
            f"{function}: argument '{name}': expected a number, found {type(value).__name__}"
        )
    in_range(function, name, found, _core.float64)
    return found


def integer(function: str, name: str, value: Any) -> int:
    """bool is none: a flag in the place of a number is a mistake."""
    is_index = hasattr(value, "__index__") and not isinstance(value, builtins.bool)
    if isinstance(value, Tensor):
        is_index = value.ndim == 0 and value.dtype in _kinds.INTEGRAL.dtypes
    try:
        if is_index:
            return operator.index(value)
    except TypeError:  # of an array
        pass
    found = repr(value) if isinstance(value, builtins.bool) else type(value).__name__
    raise TypeError(f"{function}: argument '{name}': expected an integer, found {found}")


def count(function: str, name: str, value: Any) -> int:
    """At most what 64 bits hold."""
    number = integer(function, name, value)
    if not 0 <= number < 2**63:
        expected = "0 or more" if number < 0 else "less than 2^63"
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected {expected}, found {number}"
        )
    return number


def shape(function: str, value: Any) -> tuple[int, ...]:
    """Of a new tensor; one integer is that of one dimension."""
    given = value if isinstance(value, (tuple, list)) else (value,)
    rank(function, "shape", len(given))
    sizes = tuple(count(function, "shape", size) for size in given)
    elements(function, "shape", sizes)
    return sizes


def elements(function: str, name: str, sizes: Sequence[int]) -> None:
    """So many as a tensor may have: their bytes, and strides where there are none, have 64 bits."""
    most = 2**63 if 0 in sizes else 2**59
    if math.prod(size or 1 for size in sizes) >= most:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': {tuple(sizes)} are too many elements"
        )


def integers(function: str, name: str, value: Any) -> tuple[int, ...]:
    """One integer, or a tuple or list of them."""
    if isinstance(value, (tuple, list)):
        return tuple(integer(function, name, one) for one in value)
    return (integer(function, name, value),)


def axis(function: str, value: Any, ndim: int, name: str = "axis") -> int:
    number = integer(function, name, value)
    if not -ndim <= number < ndim:
        raise AxisError(f"{function}: argument '{name}': {number} is no axis of {ndim} dimensions")
    return number + ndim if number < 0 else number


def axis_from_end(function: str, value: Any, x1: Tensor, x2: Tensor) -> int:
    """Negative: one that both have."""
    smaller = min(x1.ndim, x2.ndim)
    if smaller == 0:
        name = "x1" if x1.ndim == 0 else "x2"
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected at least one dimension"
        )
    number = integer(function, "axis", value)
    if not -smaller <= number < 0:
        raise AxisError(
            f"{function}: argument 'axis': expected -{smaller} to -1, found {number}"
        )
    return number


def axes(function: str, value: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """None: all of them."""
    if value is None:
        return tuple(range(ndim))
    found = tuple(axis(function, one, ndim, name) for one in integers(function, name, value))
    if len(set(found)) != len(found):
        raise InvalidArgumentError(f"{function}: argument '{name}': an axis twice in {value}")
    return found


def axis_or_only(function: str, value: Any, x: Tensor) -> int:
    """An axis that may be left out where there is one."""
    if value is None:
        if x.ndim != 1:
            raise InvalidArgumentError(
                f"{function}: argument 'axis': needed for {x.ndim} dimensions, found None"
            )
        return 0
    return axis(function, value, x.ndim)


def flag(function: str, name: str, value: Any, expected: str = "a bool") -> bool:
    """A bool, or what holds one: a NumPy scalar, a tensor of no dimensions."""
    if isinstance(value, builtins.bool):
        return value
    found = plain(value)
    if isinstance(found, Tensor) and found.ndim == 0:
        found = found.item()
    if not isinstance(found, bool):
        raise TypeError(
            f"{function}: argument '{name}': expected {expected}, found {type(value).__name__}"
        )
    return found


def flag_or_none(function: str, name: str, value: Any) -> bool | None:
    return None if value is None else flag(function, name, value, "a bool or None")


def rank(function: str, name: str, found: int) -> None:
    if found > _views.MAX_RANK:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected at most {_views.MAX_RANK} dimensions, "
            f"found {found}"
        )


def fit(function: str, **operands: Any) -> None:
    """The shapes of those that are tensors broadcast."""
    found: tuple[int, ...] | None = None
    for name, x in operands.items():
        if not isinstance(x, Tensor) or x.shape == found:
            continue
        found = x.shape if found is None else broadcast(function, name, found, x.shape)


def broadcast(
    function: str, name: str, first: tuple[int, ...], second: tuple[int, ...]
) -> tuple[int, ...]:
    """What two shapes broadcast to; `name` is of the second."""
    length = max(len(first), len(second))
    pairs = zip((1,) * (length - len(first)) + first, (1,) * (length - len(second)) + second)
    found = []
    for a, b in pairs:
        if b < 0 or a != b and 1 not in (a, b):
            raise InvalidArgumentError(
                f"{function}: argument '{name}': {second} does not broadcast with {first}"
            )
        found.append(b if a == 1 else a)
    return tuple(found)


def on_one_device(function: str, **operands: Any) -> None:
    """Those of them that are tensors."""
    first = ""
    for name, x in operands.items():
        if not isinstance(x, Tensor):
            continue
        if first and x.device != operands[first].device:
            raise InvalidArgumentError(
                f"{function}: argument '{first}' is on {operands[first].device}, argument "
                f"'{name}' on {x.device}; move one with to_device()"
            )
        first = first or name


def choice(function: str, name: str, value: Any, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected {' or '.join(map(repr, words))}, "
            f"found {value!r}"
        )
    return str(value)


def sequence(function: str, name: str, value: Any) -> tuple[Tensor, ...]:
    if not isinstance(value, (tuple, list)):
        raise TypeError(
            f"{function}: argument '{name}': expected a tuple or list of tensors, "
            f"found {type(value).__name__}"
        )
    if not value:
        raise InvalidArgumentError(f"{function}: argument '{name}': expected at least one tensor")
    return tuple(tensor(function, f"{name}[{i}]", one) for i, one in enumerate(value))
