"""The paper's claims, each tested on the numbers of a run.

A claim is a set of comparisons. Each has a *difference* that is positive where the claim
holds, a standard error, and a two-sided p-value against no difference (against the margin
where the claim says "about the same"), by the normal distribution. Differences to SparseGPT
on the same items are paired and take the clustered bootstrap interval of significance.csv
where items are clustered. All others take the standard errors over items of results.csv as
independent: conservative for two models on the same items, blind to clusters. All distinct
comparisons of the table are one family for Holm's correction. Where a claim is about which
matrices differ most there is no error over items: p is that of Fisher's exact test.
``verdict.RULE`` says how the verdict follows. Only results.csv, significance.csv and printed.csv
are read.
"""
