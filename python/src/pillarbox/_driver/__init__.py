"""The driver's side: the functions that users call on DataFrames, and the clients of the JVM.

``client.classic`` alone touches py4j. This package uses ``_async``, ``_keyed``, ``_arrow`` and
``_base``, and never ``_worker``, since the JVM starts the workers of engine="jvm".
"""
