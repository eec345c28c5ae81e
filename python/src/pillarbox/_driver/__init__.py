"""What runs on the driver: the functions that users call on DataFrames, and the door to the JVM.

``door.classic`` alone touches py4j. Nothing here may use ``_worker``: the workers of engine="jvm"
are started by the JVM. It uses ``_async``, ``_keyed``, ``_arrow`` and ``_base``.
"""
