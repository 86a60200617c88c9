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
    import importlib.metadata

    folders = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        try:
            folder = _folder(entry.load())
        except (Exception, SystemExit) as error:  # it runs other people's code
            _warn(entry, f"{type(error).__name__}: {error}")
            continue
        if not os.path.isabs(folder) or not os.path.isdir(folder) or ":" in folder:
            _warn(entry, f"expected the absolute path of a folder, without ':', found {folder!r}")
        elif folder not in folders:
            folders.append(folder)
    return folders


def _folder(named):
    if isinstance(named, types.ModuleType):
        return next(iter(named.__path__))
    return os.fspath(named() if callable(named) else named)


def _warn(entry, reason):
    wheel = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"
    what = f"the entry point {entry.name!r} ({entry.value})"
    _logging.tell(_logging.WARNING, f"{wheel}: {what} is left out: {reason}")
