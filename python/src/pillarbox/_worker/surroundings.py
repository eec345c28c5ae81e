"""The context variables that calls start with."""

from __future__ import annotations

import contextvars
import decimal


class Surroundings:
    """The context of whoever makes it, as it is now; each call gets a copy of its own.

    A decimal context is an object that can be changed, so a copied variable would still share it:
    it is copied too.
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        # The variable itself is not to be had, and reading it by decimal.getcontext would set it.
        found = (value for var, value in self._context.items() if var.name == "decimal_context")
        shared = next(found, None)
        self._decimal = shared.copy() if isinstance(shared, decimal.Context) else None

    def copy(self) -> contextvars.Context:
        """For one call, which is to ``enter`` it."""
        return self._context.copy()

    def enter(self) -> None:
        """First in the copy: from here on nothing is shared."""
        if self._decimal is not None:
            decimal.setcontext(self._decimal.copy())
