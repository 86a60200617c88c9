# SPDX-License-Identifier: Apache-2.0
"""What ran where: counters of the process, and a warning for whatever torch has to do itself."""

import collections
import dataclasses
import logging
import threading
import warnings

from torch._dynamo.utils import counters
from torch._guards import CompileContext

from backplane import UnsupportedError


class FallbackWarning(UserWarning):
    """Operators of a compiled graph run in torch, on the host."""


@dataclasses.dataclass(frozen=True)
class Fallback:
    graph: int  # its number, from 1
    operator: str  # such as "aten.sort.default"; "" for all of the graph
    nodes: int  # so many nodes run in torch because of it; 0: calls that need another graph do
    reason: str

    def __str__(self):
        if self.operator:
            what = f"{self.operator} runs"
        elif self.nodes > 0:
            what = f"all {self.nodes} operators run"
        else:
            what = "calls that need another graph run"
        return f"torch.compile: graph {self.graph}: {what} in torch: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Report:
    graphs: int  # that PyTorch gave to the backend
    device_nodes: int  # their operators that sessions compute
    torch_nodes: int  # and those that torch does
    sessions: int  # that were loaded: one for each set of weights
    runs: int  # of sessions
    fallbacks: tuple[Fallback, ...]
    graph_breaks: dict[str, int]  # and functions left alone, of every backend: how often, by why


_COUNTS = ("graphs", "device_nodes", "torch_nodes", "sessions", "runs")
_BREAKS = ("graph_break", "unimplemented")  # PyTorch's counters; the latter ends a whole function
_counts = collections.Counter()
_fallbacks = []
_functions = {}  # by PyTorch's number: the last graph of the function, and its policy of fallbacks
_lock = threading.Lock()


def count(name, amount=1):
    with _lock:
        _counts[name] += amount


def begin_graph(policy):
    """The number of a new graph, of the function that PyTorch compiles right now."""
    with _lock:
        _counts["graphs"] += 1
        number = _counts["graphs"]
        _functions[_current_function()] = (number, policy)
        return number


def forget_functions():
    """PyTorch's numbers begin anew."""
    _functions.clear()


def _current_function():
    compile_id = CompileContext.current_compile_id()
    return None if compile_id is None else compile_id.frame_id


def fall_back(fallback, policy):
    """Notes it and warns, or raises where the user wants no fallback."""
    if policy == "error":
        raise UnsupportedError(str(fallback))
    with _lock:
        _fallbacks.append(fallback)
    warnings.warn(str(fallback), FallbackWarning, stacklevel=2)


class _RecompileLimit(logging.Filter):
    """A function that was compiled too often runs eagerly. PyTorch asks no backend then, and has no
    hook for it: its log is the only one that is told."""

    def filter(self, record):
        function = _current_function()
        if function in _functions and str(record.msg).startswith("torch._dynamo hit config."):
            number, policy = _functions[function]
            lines = record.getMessage().splitlines()[:3]  # the limit, the function, the last reason
            reason = ", ".join(" ".join(line.split()) for line in lines)
            fall_back(Fallback(number, "", 0, reason), policy)
        return True


logging.getLogger("torch._dynamo.convert_frame").addFilter(_RecompileLimit())


def report() -> Report:
    """The counters since the process began, or since reset_report()."""
    with _lock:
        counts = {name: _counts[name] for name in _COUNTS}
        breaks = sum((counters[name] for name in _BREAKS), collections.Counter())
        return Report(**counts, fallbacks=tuple(_fallbacks), graph_breaks=dict(breaks))


def reset_report() -> None:
    """Begins anew. PyTorch's own counter of graph breaks too."""
    with _lock:
        _counts.clear()
        _fallbacks.clear()
        for name in _BREAKS:
            counters[name].clear()
