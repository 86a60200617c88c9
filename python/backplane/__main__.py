# SPDX-License-Identifier: Apache-2.0
"""``python -m backplane``: see _cli."""

from ._cli import main

main()
