"""A model taken apart: its decoder blocks one at a time, and the calibration text on its way.

In come a model folder and tokenised pairs and texts. Out go blocks with their weights, batches with
the plan of how their tokens count, and the inputs of the linear layers of each block.
"""
