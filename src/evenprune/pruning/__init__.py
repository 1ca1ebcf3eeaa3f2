"""One-shot pruning of Hugging Face causal language models, one decoder block at a time.

In come a dense model, a method with its options, and calibration pairs and texts. Out go a model
folder with zeros, its manifest and card, and a check of what was achieved.
"""
