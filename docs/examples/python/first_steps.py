# SPDX-License-Identifier: Apache-2.0
"""Tensors on every device of this machine: make, compute, look, write, and give to NumPy.

    first_steps.py [DEVICE ...]      by default all that there are
"""

import sys

import numpy as np

import backplane as bp


def main():
    names = sys.argv[1:] or [device.name for device in bp.devices()]
    for name in names:
        x = bp.asarray([[1.0, 2.0], [3.0, 4.0]], device=name)
        y = x @ x.T + 1
        y[0] = 7  # all views of y show it
        y[y > 20] = 0
        print(f"{name}: {y.tolist()}")
        assert np.array_equal(y.numpy(), [[7, 7], [12, 0]]), y

    # An operator takes its tensors from one device, and says so.
    if len(names) > 1:
        try:
            bp.ones(3, device=names[0]) + bp.ones(3, device=names[1])
        except bp.Error as error:
            print(f"{type(error).__name__}: {error}")

    # On the host's own device NumPy reads and writes the same memory.
    values = np.zeros(4, np.float32)
    shared = bp.asarray(values, device="cpu:0")
    shared += 1
    print(f"NumPy sees {values}")


if __name__ == "__main__":
    main()
