# SPDX-License-Identifier: Apache-2.0
"""The devices that tests run on. PYTHONPATH names the built package."""

import os

os.environ.setdefault("BACKPLANE_LOG", "error")

import pytest

import backplane as bp

pytest_plugins = ["cases_report"]  # --report FOLDER

# Those that every build has; xpu needs an OpenCL driver.
EXPECTED = ("cpu:0", "npu:0")


def _names():
    found = [device.name for device in bp.devices()]
    missing = [name for name in EXPECTED if name not in found]
    assert not missing, f"no device {missing} among {found}: the build's plugins were not found"
    return [name for name in (*EXPECTED, "xpu:0") if name in found]


DEVICES = _names()


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param
