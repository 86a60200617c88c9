# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter, in processes of their own: exit code 0 and nothing on stderr."""

import os
import subprocess
import sys

import pytest

SETUP = """
import sys, threading, time
import numpy as np
import backplane as bp
runtime = bp.default_runtime()
x, large = bp.ones((8, 8)), bp.ones((200, 200))
queued = bp.ones((8, 8), device="npu:0")
class Slow:
    def __array__(self, dtype=None, copy=None):
        sum(range(2000))
        return np.ones(3)
class Items:
    def tolist(self):
        sum(range(2000))
        return [1, 2]
"""


def python(code, *, setup=SETUP, log="error"):
    """Runs code in a process of its own, and answers how it ended and what it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", setup + code],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "BACKPLANE_LOG": log},
    )
    return done.returncode, done.stdout, done.stderr


BUSY = """
def work():
    while True:
        {call}
for _ in range(6): threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "call",
    [
        "large @ large",  # comes back from the library without the GIL
        "queued.device.sync(); (queued @ queued).tolist()",
        "repr(x)",  # Python code above C++
        "np.asarray(x), x.numpy()",
        "bp.asarray(Slow())",
        "bp.asarray([Items(), Items()])",
        "bp.from_dlpack(np.ones(3)); bp.asarray(np.ones(3)) + 1",
        "hasattr(x, 'nothing') or str(x.device)",
    ],
)
def test_daemon_threads_in_the_library(call):
    assert python(BUSY.format(call=call)) == (0, "", "")


def test_daemon_thread_in_a_product_while_numpy_holds_memory():
    """Lent memory keeps the Runtime open: exit() itself waits for the one within the kernel."""
    code = """
square = bp.ones((1500, 1500))
kept, began = (square @ square).numpy(), threading.Event()
def work():
    began.set()
    while True: square @ square
threading.Thread(target=work, daemon=True).start()
began.wait(60)
time.sleep(0.05)
"""
    assert python(code) == (0, "", "")


def test_daemon_threads_while_python_ends_others():
    """Python code in C++ code is where Python unwinds threads: many, and finalization is long."""
    code = BUSY.format(call="repr(x); bp.asarray(Slow()); x.numpy()")
    code += "class Long:\n    def __del__(self): sum(range(3000000))\nkept = Long()\n"
    assert python(code) == (0, "", "")


def test_exit_handlers_may_wait_for_threads():
    """Those that were registered before the package was imported run after its own."""
    code = """
import atexit, threading
def join():
    thread.join(60); print("joined", thread.is_alive(), found)
atexit.register(join)
import backplane as bp
x, found = bp.ones((8, 8)), []
def work():
    try:
        while True: (x @ x).tolist()
    except bp.Error as error: found.append(error.status)
thread = threading.Thread(target=work, daemon=True)
thread.start()
"""
    assert python(code, setup="") == (0, "joined False ['GONE']\n", "")


def test_a_signal_ends_the_wait_for_queued_work():
    """Hours of it: the process ends long before, and as Python says it of an exit handler."""
    code = """
import atexit, signal
signal.signal(signal.SIGALRM, signal.default_int_handler)
# Registered after the package's own handler, it runs before that one.
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.5)
x = bp.ones((512, 512), device="npu:0")
for _ in range(5000): y = x @ x
"""
    code, out, err = python(code)
    assert (code, out) == (0, "")
    assert err.startswith("Exception ignored in atexit") and err.endswith("KeyboardInterrupt: \n")


def test_everything_alive():
    code = """
kept = [bp.asarray(np.ones(4)), bp.ones(3).numpy(), np.from_dlpack(bp.ones(3)), queued @ queued]
kept += [bp.ones(3).__dlpack__(), bp.ones(3).__dlpack__(max_version=(1, 0)), bp.float32]
other = bp.Runtime()
kept += [other, *other.devices(), bp.ones((512, 512), device=other.device("npu:0"))]
for _ in range(20): kept.append(kept[-1] @ kept[-1] * 1e-3)
closed = bp.Runtime(); kept += [closed, bp.ones(3, device=closed.device("cpu:0")).numpy()]
closed.close()
cycle = [kept]; cycle.append(cycle)
bp.kept = sys.kept = kept
"""
    assert python(code) == (0, "", "")


def test_use_after_the_end():
    """Of exit handlers and __del__ that run after the package's own handler."""
    code = """
import atexit
class Late:
    def __del__(self):
        for call in (lambda: x + x, lambda: bp.ones(2), lambda: x.numpy(), lambda: repr(x)):
            try: call()
            except bp.Error as error: assert error.status == "GONE"
sys.late = Late()
"""
    assert python(code) == (0, "", "")


def test_exit_within_a_call():
    code = """
class Exits:
    def __array__(self, dtype=None, copy=None): sys.exit(3)
bp.asarray(Exits())
"""
    assert python(code) == (3, "", "")


def test_one_import_in_a_process():
    code = """
import _xxsubinterpreters as subinterpreters
def refused(word): return "once, and in its main interpreter" in word
ident = subinterpreters.create()
try: subinterpreters.run_string(ident, "import backplane")
except subinterpreters.RunFailedError as error: print(refused(str(error)))
subinterpreters.destroy(ident)
for name in [name for name in sys.modules if name.startswith("backplane")]: del sys.modules[name]
try: import backplane
except ImportError as error: print(refused(str(error)))
print((x + x).tolist()[0][0], bp.ones(1).tolist())
"""
    assert python(code) == (0, "True\nTrue\n2.0 [1.0]\n", "")


def test_interrupt_works_once_devices_are_there():
    """Drivers of devices put handlers of their own in place of Python's while they load."""
    code = """
import os, signal
bp.devices()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
bp.ones((4, 4), device=bp.devices()[-1]) @ bp.ones((4, 4), device=bp.devices()[-1])
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True: time.sleep(10)
except KeyboardInterrupt: print("interrupted")
"""
    assert python(code, log="warning") == (0, "interrupted\n", "")
