# SPDX-License-Identifier: Apache-2.0
"""The exceptions: one for each status that Python has a word for."""


class Error(RuntimeError):
    """What the library answered, in its words. ``status`` is its name, such as "GONE"; ``op`` the
    operator that failed, such as "matmul", or None where the library tells none."""

    status: str = "INTERNAL"
    op: str | None = None


class InvalidArgumentError(Error, ValueError):
    """The call is wrong: mend the call."""

    status = "INVALID_ARGUMENT"


class UnsupportedError(Error, NotImplementedError):
    """A correct call that this device or library cannot do."""

    status = "UNSUPPORTED"


class OutOfMemoryError(Error, MemoryError):
    """The device has no memory left for this."""

    status = "OUT_OF_MEMORY"


class TimedOutError(Error, TimeoutError):
    """A deadline passed; the work may still finish."""

    status = "TIMEOUT"


class CancelledError(Error):
    """A run was stopped on request, or by closing its Runtime."""

    status = "CANCELLED"


class MissingFileError(Error, FileNotFoundError):
    """There is no file where load() was told to look: ``filename``."""

    status = "UNAVAILABLE"

    def __init__(self, *args: object) -> None:  # RuntimeError's knows of no file
        FileNotFoundError.__init__(self, *args)


# The extension looks here; other statuses are plain Errors.
BY_STATUS = {
    kind.status: kind
    for kind in (
        InvalidArgumentError,
        UnsupportedError,
        OutOfMemoryError,
        TimedOutError,
        CancelledError,
    )
}
