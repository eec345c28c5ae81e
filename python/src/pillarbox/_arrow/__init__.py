"""Spark types and Arrow: DDL to types, rows out of columns, checked values into columns.

The package handles values, their places and the sizes of batches. It is independent of calls and
keys, of driver and worker, and uses ``_base``.
"""
