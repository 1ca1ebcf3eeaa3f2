"""Results, tables, figures and the PDF.

REQUIRED INPUTS: evals/, serving/, calibration/ of all checkpoints, sources/data/ of the items.
OUTPUTS: run_sheet.json, results.csv, significance.csv, tables/, figures/, report/items.json,
report/paper.html, paper.pdf.
"""

# What the page and the PDF are made of: the same files in other forms.
DOCUMENT = " ".join(
    f"--{name} {shlex.quote(f'{CONFIG.results}/{path}')}"
    for name, path in (
        ("run-sheet", "run_sheet.json"),
        ("results", "results.csv"),
        ("significance", "significance.csv"),
        ("tables", "tables"),
        ("figures", "figures"),
        *([("world", "report/world.csv")] if PATHS.world_values else []),
    )
)


rule write_run_sheet:
    """Write the resolved configuration and the list of checkpoints."""
    output:
        run_sheet=report(
            "<results>/run_sheet.json",
            caption="../report/run_sheet.rst",
            category="Run",
            labels={"what": "configuration and checkpoints"},
        ),
    log:
        "<results>/logs/write_run_sheet.log",
    localrule: True
    params:
        depends=depends("write_run_sheet"),
    run:
        write_run_sheet(output.run_sheet, PATHS)


rule list_checkpoints:
    """Write the run sheet as it was when last anything of it changed that decides a number."""
    output:
        checkpoints="<results>/checkpoints.json",
    log:
        "<results>/logs/list_checkpoints.log",
    localrule: True
    params:
        depends=depends("list_checkpoints"),
    run:
        write_run_sheet(output.checkpoints, PATHS)


rule collect_results:
    """Gather every metric into one tidy table and test the differences."""
    input:
        run_sheet="<results>/checkpoints.json",
        evals=PATHS.evaluation_files(),
        checks=PATHS.pruned_files(),
        masks=PATHS.mask_files(),
        calibrations=PATHS.calibration_files(),
        serving=PATHS.serving_files(),
    output:
        results=report(
            "<results>/results.csv",
            caption="../report/results.rst",
            category="Results",
        ),
        significance=report(
            "<results>/significance.csv",
            caption="../report/significance.rst",
            category="Results",
        ),
        results_sum="<results>/results.csv.sha256",
        significance_sum="<results>/significance.csv.sha256",
    log:
        "<results>/logs/collect_results.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(30),
    params:
        depends=depends("collect_results"),
    shell:
        "python -m evenprune.steps collect-results --run-sheet {input.run_sheet:q}"
        " --out {output.results:q} --significance {output.significance:q} 2>&1 | tee {log:q}"


rule make_table:
    """Render the table {wildcards.table} as LaTeX, CSV, Markdown and HTML."""
    input:
        run_sheet="<results>/run_sheet.json",
        results="<results>/results.csv",
        significance="<results>/significance.csv",
        measurements=lambda wildcards: PATHS.measurements_of(wildcards.table),
    output:
        tex="<results>/tables/{table}.tex",
        csv="<results>/tables/{table}.csv",
        md="<results>/tables/{table}.md",
        html=report(
            "<results>/tables/{table}.html",
            caption="../report/table.rst",
            category=lambda wildcards: shown.TABLES[wildcards.table]["section"],
            labels=lambda wildcards: shown_as("table", shown.TABLES[wildcards.table]),
        ),
    log:
        "<results>/logs/make_table/{table}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(10),
    params:
        depends=depends("make_table", "{table}"),
        prefix=subpath(output.tex, strip_suffix=".tex"),
        # Words of the report only: of the input, so that it reruns nothing.
        words=lambda wildcards, input: shown.TABLES[wildcards.table]["shows"],
        note=lambda wildcards, input: (
            printed_anomaly() if wildcards.table.startswith("efficiency") else ""
        ),
    shell:
        "python -m evenprune.steps make-table --table {wildcards.table} --run-sheet {input.run_sheet:q}"
        " --results {input.results:q} --significance {input.significance:q}"
        " --out-prefix {params.prefix:q} 2>&1 | tee {log:q}"


rule make_figure:
    """Draw the figure {wildcards.figure}."""
    input:
        run_sheet="<results>/run_sheet.json",
        results="<results>/results.csv",
        records=lambda wildcards: PATHS.records_of(wildcards.figure),
    output:
        pdf="<results>/figures/{figure}.pdf",
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/figure.rst",
            category=lambda wildcards: shown.FIGURES[wildcards.figure]["section"],
            labels=lambda wildcards: shown_as(
                "figure", shown.FIGURES[wildcards.figure]
            ),
        ),
        png="<results>/figures/{figure}.png",
        csv="<results>/figures/{figure}.csv",
    log:
        "<results>/logs/make_figure/{figure}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(10),
    params:
        depends=depends("make_figure", "{figure}"),
        prefix=subpath(output.pdf, strip_suffix=".pdf"),
        words=lambda wildcards, input: shown.FIGURES[wildcards.figure]["shows"],
    shell:
        "python -m evenprune.steps make-figure --figure {wildcards.figure} --run-sheet {input.run_sheet:q}"
        " --results {input.results:q} --out-prefix {params.prefix:q}"
        " 2>&1 | tee {log:q}"


rule make_items:
    """Join dense and pruned answers to each item with its texts, for the page."""
    input:
        run_sheet="<results>/checkpoints.json",
        evals=PATHS.evaluation_files(),
        data=PATHS.item_sources(),
    output:
        answers="<results>/report/items.json",
    log:
        "<results>/logs/make_items.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(30),
    params:
        depends=depends("make_items"),
    shell:
        "python -m evenprune.steps make-items --run-sheet {input.run_sheet:q}"
        " --out {output.answers:q} 2>&1 | tee {log:q}"


rule make_page:
    """Put all tables, figures and items into one page of HTML that needs no other file."""
    input:
        PATHS.table_files(),
        PATHS.figure_files(),
        PATHS.world_values,
        answers=PATHS.item_files(),
        run_sheet="<results>/run_sheet.json",
        significance="<results>/significance.csv",
    output:
        page=report(
            PATHS.page,
            caption="../report/paper.rst",
            category="Paper",
            labels={"file": "page"},
        ),
    log:
        "<results>/logs/make_page.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(10),
    params:
        depends=depends("make_page"),
        document=local(DOCUMENT),
        answers=local(flag("items", " ".join(PATHS.item_files()))),
    shell:
        "python -m evenprune.steps make-page {params.document} {params.answers} --out {output.page:q} 2>&1 | tee {log:q}"


rule make_paper:
    """Typeset all tables and figures as one PDF, by LaTeX."""
    input:
        PATHS.table_files(),
        PATHS.figure_files(),
        PATHS.world_values,
        run_sheet="<results>/run_sheet.json",
        significance="<results>/significance.csv",
    output:
        pdf=report(
            "<results>/paper.pdf",
            caption="../report/paper.rst",
            category="Paper",
            labels={"file": "PDF"},
        ),
    log:
        "<results>/logs/make_paper.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(10),
    params:
        depends=depends("make_paper"),
        document=local(DOCUMENT),
    shell:
        "python -m evenprune.steps make-paper {params.document}"
        " --out {output.pdf:q} 2>&1 | tee {log:q}"
