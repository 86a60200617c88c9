# SPDX-License-Identifier: Apache-2.0
"""Classifies 360 handwritten digits that the model has never seen, on every device, and compares
what the devices say.

    digits.py FOLDER [DEVICE ...]    FOLDER: docs/examples/digits; by default all devices
"""

import asyncio
import pathlib
import sys

import numpy as np

import backplane as bp

ACCURACY_GOAL = 0.97


async def in_batches(session, images, size):
    """All batches at once: each run is awaited while the others go on."""
    runs = [session.run_async({"image": images[i : i + size]}) for i in range(0, len(images), size)]
    outputs = await asyncio.gather(*runs)
    return np.concatenate([output["probabilities"].numpy().argmax(axis=1) for output in outputs])


def classify(folder, device, images):
    with bp.load(folder / "digits.onnx", device=device) as session:
        x = bp.asarray(images, device=device)
        found = session(x).numpy().argmax(axis=1)
        again = asyncio.run(in_batches(session, x, 64))
        assert np.array_equal(found, again), f"{device}: batches see other digits"
        print(f"{device}: {session.placement}")
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: digits.py FOLDER [DEVICE ...]\nFOLDER holds digits.onnx and heldout.npz")
    folder = pathlib.Path(sys.argv[1])
    heldout = np.load(folder / "heldout.npz")
    images, labels = heldout["image"], heldout["label"]
    seen = {}
    for name in sys.argv[2:] or [device.name for device in bp.devices()]:
        seen[name] = classify(folder, name, images)
        accuracy = float(np.mean(seen[name] == labels))
        print(f"{name}: {accuracy:.1%} of {len(labels)} digits")
        assert accuracy >= ACCURACY_GOAL, f"{name}: expected {ACCURACY_GOAL:.0%}"
    first, *others = seen
    for name in others:
        assert np.array_equal(seen[name], seen[first]), f"{name} and {first} see other digits"
    print(f"{', '.join(seen)} see the same digits")


if __name__ == "__main__":
    main()
