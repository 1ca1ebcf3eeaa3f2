"""Efficiency of a checkpoint: throughput, energy and CO2, and 2:4 weights that stay compressed."""
