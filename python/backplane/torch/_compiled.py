# SPDX-License-Identifier: Apache-2.0
"""A graph that a session computes: the arguments of a call go in, and its outputs come back.

A session has the weights in it. torch compiles one graph for all modules of a kind and writes into
their weights as it likes, so each set of weights has a session of its own, which is replaced when
their version counters have moved. Once gradients were asked for, weights are about to change with
each call, perhaps through ``.data``: from there on they move to the device with each call.
"""

import functools
import threading
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

import backplane as bp
from backplane import _core

from ._report import count


_CPU = (1, 0)  # as DLPack has it


class _Loaded:
    """A session and the weights that it was loaded with, which it does not keep alive."""

    def __init__(self, weights, when_one_goes):
        self.session = None
        self._weights = [weakref.ref(weight, when_one_goes) for weight in weights]
        # While these are held, no other storage gets the address of one that is gone.
        self._storages = [StorageWeakRef(weight.untyped_storage()) for weight in weights]
        self._states = [_state_of(weight) for weight in weights]

    def fits(self, weights):
        return all(
            known() is weight and state == _state_of(weight)
            for known, state, weight in zip(self._weights, self._states, weights)
        )


def _state_of(weight):
    """What moves when it is written to, or gets other memory."""
    return weight._version, weight.untyped_storage()._cdata, weight.data_ptr()


def _forget(graph, key, _):
    """A weight is gone: no call will ask for that session again."""
    graph = graph()
    if graph is not None:
        graph._loaded.pop(key, None)


_graphs = weakref.WeakSet()


def forget_weights() -> None:
    """Weights move to their devices anew with the next calls: for those that were written to where
    torch does not see it, through ``.data``, ``.numpy()`` or DLPack."""
    for graph in list(_graphs):
        graph._loaded.clear()


def _all_memory_of(tensor, dtype):
    """As elements of another dtype."""
    size = max(tensor.itemsize, dtype.itemsize)
    count = tensor.untyped_storage().nbytes() // size * size // tensor.itemsize
    return tensor.as_strided((count,), (1,), 0).view(dtype)


class CompiledGraph:
    def __init__(self, exported, options, training):
        self.node_count = exported.node_count
        self._exported = exported
        self._options = options
        self._training = training
        self._weight_positions = [position for _, position in exported.weights]
        self._loaded = {}  # by the identities of weights
        self._general = None  # the session whose weights are inputs
        self._lock = threading.Lock()
        _graphs.add(self)

    def run(self, session, arguments):
        exported = self._exported
        given = [arguments[position] for position in exported.inputs]
        if session is self._general:
            given += [arguments[position] for position in self._weight_positions]
        results = session(*map(self._to_device, given))
        count("runs")
        results = results if isinstance(results, tuple) else (results,)
        tensors = self._to_torch(results, given)
        tensors = [self._as_torch_has_it(*pair) for pair in zip(tensors, exported.results)]
        outputs = [self._output(output, arguments, tensors) for output in exported.outputs]
        return outputs[0] if exported.is_single else tuple(outputs)

    # --- Sessions ------------------------------------------------------------------------------

    def session_for(self, arguments):
        if self._general is not None:
            return self._general
        weights = [arguments[position] for position in self._weight_positions]
        if weights and self._training.has_begun:
            with self._lock:
                return self._load_general()
        key = tuple(map(id, weights))
        loaded = self._loaded.get(key)
        if loaded is not None and loaded.fits(weights):
            return loaded.session
        with self._lock:
            loaded = self._loaded.get(key)
            if loaded is not None and loaded.fits(weights):
                return loaded.session
            return self._load(arguments, weights, key).session

    def _load(self, arguments, weights, key):
        forget = functools.partial(_forget, weakref.ref(self), key)
        loaded = _Loaded(weights, forget)  # before they are read: a write in between is not missed
        loaded.session = self._load_model(self._exported.model(arguments))
        self._loaded[key] = loaded
        return loaded

    def _load_general(self):
        if self._general is None:
            self._general = self._load_model(self._exported.model_without_weights())
            self._loaded.clear()
        return self._general

    def _load_model(self, model):
        session = bp.load(model, device=self._options.device, **self._options.load)
        count("sessions")
        return session

    # --- Values --------------------------------------------------------------------------------

    def _to_device(self, value):
        if not isinstance(value, torch.Tensor):
            return bp.asarray(value, dtype=bp.int64, device=self._options.device)
        return bp.from_dlpack(value.detach().resolve_conj().resolve_neg(),
                              device=self._options.device)

    def _to_torch(self, results, given):
        taken = [value.untyped_storage() for value in given if isinstance(value, torch.Tensor)]
        taken = [(storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in taken]
        tensors = []
        for result in results:
            # torch has no steps backwards, and no memory that nobody may write.
            if result.is_read_only or any(step < 0 for step in result.strides):
                result = result.copy()
            capsule = result.__dlpack__(max_version=(1, 0), dl_device=_CPU)
            tensor = torch.from_dlpack(capsule)
            if not _core._is_host_memory(result):
                tensors.append(tensor)
                continue
            first = tensor.data_ptr()
            last = first + tensor.nbytes
            # A session's outputs may be views; those of torch's functional operators never are.
            if any(first < end and begin < last for begin, end in taken):
                tensor = tensor.clone()
            else:
                taken.append((first, last))
            tensors.append(tensor)
        return tensors

    def _as_torch_has_it(self, tensor, result):
        tensor = tensor.to(result.dtype).contiguous()
        tensor = tensor.permute(result.axes) if result.axes else tensor
        if len(tensor.shape) != len(result.sizes) or any(
            wanted not in (found, None) for found, wanted in zip(tensor.shape, result.sizes)
        ):
            raise bp.UnsupportedError(
                f"the ONNX exporter makes sizes {list(tensor.shape)} of {list(result.sizes)}"
            )
        return tensor

    def _output(self, output, arguments, tensors):
        if output.expression is not None:
            return self._evaluate(output.expression, arguments)
        if output.result >= 0:
            tensor = tensors[output.result]
        elif output.argument >= 0:
            tensor = arguments[output.argument]
        else:
            return output.value
        return self._view(output.view, tensor, arguments) if output.view is not None else tensor

    def _view(self, view, owner, arguments):
        sizes, strides = ([self._evaluate(n, arguments) for n in part]
                          for part in (view.sizes, view.strides))
        offset = owner.storage_offset() * owner.itemsize
        offset += self._evaluate(view.offset_bytes, arguments)
        if view.dtype != owner.dtype:
            owner = _all_memory_of(owner, view.dtype)
        return owner.as_strided(sizes, strides, offset // owner.itemsize)

    def _evaluate(self, expression, arguments):
        if isinstance(expression, int):
            return expression
        values = {}
        for symbol in expression.free_symbols:
            position, axis = self._exported.symbols[symbol]
            argument = arguments[position]
            values[symbol] = argument if axis is None else argument.shape[axis]
        return int(expression.subs(values))
