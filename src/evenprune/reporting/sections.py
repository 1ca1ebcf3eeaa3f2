"""What each table and figure shows, in words, and where the paper has it: for Snakemake's report.

No imports: Snakemake reads this module for every run, and it decides no result.
"""

MAIN, CATEGORIES, REGIMES = "Main Results", "Category-Level UnQover Evaluation", "Sparsity Regimes"
UNCERTAINTY, CALIBRATION = "Predictive Uncertainty", "Calibration Data Impact"
EFFICIENCY, PATTERNS = "Efficiency Evaluation", "Analysis of Learned Sparsity Patterns"
SAFETY, SETUP, BEYOND = "Safety Evaluation", "Method and Setup", "Beyond the Paper"
# slug -> (section, what it shows); of tables and figures alike.
TABLES = {
    "answer": (MAIN, "What pruning did to each model, and whether it is less fair"),
    "main": (MAIN, "All benchmarks and DTO of dense and pruned models at 1:4"),
    "more_models": (MAIN, "All benchmarks and DTO of further models at 1:4"),
    "methods": (SETUP, "The methods that are compared"),
    "models": (SETUP, "The models, their sizes and labels"),
    "licences": (SETUP, "Licences of models and data"),
    "benchmarks": (SETUP, "The benchmarks, their items and what is measured"),
    "calibration": (SETUP, "The calibration data, pairs kept and dropped"),
    "protocols": (SETUP, "Protocols by their distance to the printed rows"),
    "regimes": (REGIMES, "All benchmarks over the sparsity regimes"),
    "regimes_one": (REGIMES, "One model over the sparsity regimes"),
    "ultrachat": (CALIBRATION, "Effect of UltraChat texts in the calibration at 2:4"),
    "ultrachat_full": (CALIBRATION, "The same with all benchmarks"),
    "calib_size": (CALIBRATION, "Effect of the number of UltraChat texts"),
    "calib_source": (CALIBRATION, "StereoSet against CrowS-Pairs as calibration pairs"),
    "efficiency": (EFFICIENCY, "Throughput, energy and CO₂ of dense and 2:4 models"),
    "efficiency_details": (EFFICIENCY, "The same by batch size, with ratios and intervals"),
    "confidence": (UNCERTAINTY, "Confidence and entropy of dense models on UnQover"),
    "confidence_methods": (UNCERTAINTY, "The same of pruned models"),
    "masks": (PATTERNS, "Where Debias-SparseGPT prunes other weights than SparseGPT"),
    "safety": (SAFETY, "Rates of unsafe answers"),
    "safety_details": (SAFETY, "The same with intervals, refusals and empty answers"),
    "bbq": (BEYOND, "BBQ by context, with its bias scores"),
    "stereoset": (BEYOND, "StereoSet and CrowS-Pairs by source of the calibration pairs"),
    "fidelity": (BEYOND, "How far answers of pruned models are those of the dense one"),
    "ours_vs_paper": (BEYOND, "Every number of this run beside the printed one"),
    "claims": (BEYOND, "The claims of the paper with verdicts on this run"),
}
FIGURES = {
    "algorithm": (SETUP, "Debias-SparseGPT for one matrix, step by step"),
    "stages": (SETUP, "The stages of this run with their jobs"),
    "examples": (MAIN, "Answers of three models to the same UnQover questions"),
    "dto": (MAIN, "UnQover over MMLU, with the distance to the optimum"),
    "motivation": (CATEGORIES, "Change of UnQover's error rate on religion by pruning"),
    "motivation_categories": (CATEGORIES, "The same in every category"),
    "unqover_heatmap": (CATEGORIES, "UnQover by category, and the differences to dense"),
    "regimes": (REGIMES, "Benchmarks over the sparsity regimes"),
    "calib_size": (CALIBRATION, "Benchmarks over the number of UltraChat texts"),
    "cost": (EFFICIENCY, "Seconds and joules for 1,000 tokens"),
    "throughput": (EFFICIENCY, "Throughput over the batch size, with its bounds"),
    "masks": (PATTERNS, "Share of groups that are pruned elsewhere, by layer and module"),
    "mask_profile": (PATTERNS, "The same by layer, beside random masks"),
    "frontier": (BEYOND, "Bias over perplexity"),
    "ours_vs_paper": (BEYOND, "Every number of this run over the printed one"),
}
