# SPDX-License-Identifier: Apache-2.0
"""What a new Runtime is told besides the options that the program names."""

import os

from . import _logging, _plugins


def for_runtime(options, has_install_dir):
    """Further options. ``options``: those of the program, stronger than the environment. With an
    install_dir of its own it gets no plugins of other wheels, for they are installed ones too."""
    _logging.start()
    further = {}
    level = _logging.wanted_level()
    if level is not None and "BACKPLANE_LOG" not in options:
        further["BACKPLANE_LOG"] = level
    if not has_install_dir:
        named = options.get("BACKPLANE_PLUGIN_PATH", os.environ.get("BACKPLANE_PLUGIN_PATH"))
        path = _plugins.search_path(named)
        if path != named:
            further["BACKPLANE_PLUGIN_PATH"] = path
    return further
