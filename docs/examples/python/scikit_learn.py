# SPDX-License-Identifier: Apache-2.0
"""scikit-learn on a device, by the array API: scaling, distances, principal components, and a ridge
regression, compared with the same of NumPy arrays. Needs scikit-learn.

    scikit_learn.py [DEVICE ...]     by default all devices
"""

import os
import sys

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported

import numpy as np
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

import backplane as bp


def results(x, y):
    """By name, as tensors on the device of x, or arrays where x is one."""
    scaled = StandardScaler().fit_transform(x)
    return {
        "StandardScaler": scaled,
        "euclidean_distances": euclidean_distances(scaled),
        "PCA": PCA(n_components=3, svd_solver="full").fit_transform(x),
        "Ridge": Ridge(solver="svd").fit(x, y).predict(x),
    }


def main():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 8)).astype("float32")
    y = (x @ np.arange(8) + rng.normal(size=60)).astype("float32")
    expected = results(x, y)
    for name in sys.argv[1:] or [device.name for device in bp.devices()]:
        with sklearn.config_context(array_api_dispatch=True):
            found = results(bp.asarray(x, device=name), bp.asarray(y, device=name))
        for function, values in found.items():
            assert isinstance(values, bp.Tensor) and values.device.name == name
            wrong = np.abs(values.numpy() - expected[function]).max()
            assert wrong < 1e-3, f"{function} on {name}: off by {wrong}"
        print(f"{name}: {', '.join(found)} as of NumPy")


if __name__ == "__main__":
    main()
