# SPDX-License-Identifier: Apache-2.0
"""Where this wheel's plugins are, for Backplane's Python package."""

import pathlib

plugins = pathlib.Path(__file__).parent / "lib" / "backplane" / "plugins"
