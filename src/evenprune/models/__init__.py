"""Model folders: their weights, tokenizer, identity and dtype, GGUF files, and what may be trusted.

In comes the folder or file of a Hugging Face model. Out go a loaded model, its tensors one by one,
or a folder written anew.
"""
