"""The command ``gpu-check``: this program tried on a GPU, with a model made on the spot.

In comes nothing but the machine. Out goes a report: times, memory, and whether GPU and CPU agree.
"""
