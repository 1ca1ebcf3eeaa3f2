"""Mutated input for every command: what may come of it is success with right output or a refusal."""
