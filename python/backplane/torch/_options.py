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


def parse(options):
    """Throws INVALID_ARGUMENT by name for what is unknown or wrong."""
    options = dict(options or {})
    for name in options:
        if name not in _NAMES:
            raise bp.InvalidArgumentError(
                f"torch.compile: unknown option {name!r}; backplane knows {', '.join(_NAMES)}"
            )
    fallback = options.get("fallback", "warn")
    if fallback not in ("warn", "error"):
        raise bp.InvalidArgumentError(
            f"torch.compile: option 'fallback': expected 'warn' or 'error', found {fallback!r}"
        )
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
