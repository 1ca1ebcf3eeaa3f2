"""The paper's claims, each tested on the numbers of a run.

A claim is a set of comparisons. Each has a *difference* that is positive where the claim
holds, a standard error, and a two-sided p-value against no difference (against the margin
where the claim says "about the same"). Errors are those of ``estimates.py``: over clusters of items
where items have them, paired on the same items. All distinct comparisons of the table are one
family for Holm's correction. Where a claim is about which matrices differ most there is no error
over items: p is that of Fisher's exact test. The table's notes (``tables.yaml``) say how the
verdict follows.
"""
