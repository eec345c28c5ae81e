"""Keyed process functions beside Spark's, Flink's and plain Arrow.

``python -m benchmarks.keyed.throughput`` (rows a second) and ``python -m benchmarks.keyed.batches``
(what a micro-batch, a commit and a restart cost).
"""
