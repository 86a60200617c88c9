# SPDX-License-Identifier: Apache-2.0
"""The library's log in `logging`, and on standard error for who does not use that."""

import os
import re
import subprocess
import sys

import pytest

# Makes a Runtime whose search finds a broken manifest, of which the log tells.
START = """
import os, sys, tempfile, threading, time
folder = tempfile.mkdtemp()
open(os.path.join(folder, "libbackplane_bad.backplane.json"), "w").write("{")
import backplane as bp
def make(**options):
    return bp.Runtime(plugin_path=folder, install_dir=folder, options=options)
"""
BAD = "libbackplane_bad.backplane.json skipped at manifest"


def run(code, level=None):
    environment = {name: os.environ[name] for name in os.environ if name != "BACKPLANE_LOG"}
    if level is not None:
        environment["BACKPLANE_LOG"] = level
    done = subprocess.run(
        [sys.executable, "-P", "-c", START + code],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_who_does_not_use_logging_sees_the_librarys_lines():
    out, err = run("make(); print('logging' in sys.modules)")
    assert out == ["False"]
    assert len(err) == 1 and err[0].startswith("backplane warning: ") and BAD in err[0]
    assert run("import logging; make()")[1][0].startswith("backplane warning: ")
    assert run("make()", level="error")[1] == []
    assert run("sys.stderr = None; make()")[1] == []
    assert run("sys.stderr.close(); make()")[1] == []


def test_lines_are_records():
    out, err = run(
        """
import logging
logging.basicConfig(format="%(name)s|%(levelname)s|%(message)s", stream=sys.stdout)
make()
print("end")
"""
    )
    assert err == []  # nothing twice
    assert len(out) == 2 and out[1] == "end"  # told when the Runtime is there
    name, level, message = out[0].split("|")
    assert (name, level) == ("backplane", "WARNING") and BAD in message


@pytest.mark.parametrize(
    "before, level, kinds",
    [
        ("", None, {"WARNING"}),
        ("logging.getLogger('backplane').setLevel(logging.INFO)", None, {"WARNING", "INFO"}),
        ("logging.getLogger().setLevel(logging.DEBUG)", None, {"WARNING", "INFO"}),
        ("logging.getLogger('backplane').setLevel(logging.ERROR)", None, set()),
        ("logging.getLogger('backplane').setLevel(logging.INFO)", "error", set()),
        ("", "info", {"WARNING"}),  # what the library says, the logger may leave out
        ("logging.getLogger('backplane').disabled = True", None, set()),
        ("logging.disable(logging.WARNING)", None, set()),
    ],
)
def test_levels(before, level, kinds):
    code = f"""
import logging
logging.basicConfig(format="%(levelname)s", stream=sys.stdout)
{before}
bp.Runtime(plugin_path=folder, options={{"BACKPLANE_PLUGINS": "npu"}})
"""
    out, err = run(code, level)
    assert (set(out), err) == (kinds, [])


def test_an_option_is_stronger_than_logging():
    out, err = run(
        """
import logging
logging.getLogger("backplane").setLevel(logging.DEBUG)
make(BACKPLANE_LOG="error")
"""
    )
    assert err == []


def test_a_silenced_logger_is_silent():
    null = "addHandler(logging.NullHandler())"
    for words in (null, "setLevel(logging.ERROR)", "disabled = True"):
        code = f"import logging\nlogging.getLogger('backplane').{words}\nmake()\n"
        assert run(code) == ([], []), words


def test_handlers_may_use_the_library_and_fail():
    out, err = run(
        """
import logging
class Handler(logging.Handler):
    def emit(self, record):
        print("one", bp.ones(2, device=other.device("cpu:0")).tolist())
        make()  # whose own lines go to standard error
        raise KeyError("mine")
other = bp.Runtime(options={"BACKPLANE_PLUGINS": "cpu"})
logging.getLogger("backplane").addHandler(Handler())
make()
time.sleep(0.1)
"""
    )
    assert out == ["one [1.0, 1.0]"]
    assert len(err) == 2 and BAD in err[0] and err[0].startswith("backplane warning: ")
    begin = "backplane error: the log's handler failed with KeyError('mine') for: "
    assert err[1].startswith(begin)


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
def test_a_handler_that_raises_what_ends_threads_is_told_once_each(kind):
    out, err = run(
        f"""
import logging
class Handler(logging.Handler):
    def emit(self, record):
        print("one", flush=True)
        raise {kind}("mine")
sys.unraisablehook = lambda args: print("told", args.exc_type.__name__, flush=True)
logging.getLogger("backplane").addHandler(Handler())
make()
make()
"""
    )
    assert (out, err) == (["one", f"told {kind}"] * 2, [])


def test_a_handler_that_waits_for_its_caller_holds_nobody_up():
    out, err = run(
        """
import logging
lock, told = threading.Lock(), threading.Event()
class Handler(logging.Handler):
    def emit(self, record):
        with lock:
            print("told", flush=True)
        told.set()
logging.getLogger("backplane").addHandler(Handler())
with lock:
    make()
    print("made", flush=True)
assert told.wait(60)
"""
    )
    assert (out, err) == (["made", "told"], [])


def test_lines_while_python_is_stuck_go_to_standard_error():
    # PyDLL keeps the GIL, so that the thread that tells cannot run.
    out, err = run(
        """
import ctypes, logging
logging.basicConfig(stream=sys.stdout)
class Args(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("plugin_path", ctypes.c_char_p), ("install_dir", ctypes.c_char_p),
                ("option_names", ctypes.c_void_p), ("option_values", ctypes.c_void_p),
                ("option_count", ctypes.c_uint64)]
make()
path, runtime = folder.encode(), ctypes.c_void_p()
args = Args(ctypes.sizeof(Args), 0, path, path, None, None, 0)
library = ctypes.PyDLL(bp._core.__file__)
assert library.bpa_runtime_create(ctypes.byref(args), ctypes.byref(runtime)) == 0
library.usleep(2_500_000)
"""
    )
    assert len(out) == 1 and BAD in out[0]
    assert len(err) == 1 and BAD in err[0] and err[0].startswith("backplane warning: ")


def test_what_finds_no_room_is_counted():
    count = 700
    out, err = run(
        f"""
import logging
class Handler(logging.Handler):
    def emit(self, record):
        go.wait(60)
        print(record.getMessage(), flush=True)
go = threading.Event()
logging.getLogger("backplane").addHandler(Handler())
make()  # the handler is busy with this line from here on
for i in range(1, {count}):
    home = os.path.join(folder, str(i))
    os.mkdir(home)
    open(os.path.join(home, "libbackplane_bad.backplane.json"), "w").write("{{")
make()
make()
go.set()
os.mkdir(folder + "/1/none")
bp.Runtime(install_dir=folder + "/1/none")  # waits until all is told
"""
    )
    told = sum(BAD in line for line in out + err)
    [words] = re.findall(r"(\d+) more log lines were dropped", "\n".join(out + err))
    dropped = int(words)
    assert dropped > 0 and told + dropped == 1 + 2 * count, (told, dropped)


def test_fork_tells_nothing_twice():
    out, err = run(
        """
import logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
make()
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    try: make()
    except bp.Error as error: print(error.status, flush=True)
    sys.exit(0)
os.waitpid(pid, 0)
"""
    )
    assert len(out) == 2 and BAD in out[0] and out[1] == "FORKED" and err == []


def test_exit_is_quiet():
    for end in ("", "sys.exit()", "os.close(2)", "runtimes = [make() for _ in range(5)]"):
        code = f"import logging\nlogging.basicConfig(stream=sys.stdout)\nkeep = make()\n{end}\n"
        out, err = run(code)
        assert err == [] and len(out) == (6 if "range" in end else 1), (end, out, err)
