# SPDX-License-Identifier: Apache-2.0
"""Plugins in other wheels. One names its folder by an entry point:

[project.entry-points."backplane.plugins"]
acme = "backplane_acme"

The object is a package, whose folder it is; a path; or a function that answers one. The folder is
searched as those of BACKPLANE_PLUGIN_PATH are, by the loader's rules, after them and before those
of this package.
"""

import os
import types

from . import _logging

GROUP = "backplane.plugins"

_found = None


def search_path(named):
    """The folders of ``named`` (as BACKPLANE_PLUGIN_PATH has them, or None) and of other wheels, in
    the same form. None: there are none."""
    global _found
    if _found is None:
        _found = _look_up()
    return ":".join([*filter(None, [named]), *_found]) or None


def _look_up():
    folders = []
    for entry in sorted(_entries()):
        try:
            folder = _folder(entry.load())
        except (Exception, SystemExit) as error:  # it runs other people's code
            _warn(entry, _words(error))
            continue
        if not os.path.isabs(folder) or not os.path.isdir(folder) or ":" in folder:
            _warn(entry, f"expected the absolute path of a folder, without ':', found {folder!r}")
        elif folder not in folders:
            folders.append(folder)
    return folders


def _entries():
    """Those of the group. A package whose list of them cannot be read, which ends what Python's own
    entry_points() does, leaves the others theirs."""
    import importlib.metadata

    try:
        return importlib.metadata.entry_points(group=GROUP)
    except Exception:
        found = {}
    for package in importlib.metadata.distributions():
        try:
            # As Python has it: of two packages of one name the first on sys.path.
            found.setdefault(package.name, package.entry_points.select(group=GROUP))
        except Exception as error:
            line = f"{package.name}: its entry points cannot be read: {_words(error)}"
            _logging.tell(_logging.WARNING, line)
    return [entry for entries in found.values() for entry in entries]


def _folder(named):
    if isinstance(named, types.ModuleType):
        if not hasattr(named, "__path__"):
            raise TypeError(f"expected a package, found the module {named.__name__!r}")
        return next(iter(named.__path__))
    folder = os.fspath(named() if callable(named) else named)
    if not isinstance(folder, str):
        raise TypeError(f"expected a path that is a str, found {type(folder).__name__}")
    folder.encode()  # as the library takes it
    return folder


def _words(error):
    import traceback

    # It bears an error whose own words fail.
    return traceback.format_exception_only(error)[-1].strip()


def _warn(entry, reason):
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"
    what = f"the entry point {entry.name!r} ({entry.value})"
    _logging.tell(_logging.WARNING, f"{package}: {what} is left out: {reason}")
