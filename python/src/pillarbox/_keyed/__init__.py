"""Keyed process functions: the base classes of users, and the plain-Python runtime for them.

A ``KeyedRuntime`` runs one function over keys, with state, TTL and timers in Python objects, and
without Spark, sockets or files. The test harness keeps all keys in it, the worker of an executor
those of one frame. The package uses ``_arrow`` and ``_base``, neither py4j nor the worker's
protocol, and Arrow only to convert columns to values and back (``values``, ``output``,
``columnar``).
"""
