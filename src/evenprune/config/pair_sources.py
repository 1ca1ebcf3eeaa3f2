"""Where calibration pairs and texts can come from; apart from the tasks, whose facts are more."""

# Data sets of the catalogue that calibration pairs and texts can come from, and the pairs' bias
# types where they are known. A data set of another name has pairs, or texts, of one's own.
PAIR_SOURCES = ("stereoset", "crows_pairs", "question_pairs")
TEXT_SOURCES = ("ultrachat", "ultrachat_gen")
ALIGNMENTS = ("equal-length", "pad", "suffix")  # of pairs of unequal length, the first by default
BIAS_TYPES = {
    "stereoset": ("gender", "profession", "race", "religion"),
    "crows_pairs": (
        *("age", "disability", "gender", "nationality", "physical-appearance"),
        *("race-color", "religion", "sexual-orientation", "socioeconomic"),
    ),
}
