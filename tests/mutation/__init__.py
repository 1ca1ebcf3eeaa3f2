"""Mutated input for every command: it may end in right output or in a refusal."""
