"""Measuring a model folder: benchmarks that are kept and resumed, and divergence from a base.

In come a model folder, benchmarks by name and their data. Out goes a folder a benchmark, with its
records and metrics.
"""
