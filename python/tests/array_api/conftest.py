# SPDX-License-Identifier: Apache-2.0
"""The devices of these tests: see support.py."""

import pytest

import support


@pytest.fixture(params=support.DEVICES)
def device(request):
    return request.param
