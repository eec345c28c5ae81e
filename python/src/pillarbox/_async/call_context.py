"""The context variables that calls start with."""

from __future__ import annotations

import contextvars
import decimal


class CallContext:
    """A snapshot of the context in which it is made; each call gets a copy of ``context``.

    A decimal context is mutable, and a copied variable would share it. So each call gets a copy of
    ``decimals`` too, unless there is none yet and each call makes its own.
    """

    def __init__(self) -> None:
        self.context = contextvars.copy_context()
        # The variable itself is private to decimal, and decimal.getcontext would set it.
        found = (value for var, value in self.context.items() if var.name == "decimal_context")
        shared = next(found, None)
        self.decimals = shared.copy() if isinstance(shared, decimal.Context) else None
