"""Benchmarks of a checkpoint: a module a task, run on transformers or vLLM.

In come a model folder and the items of data sets. Out goes a folder a benchmark with a record an
item, and the metrics of its records.
"""
