"""What each job's result depends on, as files that travel with the results (plan/steps.py).

REQUIRED INPUTS: none.
OUTPUTS: .parameters/{rule}/{job}/{digest}, an empty file for each job of the run. A changed digest
is a new file, hence a newer input: results are made again where they are stale also where
Snakemake's own record, .snakemake/, was not copied with them.
"""


def fingerprint(kind, name, entry):
    """What fetching would bring: the mirror's bytes, or what the lock pins; steps make a world."""
    if CONFIG.source == "world" and not entry.get("path"):
        return ""
    return sources.fingerprint(kind, name, entry, MIRROR, CONFIG.lock)


for package, version in package_versions("torch", "transformers", "lm_eval").items():
    if version == "absent" and not BY_CONDA:
        raise WorkflowError(
            f"this Snakemake runs on {sys.executable}, which lacks the Python package {package}; "
            "build the workflow's environment with `make env` and use its snakemake "
            "(`source .venv/bin/activate`), or give --sdm conda"
        )

try:
    OWN_ERRORS, ABSENT = sources.unresolved(
        jobs.needed_sources(CONFIG), MIRROR, CONFIG.lock
    )
    if OWN_ERRORS:
        raise UserError("\n".join(OWN_ERRORS))
    PARAMETERS = steps.parameter_files(PATHS, fingerprint)
except UserError as error:
    raise WorkflowError(str(error)) from None
if ABSENT and workflow.is_main_process:
    print(
        f"{len(ABSENT)} sources are not here yet:", *ABSENT, sep="\n  ", file=sys.stderr
    )
NEW_PARAMETERS = [name for name in PARAMETERS.values() if not Path(name).exists()]


def parameters(rule_name, job=steps.ALL):
    """The file of a job that its wildcards name in the pattern ``job``; none of a foreign job."""

    def found(wildcards):
        name = job.format(**dict(wildcards.items()))
        return PARAMETERS.get((rule_name, name), [])

    return found
