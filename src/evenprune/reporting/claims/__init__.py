"""The paper's claims, each tested on the numbers of a run.

A claim is a set of comparisons. Each has a *difference* that is positive where the claim
holds, a standard error, and a two-sided p-value against no difference (against the margin
where the claim says "about the same"). Differences to SparseGPT on the same items are those of
significance.csv: paired, by cluster, with Student's t. All others take the standard errors over
items of results.csv as independent and normal: conservative for two models on the same items, but
blind to clusters. All distinct comparisons of the table are one family for Holm's correction.
Where a claim is about which matrices differ most there is no error over items: p is that of
Fisher's exact test. The table's notes (``tables.yaml``) say how the verdict follows. Only
results.csv, significance.csv and printed.csv are read.
"""
