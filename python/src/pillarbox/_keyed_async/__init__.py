"""Asynchronous keyed functions: the runtime of ``_keyed`` with the attempts of ``_async``.

``runtime`` gives the calls of rows their state, ``row_attempts`` makes their attempts and undoes
what one has written. In a worker the JVM decides on attempts, in the test harness ``key_queues``
does. The package uses ``_keyed``, ``_async``,
``_arrow`` and ``_base``, and neither py4j nor the worker's protocol.
"""
