"""One-shot pruning of Hugging Face causal language models, one decoder block at a time."""
