"""A pruned model against its dense one, on the same items: what ``evenprune compare`` prints."""
