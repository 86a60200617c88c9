# SPDX-License-Identifier: Apache-2.0
"""The command line: the command ``backplane`` that lies in the package.

It takes this process's place, so that it is the same command in all it prints and answers. What it
does, ``doctor`` above all, is more than the API that the package binds.
"""

import os
import pathlib
import sys

from . import _plugins

PROGRAM = pathlib.Path(__file__).parent / "bin" / "backplane"
EXIT_ENVIRONMENT = 3  # as the command has it


def main():
    """Runs the command with this process's arguments. Does not return."""
    environment = dict(os.environ)
    path = _plugins.search_path(environment.get("BACKPLANE_PLUGIN_PATH"))
    if path is not None:
        environment["BACKPLANE_PLUGIN_PATH"] = path
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None: its descriptor is closed
            stream.flush()
    try:
        os.execve(PROGRAM, ["backplane", *sys.argv[1:]], environment)
    except OSError as error:
        print(f"backplane: the package lacks its command: {error}", file=sys.stderr)
        sys.exit(EXIT_ENVIRONMENT)
