"""Keyed process functions beside Spark's, Flink's and plain Arrow: speed of streams, cost of a batch.

``python -m benchmarks.keyed.throughput`` and ``python -m benchmarks.keyed.batches``.
"""
