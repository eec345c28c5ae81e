"""What limits and counts calls: the current call and what it used, limits of a task, keys, headers.

The package uses ``_arrow`` and ``_base``.
"""
