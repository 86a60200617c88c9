# SPDX-License-Identifier: Apache-2.0
"""The library's log as ``logging.getLogger("backplane")``.

A program that does not use ``logging`` sees the lines on standard error, as one in C++ does, and
does not pay for its import.
"""

import os
import sys

NAME = "backplane"
WARNING = 2

# The library's levels: its names, and those of logging.
_NAMES = {1: "error", 2: "warning", 3: "info", 4: "debug"}
_LEVELS = {1: 40, 2: 30, 3: 20, 4: 10}

_is_started = False


def tell(level, line):
    """One line of the log."""
    if "logging" in sys.modules:
        import logging

        logger, number = logging.getLogger(NAME), _LEVELS[level]
        if logger.hasHandlers():
            logger.log(number, "%s", line)
            return
        if logger.disabled or number < logger.level or number <= logger.manager.disable:
            return
    _write(level, line)


def _write(level, line):
    if sys.stderr is not None:
        try:
            print(f"{NAME} {_NAMES[level]}: {line}", file=sys.stderr)
        except (OSError, ValueError):  # it is closed: nobody reads
            pass


class _Unraisable:
    """Python itself calls sys.unraisablehook, and bears a hook that fails."""

    def __init__(self, error):
        self._error = error

    def __del__(self):
        raise self._error


def tell_unraisable(error):
    """What a thread that must go on cannot raise goes to sys.unraisablehook."""
    _Unraisable(error)


def wanted_level():
    """What BACKPLANE_LOG is to be for a Runtime that is made now, as the program's ``logging`` has
    it. None: the user says it, or the program does not use logging."""
    if "BACKPLANE_LOG" in os.environ or "logging" not in sys.modules:
        return None
    import logging

    number = logging.getLogger(NAME).getEffectiveLevel()
    wanted = [_NAMES[level] for level in _NAMES if _LEVELS[level] >= number]
    return wanted[-1] if wanted else _NAMES[1]


def start():
    """The thread that tells, once: a handler may wait for locks of the thread that a line is
    of, and so must not run there."""
    global _is_started
    if _is_started:
        return
    import threading

    _is_started = True
    try:
        threading.Thread(target=_tell_for_ever, name="backplane-log", daemon=True).start()
    except RuntimeError:  # the interpreter ends: lines go to standard error
        pass


def _tell_for_ever():
    from . import _core

    while True:
        for level, line in _core._wait_for_log():
            try:
                tell(level, line)
            except Exception as error:  # of a handler or filter of the program's
                _write(1, f"the log's handler failed with {error!r} for: {line}")
            except BaseException as error:  # SystemExit would end this thread
                tell_unraisable(error)
