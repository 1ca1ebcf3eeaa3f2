"""Causal language models, loaded with transformers.

In come a model folder and texts or rows of tokens. Out go losses, scores of options and greedy
answers, batch by batch, so that a killed run can go on.
"""
