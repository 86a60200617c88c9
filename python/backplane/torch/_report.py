# SPDX-License-Identifier: Apache-2.0
"""What ran where: counters of the process, and a warning for whatever torch has to do itself."""

import collections
import dataclasses
import threading
import warnings

from torch._dynamo.utils import counters

from backplane import UnsupportedError


class FallbackWarning(UserWarning):
    """Operators of a compiled graph run in torch, on the host."""


@dataclasses.dataclass(frozen=True)
class Fallback:
    graph: int  # its number, from 1
    operator: str  # such as "aten.sort.default"; "" for all of the graph
    nodes: int  # so many nodes run in torch because of it
    reason: str

    def __str__(self):
        what = self.operator or f"all {self.nodes} operators"
        verb = "run" if not self.operator else "runs"
        return f"torch.compile: graph {self.graph}: {what} {verb} in torch: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Report:
    graphs: int  # that PyTorch gave to the backend
    device_nodes: int  # their operators that sessions compute
    torch_nodes: int  # and those that torch does
    sessions: int  # that were loaded: one for each set of weights
    runs: int  # of sessions
    fallbacks: tuple  # of Fallback
    graph_breaks: dict  # of every backend in the process, by PyTorch's words: how often


_COUNTS = ("graphs", "device_nodes", "torch_nodes", "sessions", "runs")
_counts = collections.Counter()
_fallbacks = []
_lock = threading.Lock()


def count(name, amount=1):
    with _lock:
        _counts[name] += amount


def begin_graph():
    """The number of a new graph."""
    with _lock:
        _counts["graphs"] += 1
        return _counts["graphs"]


def fall_back(fallback, policy):
    """Notes it and warns, or raises where the user wants no fallback."""
    if policy == "error":
        raise UnsupportedError(str(fallback))
    with _lock:
        _fallbacks.append(fallback)
    warnings.warn(str(fallback), FallbackWarning, stacklevel=2)


def report():
    """The counters since the process began, or since reset_report()."""
    with _lock:
        counts = {name: _counts[name] for name in _COUNTS}
        return Report(**counts, fallbacks=tuple(_fallbacks),
                      graph_breaks=dict(counters["graph_break"]))


def reset_report():
    """Begins anew. PyTorch's own counter of graph breaks too."""
    with _lock:
        _counts.clear()
        _fallbacks.clear()
        counters["graph_break"].clear()
