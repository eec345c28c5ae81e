"""The context variables that calls start with."""

from __future__ import annotations

import contextvars
import decimal


class CallContext:
    """The context in which it is made, as it is then; each call gets a copy of ``context``.

    A decimal context is an object that can be changed, so a copied variable would still share it:
    each call gets a copy of ``decimals`` too, unless there is none yet, and each makes its own.
    """

    def __init__(self) -> None:
        self.context = contextvars.copy_context()
        # The variable itself is not to be had, and reading it by decimal.getcontext would set it.
        found = (value for var, value in self.context.items() if var.name == "decimal_context")
        shared = next(found, None)
        self.decimals = shared.copy() if isinstance(shared, decimal.Context) else None
