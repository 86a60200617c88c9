# SPDX-License-Identifier: Apache-2.0
"""These run where torch and its ONNX exporter are: in an environment of their own."""

import warnings

import pytest

try:
    import onnxscript  # noqa: F401  the exporter's
    import torch
except ImportError:
    collect_ignore_glob = ["test_*.py"]
else:
    import backplane.torch

    @pytest.fixture(autouse=True)
    def fresh():
        """No graphs and no counters of the test before; a fallback is a failure if not awaited."""
        torch._dynamo.reset()
        backplane.torch.reset_report()
        torch.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("error", backplane.torch.FallbackWarning)
            yield
