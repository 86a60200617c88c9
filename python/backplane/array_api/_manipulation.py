# SPDX-License-Identifier: Apache-2.0
"""Manipulation functions.

Views of their argument's memory: broadcast_arrays, broadcast_to, expand_dims, flip, moveaxis,
permute_dims, squeeze, unstack, and reshape where the strides allow it. What a broadcast repeats
shares its memory, and cannot be assigned to.
"""

import math

from .. import _core, ops
from .._core import Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _kinds, _views

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def _sizes(function: str, name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)):
        raise TypeError(
            f"{function}: argument '{name}': expected a tuple, found {type(value).__name__}"
        )
    return tuple(_arguments.integer(function, name, size) for size in value)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of them broadcast to."""
    found: tuple[int, ...] = ()
    for i, given in enumerate(shapes):
        shape = _sizes("broadcast_shapes", f"shapes[{i}]", given)
        found = _arguments.broadcast("broadcast_shapes", f"shapes[{i}]", found, shape)
    return found


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Views of all of them, of one shape."""
    found = [_arguments.tensor("broadcast_arrays", f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    shape: tuple[int, ...] = ()
    for i, x in enumerate(found):
        shape = _arguments.broadcast("broadcast_arrays", f"arrays[{i}]", shape, x.shape)
        _arguments.elements("broadcast_arrays", f"arrays[{i}]", shape)
    return tuple(_views.broadcast(x, shape) for x in found)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """A view of that shape."""
    x = _arguments.tensor("broadcast_to", "x", x)
    wanted = _sizes("broadcast_to", "shape", shape)
    _arguments.rank("broadcast_to", "shape", len(wanted))
    missing = len(wanted) - x.ndim
    if (
        missing < 0
        or any(size not in (1, place) for size, place in zip(x.shape, wanted[missing:]))
        or min(wanted, default=0) < 0
    ):
        raise InvalidArgumentError(
            f"broadcast_to: argument 'shape': {x.shape} does not broadcast to {wanted}"
        )
    _arguments.elements("broadcast_to", "shape", wanted)
    return _views.broadcast(x, wanted)


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors behind each other along an axis; None: their elements behind each other."""
    parts = _arguments.sequence("concat", "arrays", arrays)
    if axis is None:
        parts, place = tuple(_views.flat(x) for x in parts), 0
    else:
        place = _arguments.axis("concat", axis, parts[0].ndim)
    _need_alike(parts, place)
    return joined("concat", parts, place)


def _need_alike(parts: tuple[Tensor, ...], axis: int) -> None:
    def rest(x: Tensor) -> tuple[int, ...]:
        return x.shape[:axis] + x.shape[axis + 1 :]

    for i, x in enumerate(parts):
        if x.ndim != parts[0].ndim or rest(x) != rest(parts[0]):
            raise InvalidArgumentError(
                f"concat: argument 'arrays[{i}]': expected the shape {parts[0].shape} but for "
                f"axis {axis}, found {x.shape}"
            )


def joined(function: str, parts: tuple[Tensor, ...], axis: int) -> Tensor:
    """concat of tensors of fitting shapes."""
    _arguments.on_one_device(function, **{f"arrays[{i}]": x for i, x in enumerate(parts)})
    dtype = _kinds.result_dtype(function, *parts)
    same = [_complex.cast(x, dtype) for x in parts]
    if len(same) == 1:
        return same[0].copy()
    if dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.each_part(lambda *both: ops.concat(both, axis), *same)
    return ops.concat(same, axis)


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    parts = _arguments.sequence("stack", "arrays", arrays)
    _arguments.rank("stack", "arrays", parts[0].ndim + 1)
    place = _arguments.axis("stack", axis, parts[0].ndim + 1)
    for i, x in enumerate(parts):
        if x.shape != parts[0].shape:
            raise InvalidArgumentError(
                f"stack: argument 'arrays[{i}]': expected the shape {parts[0].shape}, "
                f"found {x.shape}"
            )
    return joined("stack", tuple(_views.inserted(x, [place]) for x in parts), place)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views of the positions along an axis."""
    x = _arguments.tensor("unstack", "x", x)
    place = _arguments.axis("unstack", axis, x.ndim)
    return tuple(_views.taken(x, place, i) for i in range(x.shape[place]))


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view with further axes of size 1."""
    x = _arguments.tensor("expand_dims", "x", x)
    places = _arguments.integers("expand_dims", "axis", axis)
    _arguments.rank("expand_dims", "axis", x.ndim + len(places))
    return _views.inserted(x, _arguments.axes("expand_dims", places, x.ndim + len(places)))


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view without axes of size 1."""
    x = _arguments.tensor("squeeze", "x", x)
    if axis is None:
        raise TypeError("squeeze: argument 'axis': expected an integer or a tuple, found None")
    places = _arguments.axes("squeeze", axis, x.ndim)
    for place in places:
        if x.shape[place] != 1:
            raise InvalidArgumentError(
                f"squeeze: argument 'axis': axis {place} has size {x.shape[place]}, expected 1"
            )
    return _views.removed(x, places)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """A view with the elements in reverse along axes."""
    x = _arguments.tensor("flip", "x", x)
    return _views.reversed_along(x, _arguments.axes("flip", axis, x.ndim))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the axes in another order."""
    x = _arguments.tensor("permute_dims", "x", x)
    order = _arguments.axes("permute_dims", axes, x.ndim, "axes")
    if len(order) != x.ndim:
        raise InvalidArgumentError(
            f"permute_dims: argument 'axes': expected {x.ndim} axes, found {axes}"
        )
    return _views.permuted(x, order)


def moveaxis(
    x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """A view with some axes at other positions, the others in order."""
    x = _arguments.tensor("moveaxis", "x", x)
    origins = _arguments.integers("moveaxis", "source", source)
    targets = _arguments.integers("moveaxis", "destination", destination)
    origins = _arguments.axes("moveaxis", origins, x.ndim, "source")
    targets = _arguments.axes("moveaxis", targets, x.ndim, "destination")
    if len(origins) != len(targets):
        raise InvalidArgumentError(
            f"moveaxis: argument 'destination': expected {len(origins)} axes, found {len(targets)}"
        )
    order = [i for i in range(x.ndim) if i not in origins]
    for target, origin in sorted(zip(targets, origins)):
        order.insert(target, origin)
    return _views.permuted(x, order)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape: a view where the strides allow it, else a copy."""
    x = _arguments.tensor("reshape", "x", x)
    wanted = _whole_shape(x, _arguments.integers("reshape", "shape", shape))
    _arguments.rank("reshape", "shape", len(wanted))
    copy = _arguments.flag_or_none("reshape", "copy", copy)
    if copy:
        return _views.view(x.copy(), wanted, _views.row_major(wanted))
    found = _views.reshaped_without_copy(x, wanted)
    if found is not None:
        return found
    if copy is False:
        raise InvalidArgumentError(
            f"reshape: argument 'copy' is False, and {wanted} of {x.shape} with strides "
            f"{x.strides} needs a copy"
        )
    return _views.view(x.copy(), wanted, _views.row_major(wanted))


def _whole_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """With the size that is -1 worked out."""
    unknown = shape.count(-1)
    known = math.prod(size for size in shape if size != -1)
    fits = known == x.size if unknown == 0 else known > 0 and x.size % known == 0
    if unknown > 1 or not fits or min(shape, default=0) < -1:
        raise InvalidArgumentError(
            f"reshape: argument 'shape': {shape} for {x.size} elements of shape {x.shape}"
        )
    return tuple(x.size // known if size == -1 else size for size in shape)


def roll(
    x: Tensor,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Tensor:
    """The elements moved up along axes; what leaves at the end comes in at the start."""
    x = _arguments.tensor("roll", "x", x)
    shifts = _arguments.integers("roll", "shift", shift)
    if axis is None:
        if isinstance(shift, (tuple, list)):
            raise InvalidArgumentError("roll: argument 'axis': a tuple of shifts needs axes")
        return _views.reshaped(_rolled(_views.flat(x), 0, shifts[0]), x.shape)
    axes = [
        _arguments.axis("roll", one, x.ndim) for one in _arguments.integers("roll", "axis", axis)
    ]
    if len(shifts) == 1 and not isinstance(shift, (tuple, list)):
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise InvalidArgumentError(
            f"roll: argument 'shift': expected {len(axes)} of them, found {len(shifts)}"
        )
    rolled = x
    for place, steps in zip(axes, shifts):
        rolled = _rolled(rolled, place, steps)
    return rolled.copy() if rolled is x else rolled


def _rolled(x: Tensor, axis: int, steps: int) -> Tensor:
    size = x.shape[axis]
    split = -steps % size if size else 0
    if split == 0:
        return x.copy()
    parts = (_views.part(x, axis, split, size), _views.part(x, axis, 0, split))
    return joined("roll", parts, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x as often as said along each axis."""
    x = _arguments.tensor("tile", "x", x)
    counts = _sizes("tile", "repetitions", repetitions)
    if min(counts, default=0) < 0:
        raise InvalidArgumentError(
            f"tile: argument 'repetitions': expected 0 or more, found {counts}"
        )
    counts = (1,) * (x.ndim - len(counts)) + counts
    _arguments.rank("tile", "repetitions", len(counts))
    tiled = _views.inserted(x, range(len(counts) - x.ndim))
    repeated = [axis for axis, count in enumerate(counts) if count != 1]
    for axis in reversed(repeated):  # so that the largest copy is the last one
        tiled = _repeated(tiled, axis, counts[axis], as_a_whole=True)
    return tiled if repeated else tiled.copy()


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element along an axis as often as said; without an axis, of the flattened tensor."""
    x = _arguments.tensor("repeat", "x", x)
    if axis is None:
        x, place = _views.flat(x), 0
    else:
        place = _arguments.axis("repeat", axis, x.ndim)
    if not isinstance(repeats, Tensor):
        return _repeated(x, place, _arguments.count("repeat", "repeats", repeats))
    _arguments.of_kind("repeat", "repeats", repeats.dtype, _kinds.INTEGRAL)
    _arguments.on_one_device("repeat", x=x, repeats=repeats)
    if repeats.ndim > 1 or repeats.size not in (1, x.shape[place]):
        raise InvalidArgumentError(
            f"repeat: argument 'repeats': expected the shape (1,) or ({x.shape[place]},), "
            f"found {repeats.shape}"
        )
    if repeats.size == 1:
        return _repeated(x, place, _arguments.count("repeat", "repeats", int(repeats.item())))
    return _repeated_by(x, place, repeats)


def _repeated(x: Tensor, axis: int, count: int, as_a_whole: bool = False) -> Tensor:
    """Each element along an axis so often, or all of them behind each other."""
    shape = list(x.shape)
    shape[axis] *= count
    if as_a_whole:
        _arguments.elements("tile", "repetitions", shape)
    else:
        _arguments.elements("repeat", "repeats", shape)
    x, place = _views.with_room(x, axis)
    new = place if as_a_whole else place + 1
    spread = _views.inserted(x, [new])
    spread = _views.broadcast(spread, [*x.shape[:new], count, *x.shape[new:]])
    return _views.view(spread.copy(), shape, _views.row_major(shape))


def _repeated_by(x: Tensor, axis: int, repeats: Tensor) -> Tensor:
    from . import _creation, _indexing

    counts = repeats.astype(_core.int64, copy=False)
    if x.shape[axis] == 0:
        return x.copy()
    ends = ops.cumsum(counts, 0)
    # The host reads what says how large the result is.
    limits = [ops.reduce_min(counts), ops.reduce_max(counts), ends[-1:]]
    smallest, largest, total = ops.concat(limits, 0).tolist()
    if smallest < 0 or largest * counts.size >= 2**63:
        raise InvalidArgumentError(
            f"repeat: argument 'repeats': expected 0 or more, and fewer than 2^63 together, "
            f"found {smallest} to {largest}"
        )
    places = _creation.numbered(total, x.device)
    return _indexing.gather(x, ops.searchsorted(ends, places, right=True), axis)
