# SPDX-License-Identifier: Apache-2.0
"""What sessions tell of themselves, as Python objects."""

from collections import namedtuple

_NO_END = 2**63 - 1


class TensorInfo(
    namedtuple("TensorInfo", "name dtype shape has_default min_shape max_shape")
):
    """An input or output. In ``shape`` a size that is free is the name of its symbol, or None; it
    lies between those of ``min_shape`` and ``max_shape``, where None is no end. All three are None
    where the rank is not known."""

    __slots__ = ()

    def __repr__(self):
        shape = "of any rank" if self.shape is None else _shape_text(self.shape)
        return f"<{self.name}: {self.dtype} {shape}{', optional' if self.has_default else ''}>"


class Node(namedtuple("Node", "name op device placement kernels reason")):
    """A node of the model as it runs. ``placement`` is "native", "decomposed", "fallback", "view"
    or "known"; ``reason`` says why it is not native; ``device`` is None where no kernel runs."""

    __slots__ = ()

    def __repr__(self):
        where = self.placement if self.device is None else f"{self.placement} on {self.device}"
        return f"<{self.name}: {self.op}, {where}{': ' if self.reason else ''}{self.reason}>"


class Placement(
    namedtuple(
        "Placement",
        "nodes native_count decomposed_count fallback_count view_count known_count "
        "memory_used arena_bytes live_bytes_peak",
    )
):
    """How the nodes of a session were placed, and the bytes that it takes."""

    __slots__ = ()

    @property
    def devices(self):
        """The number of nodes by device name."""
        counts = {}
        for node in self.nodes:
            if node.device is not None:
                counts[node.device.name] = counts.get(node.device.name, 0) + 1
        return counts

    def __repr__(self):
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


def _shape_text(shape):
    sizes = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def _describe_io(row):
    name, dtype, has_rank, sizes, symbols, has_default, least, most = row
    if not has_rank:
        return TensorInfo(name, dtype, None, has_default, None, None)
    shape = tuple(
        size if size >= 0 else symbol or None for size, symbol in zip(sizes, symbols)
    )
    ends = tuple(None if end == _NO_END else end for end in most)
    return TensorInfo(name, dtype, shape, has_default, least, ends)


def describe_ios(rows):
    """See Session.inputs."""
    return tuple(_describe_io(row) for row in rows)


def describe_placement(rows, counts):
    """See Session.placement."""
    nodes = (
        Node(name, op, device, placement, tuple(kernels.split(", ")) if kernels else (), reason)
        for name, op, device, placement, kernels, reason in rows
    )
    return Placement(tuple(nodes), **counts)


def describe(session):
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
