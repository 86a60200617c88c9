# SPDX-License-Identifier: Apache-2.0
"""PyTorch models on any Backplane device:

import backplane.torch
fast = torch.compile(model, backend="backplane", options={"device": "npu:0"})
with torch.no_grad():
    y = fast(x)

Needs the packages torch, onnx and onnxscript. What runs where: ``report()``.
"""

from importlib.metadata import entry_points

from torch._dynamo import register_backend

from ._backend import backend
from ._compiled import forget_weights
from ._report import Fallback, FallbackWarning, Report, report, reset_report

__all__ = [
    "Fallback",
    "FallbackWarning",
    "Report",
    "backend",
    "forget_weights",
    "report",
    "reset_report",
]

# An installed package is found by its entry point, and PyTorch takes a name only once.
if not entry_points(group="torch_dynamo_backends", name="backplane"):
    register_backend(backend, name="backplane")
