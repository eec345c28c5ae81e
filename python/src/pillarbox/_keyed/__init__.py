"""Keyed process functions: what users derive from, and the plain-Python runtime that runs them.

A ``KeyedRuntime`` runs one function over keys, with state, TTL and timers in Python objects, and
knows nothing of Spark, sockets or files: the test harness keeps all keys in it, the worker of an
executor those of one frame. What may not live here: py4j, the worker's protocol, Arrow except to
turn columns to values and back (``values``, ``output``, ``columnar``). It uses ``_arrow`` and
``_base``.
"""
