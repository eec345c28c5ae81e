"""Numbers that users give and that the JVM keeps in 32 bits."""

from __future__ import annotations

from ..errors import error, shown

# Below what 32 bits hold, so that the operator can add to it.
MOST = 1_000_000_000


def check_count(option: str, value: object, example: object = 100) -> None:
    """Raises ``InvalidOption`` unless ``value`` is a whole number from 1 to ``MOST``."""
    _check(option, value, (int,), 1, MOST, "a whole number", example)


def check_between(option: str, value: object, low: int, high: int) -> None:
    """Raises ``InvalidOption`` unless ``value`` is a number between the two."""
    _check(option, value, (int, float), low, high, "a number", float(low))


def _check(
    option: str,
    value: object,
    kinds: tuple[type, ...],
    low: int,
    high: int,
    kind: str,
    example: object,
) -> None:
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if is_number and low <= value <= high:  # type: ignore[operator]
        return
    raise error(
        "INVALID_OPTION",
        option=option,
        expected=f"{kind} from {low} to {high}",
        value=shown(value),
        example=example,
    )
