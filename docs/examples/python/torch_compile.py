# SPDX-License-Identifier: Apache-2.0
"""An unchanged PyTorch model on a Backplane device. The tests run it.

torch_compile.py [DEVICE]
"""

import sys

import torch
from torch import nn

import backplane.torch  # makes the backend known, where the package is not installed with pip

device = sys.argv[1] if len(sys.argv) > 1 else "cpu:0"
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(32, 10)).eval()
fast = torch.compile(model, backend="backplane", options={"device": device})

with torch.no_grad():  # else the device also hands out what gradients would need
    for batch in (2, 3, 8):  # torch makes a second graph, for batches of any size
        x = torch.randn(batch, 7, 32)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)

report = backplane.torch.report()
print(f"{report.graphs} graphs, {report.device_nodes} operators on {device}, "
      f"{report.torch_nodes} in torch")
