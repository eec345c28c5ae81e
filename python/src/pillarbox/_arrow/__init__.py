"""Spark types and Arrow: DDL to types, rows out of columns, checked values into columns.

It knows values, their places and the sizes of batches, and neither calls nor keys, neither driver
nor worker. It uses ``_base``.
"""
