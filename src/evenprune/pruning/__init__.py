"""One-shot pruning of a whole model on disk, and what is looked at in a finished one.

In come a dense model, a method with its options, and calibration pairs and texts. Out go a model
folder with zeros, its manifest and card, a check of what was achieved, and a comparison of masks.
"""
