# SPDX-License-Identifier: Apache-2.0
"""Runs that Python does not wait for: futures and awaits.

Runs end on threads of the library, which never enter Python: they put the run's number into a
queue. An event loop watches its own queue; one daemon thread waits for all futures.
"""

import asyncio
import concurrent.futures
import itertools
import os
import threading
import weakref

from . import _core
from ._logging import tell_unraisable


class _Pending:
    """A queue, and the runs that are to come out of it."""

    def __init__(self):
        self.queue = _core._CompletionQueue()
        self._numbers = itertools.count()
        self._runs = {}

    def start(self, session, function, inputs, options, future):
        """Without a lock: Python code of the inputs may start runs too, and wait for them."""
        noted = self._runs, next(self._numbers), future
        return session._start(self.queue, noted, function, inputs, **options)

    def take(self):
        """Runs that have ended, each with its future."""
        return [self._runs.pop(number) for number in self.queue.take()]


def _settle(run, future):
    try:
        result = run.result()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


# --- Futures ---------------------------------------------------------------------------------


class RunFuture(concurrent.futures.Future):
    """What submit() answers. Callbacks come on the one thread that brings all futures their
    results: they must not wait for another run."""

    _run = None

    def cancel(self):
        """Cancels the future at once, and tells its run to stop between two operators. Until then
        the run may still write into what `out` names."""
        was_done = self.done()
        is_cancelled = super().cancel()
        if is_cancelled and not was_done and self._run is not None:
            self._run.cancel()
        return is_cancelled


def _is_open(future):
    """Whether the future still takes a result. One that was cancelled tells who waits for it."""
    if future.running():  # somebody else said so
        return True
    if future.done() and not future.cancelled():  # somebody else settled it
        return False
    try:
        return future.set_running_or_notify_cancel()
    except RuntimeError:  # somebody else did either meanwhile
        return future.running()


def _bring_result(run, future):
    """Raises nothing, whatever is done to the future: the others wait for the same thread."""
    try:
        if _is_open(future):
            _settle(run, future)
    except concurrent.futures.InvalidStateError:  # somebody else settled it meanwhile
        pass
    except BaseException as error:  # of a callback
        tell_unraisable(error)


def _bring_results(pending):
    while True:
        pending.queue.wait()
        for run, future in pending.take():
            _bring_result(run, future)
        run = future = None  # kept by nobody while this waits


class _Futures:
    """Its thread starts with the first run, and again if it ended."""

    def __init__(self):
        self._lock = threading.RLock()  # a finalizer or a signal's handler may submit meanwhile
        self._pending = None
        self._thread = None

    def start(self, session, function, inputs, options, future):
        with self._lock:
            if self._pending is None:
                self._pending = _Pending()
        run = self._pending.start(session, function, inputs, options, future)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(
                    target=_bring_results,
                    args=(self._pending,),
                    name="backplane-futures",
                    daemon=True,
                )
                thread.start()
                self._thread = thread
        return run


_futures = _Futures()


def submit(session, inputs, options):
    """See Session.submit."""
    return _submit(session, "submit", inputs, options)


def _submit(session, function, inputs, options):
    future = RunFuture()
    future._run = _futures.start(session, function, inputs, options, future)
    return future


# --- Awaits ----------------------------------------------------------------------------------

# References to what each loop's reader keeps. That leads to the loop by way of its futures: if it
# were kept here, a loop whose runs have not ended would never be freed.
_by_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Pending]]" = (
    weakref.WeakKeyDictionary()
)
_by_loop_lock = threading.Lock()


def _forget():
    """In a forked child, where a lock may be held by a thread that is not there."""
    global _futures, _by_loop, _by_loop_lock
    _futures = _Futures()
    _by_loop = weakref.WeakKeyDictionary()
    _by_loop_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _read(pending):
    for run, future in pending.take():
        if not future.done():  # its loop may have ended
            _settle(run, future)


def _pending_of(loop):
    with _by_loop_lock:
        known = _by_loop.get(loop)
        pending = None if known is None else known()
        if pending is None:
            pending = _Pending()
            loop.add_reader(pending.queue.fileno(), _read, pending)
            _by_loop[loop] = weakref.ref(pending)
        return pending


def _start_on(loop, session, inputs, options):
    """The run, and the loop's future of its end."""
    try:
        pending = _pending_of(loop)
    except NotImplementedError:  # the loop watches no descriptors
        ended = _submit(session, "run_async", inputs, options)
        return ended._run, asyncio.wrap_future(ended, loop=loop)
    future = loop.create_future()
    return pending.start(session, "run_async", inputs, options, future), future


async def run_async(session, inputs, options):
    """See Session.run_async."""
    run, future = _start_on(asyncio.get_running_loop(), session, inputs, options)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # The run still writes what it was given until it stops, between two operators. A second
        # cancellation ends this wait.
        run.cancel()
        future.add_done_callback(lambda ended: ended.exception())  # asked for: not to be logged
        await asyncio.wait((future,))
        raise
