"""What a large frame frees is kept for the next one, instead of going back to the system."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_KEPT = 128 << 20
_LARGEST = 32 << 20  # glibc takes no more


def keep_freed_memory() -> None:
    """Lets the C library keep up to 128 MiB that this process has freed. No-op without glibc.

    By its own rules glibc gives blocks of some hundred KiB back at once. A frame of columns then
    has its 80 MB mapped and zeroed again page by page, which took longer than the work on it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST)
    mallopt(_TRIM_THRESHOLD, _KEPT)
