# SPDX-License-Identifier: Apache-2.0
"""Who calls which function of backplane.array_api, and with tensors of which device."""

import functools
import pathlib
import runpy

import backplane as bp
import backplane.array_api as xp

FOLDER = pathlib.Path(__file__).resolve().parent / "array_api"
# Of functions that neither take nor answer a tensor, such as finfo.
NO_TENSOR = "no tensor"


def standard_functions():
    """The names of all functions of the standard, in the order of its sections."""
    names = runpy.run_path(str(FOLDER / "standard.py"))
    linalg = [f"linalg.{name}" for name in names["LINALG"]]
    return [*names["FUNCTIONS"], *linalg, *(f"fft.{name}" for name in names["FFT"])]


def native_functions():
    """{kind of device: the names in its native_*.txt}, as test_api_native.py has checked them."""
    found = {}
    for path in sorted(FOLDER.glob("native_*.txt")):
        lines = path.read_text(encoding="utf-8").splitlines()
        names = [line for line in lines if line and not line.startswith("#")]
        found[path.stem.removeprefix("native_")] = names
    return found


def watch(note):
    """From now on note(function, device) is called for each call of a function of the namespace.
    The modules behind it call each other by other names, so that their calls are not noted."""
    for name in standard_functions():
        space, _, function = name.rpartition(".")
        owner = getattr(xp, space) if space else xp
        setattr(owner, function, _noting(getattr(owner, function), name, note))


def _noting(call, name, note):
    @functools.wraps(call)
    def noted(*arguments, **keywords):
        try:
            found = call(*arguments, **keywords)
        except BaseException:
            note(name, _device_of((arguments, tuple(keywords.values()))))
            raise
        note(name, _device_of((found, arguments, tuple(keywords.values()))))
        return found

    return noted


def _device_of(values):
    """The name of the device of the first tensor in nested tuples and lists."""
    return next(_devices(values), NO_TENSOR)


def _devices(value):
    if isinstance(value, bp.Tensor):
        yield value.device.name
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _devices(one)
