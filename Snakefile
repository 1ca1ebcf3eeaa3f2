# Lets `snakemake` run from the top of the repository; the workflow lies in workflow/.
include: "workflow/Snakefile"


rule default:
    default_target: True
    input:
        rules.all.input,
