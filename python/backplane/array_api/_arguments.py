# SPDX-License-Identifier: Apache-2.0
"""What the functions ask of their arguments, and the words where it is not so."""

import builtins
import operator
from typing import Any, Protocol, TypeAlias

from .. import _core
from .._core import Dtype, Tensor
from .._errors import InvalidArgumentError
from . import _kinds


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


def plain(value: Any) -> Any:
    """A NumPy scalar or 0-d array stands for its number, as beside the operators of Tensor."""
    if isinstance(value, (Tensor, builtins.bool, int, float, complex)):
        return value
    is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if is_scalar else value


def integer(function: str, name: str, value: Any) -> int:
    """bool is none: a flag in the place of a number is a mistake."""
    if isinstance(value, Tensor) and value.ndim != 0 or isinstance(value, bool):
        raise TypeError(f"{function}: argument '{name}': expected an integer, found {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{function}: argument '{name}': expected an integer, found {type(value).__name__}"
        ) from None


def count(function: str, name: str, value: Any) -> int:
    number = integer(function, name, value)
    if number < 0:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected 0 or more, found {number}"
        )
    return number


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


def flag(function: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(
            f"{function}: argument '{name}': expected a bool, found {type(value).__name__}"
        )
    return value


def choice(function: str, name: str, value: Any, words: tuple[str, ...]) -> str:
    if value not in words:
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
