# SPDX-License-Identifier: Apache-2.0
"""What sessions tell of themselves, as Python objects."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._core import Device, Dtype, Session

_NO_END = 2**63 - 1


class TensorInfo(NamedTuple):
    """An input or output. In ``shape`` a size that is free is the name of its symbol, or None; it
    lies between those of ``min_shape`` and ``max_shape``, where None is no end. All three are None
    where the rank is not known, and ``dtype`` is None where the dtype has no Python object. An
    input with ``has_default`` may be left out."""

    name: str
    dtype: Dtype | None
    shape: tuple[int | str | None, ...] | None
    has_default: bool
    min_shape: tuple[int, ...] | None
    max_shape: tuple[int | None, ...] | None

    def __repr__(self) -> str:
        shape = "of any rank" if self.shape is None else _shape_text(self.shape)
        return f"<{self.name}: {self.dtype} {shape}{', optional' if self.has_default else ''}>"


class Node(NamedTuple):
    """A node of the model as it runs. ``placement`` is "native", "decomposed", "fallback", "view"
    or "known"; ``reason`` says why it is not native; ``device`` is None where no kernel runs.
    ``kernels`` are names of the device's kernels."""

    name: str
    op: str
    device: Device | None
    placement: str
    kernels: tuple[str, ...]
    reason: str

    def __repr__(self) -> str:
        where = self.placement if self.device is None else f"{self.placement} on {self.device}"
        return f"<{self.name}: {self.op}, {where}{': ' if self.reason else ''}{self.reason}>"


class Placement(NamedTuple):
    """How the nodes of a session were placed, how many each way, and the bytes that it takes:
    ``memory_used`` in all, ``arena_bytes`` for intermediate tensors of a run, of which
    ``live_bytes_peak`` are alive at once."""

    nodes: tuple[Node, ...]
    native_count: int
    decomposed_count: int
    fallback_count: int
    view_count: int
    known_count: int
    memory_used: int
    arena_bytes: int
    live_bytes_peak: int

    @property
    def devices(self) -> dict[str, int]:
        """The number of nodes by device name."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            if node.device is not None:
                counts[node.device.name] = counts.get(node.device.name, 0) + 1
        return counts

    def __repr__(self) -> str:
        kinds = ("native", "decomposed", "fallback", "view", "known")
        counts = ", ".join(
            f"{getattr(self, kind + '_count')} {kind}"
            for kind in kinds
            if getattr(self, kind + "_count")
        )
        devices = ", ".join(f"{count} on {name}" for name, count in self.devices.items())
        where = f"; {devices or 'no kernels'}" if self.nodes else ""
        start = f"<backplane.Placement: {len(self.nodes)} nodes"
        return f"{start}{': ' if counts else ''}{counts}{where}>"


def _shape_text(shape: tuple[int | str | None, ...]) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def _describe_io(row: tuple[Any, ...]) -> TensorInfo:
    name, dtype, has_rank, sizes, symbols, has_default, least, most = row
    if not has_rank:
        return TensorInfo(name, dtype, None, has_default, None, None)
    shape = tuple(
        size if size >= 0 else symbol or None for size, symbol in zip(sizes, symbols)
    )
    ends = tuple(None if end == _NO_END else end for end in most)
    return TensorInfo(name, dtype, shape, has_default, least, ends)


def describe_ios(rows: list[tuple[Any, ...]]) -> tuple[TensorInfo, ...]:
    """See Session.inputs."""
    return tuple(_describe_io(row) for row in rows)


def describe_placement(rows: list[tuple[Any, ...]], counts: dict[str, int]) -> Placement:
    """See Session.placement."""
    nodes = (
        Node(name, op, device, placement, tuple(kernels.split(", ")) if kernels else (), reason)
        for name, op, device, placement, kernels, reason in rows
    )
    return Placement(tuple(nodes), **counts)


def describe(session: Session) -> str:
    """repr of a session."""
    ios = [
        f"{io.name}: {io.dtype} {'of any rank' if io.shape is None else _shape_text(io.shape)}"
        for io in (*session.inputs, *session.outputs)
    ]
    count = len(session.inputs)
    state = ", closed" if session.is_closed else ""
    return (
        f"<backplane.Session on {session.device}{state}: "
        f"({', '.join(ios[:count])}) -> ({', '.join(ios[count:])})>"
    )
