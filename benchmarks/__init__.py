"""End-to-end benchmarks of the Python API, run from the repository's root.

``python -m benchmarks.async_end_to_end`` and ``python -m benchmarks.async_overhead`` write their
tables and pictures to docs/benchmarks. Peers run beside our own code in the same run; nothing of
here is shipped. (Benchmarks of the JVM classes are JMH's, in jvm/bench.)
"""
