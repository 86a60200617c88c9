# SPDX-License-Identifier: Apache-2.0
"""torch.compile(..., options={...})."""

import dataclasses

import backplane as bp


@dataclasses.dataclass(frozen=True)
class Options:
    device: bp.Device
    fallback: str = "warn"  # or "error"
    load: dict = dataclasses.field(default_factory=dict)  # what bp.load gets beside the device


_LOAD = ("deterministic", "memory_limit")
_NAMES = ("device", "fallback", *_LOAD)


def _refuse(name, expected, found):
    raise bp.InvalidArgumentError(
        f"torch.compile: option {name!r}: expected {expected}, found {found!r}"
    )


def _check_load(options):
    deterministic = options.get("deterministic", False)
    if not isinstance(deterministic, bool):
        _refuse("deterministic", "True or False", deterministic)
    limit = options.get("memory_limit")
    is_count = isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < 2**63
    if limit is not None and not is_count:
        _refuse("memory_limit", "a positive count of bytes or None", limit)


def parse(options):
    """Throws INVALID_ARGUMENT by name for what is unknown or wrong."""
    if not isinstance(options, (dict, type(None))):
        raise bp.InvalidArgumentError(f"torch.compile: options: expected a dict, found {options!r}")
    options = dict(options or {})
    for name in options:
        if name not in _NAMES:
            raise bp.InvalidArgumentError(
                f"torch.compile: unknown option {name!r}; backplane knows {', '.join(_NAMES)}"
            )
    fallback = options.get("fallback", "warn")
    if fallback not in ("warn", "error"):
        _refuse("fallback", "'warn' or 'error'", fallback)
    _check_load(options)
    device = options.get("device")
    if device is None:
        device = bp.default_runtime().default_device
    elif isinstance(device, str):
        device = bp.device(device)
    elif not isinstance(device, bp.Device):
        raise bp.InvalidArgumentError(
            "torch.compile: option 'device': expected a Device or its name, found "
            f"{type(device).__name__}"
        )
    return Options(device, fallback, {name: options[name] for name in _LOAD if name in options})
