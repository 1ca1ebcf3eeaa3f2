"""Records of other evaluators as sides of ``compare``: lm-eval, Inspect, every_eval_ever."""
