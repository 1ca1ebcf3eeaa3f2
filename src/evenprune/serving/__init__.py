"""Efficiency of a checkpoint: throughput, energy and CO2, and 2:4 weights that stay compressed.

In come dense and pruned model folders. Out go efficiency.json and folders that vLLM reads.
"""
