"""Data sets and models from packages, a mirror or the hub, and the calibration text made of them.

In come entries of the catalogue or a user's own files. Out go folders ``sources/`` with checksums,
items of the benchmarks, and pairs and texts for pruning.
"""
