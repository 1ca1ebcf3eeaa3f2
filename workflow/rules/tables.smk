"""Results, tables, figures and the PDF, from evals/, serving/ and calibration/."""

SHEET, NUMBERS = "<results>/run_sheet.json", "<results>/results.csv"
TESTS = "<results>/significance.csv"


rule write_run_sheet:
    """Write the resolved configuration and the list of checkpoints."""
    output:
        in_report(SHEET, "run", what="configuration and checkpoints"),
    log:
        "<results>/logs/write_run_sheet.log",
    localrule: True
    params:
        **depends("write_run_sheet"),
    run:
        write_run_sheet(output[0], CONFIG)


rule collect_results:
    """Gather every metric into one tidy table and test the differences."""
    input:
        run_sheet=ancient(SHEET),
        measured=PATHS.measured_files(),
    output:
        results=in_report(NUMBERS, "results", file="values"),
        significance=in_report(TESTS, "results", file="differences"),
        sums=["<results>/results.csv.sha256", "<results>/significance.csv.sha256"],
    log:
        "<results>/logs/collect_results.log",
    conda:
        "../../environment.yml"
    resources:
        **needs(8000, 60),
    params:
        **depends("collect_results"),
    shell:
        "python -m evenprune.steps collect-results --run-sheet {input.run_sheet}"
        " --out {output.results} --significance {output.significance} >{log} 2>&1"


rule make_items:
    """Join dense and pruned answers to each item with its texts, for the page."""
    input:
        run_sheet=ancient(SHEET),
        evals=PATHS.evaluation_files(),
        data=PATHS.item_sources(),
    output:
        "<results>/report/items.json",
    log:
        "<results>/logs/make_items.log",
    conda:
        "../../environment.yml"
    resources:
        **needs(8000, 60),
    params:
        **depends("make_items"),
    shell:
        "python -m evenprune.steps make-items --run-sheet {input.run_sheet} --out {output}"
        " >{log} 2>&1"


rule make_tables:
    """Make all tables and figures, and one page of HTML that holds them and needs no other file."""
    input:
        answers=PATHS.item_files(),
        run_sheet=SHEET,
        significance=TESTS,
        results=NUMBERS,
        records=[PATHS.evaluation_files(), PATHS.serving_files()],
    output:
        in_report(PATHS.page, "paper", file="page"),
        *[in_report(file, "table") for file in PATHS.table_files("html")],
        *[in_report(file, "figure") for file in PATHS.figure_files("svg")],
        PATHS.table_files("tex", "csv", "md"),
        PATHS.figure_files("pdf", "png", "csv"),
    log:
        "<results>/logs/make_tables.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        **depends("make_tables"),
        answers=given("--items", "answers"),
        page=here(PATHS.page),
        results=here(CONFIG.results),
    shell:
        "python -m evenprune.steps make-tables --run-sheet {input.run_sheet} --results {input.results}"
        " --significance {input.significance} --tables {params.results}/tables"
        " --figures {params.results}/figures {params.answers} --out {params.page} >{log} 2>&1"


rule make_paper:
    """Typeset all tables and figures as one PDF, by LaTeX."""
    input:
        PATHS.table_files("tex"),
        PATHS.figure_files("pdf"),
        run_sheet=SHEET,
        results=NUMBERS,
        significance=TESTS,
    output:
        in_report("<results>/paper.pdf", "paper", file="PDF"),
    log:
        "<results>/logs/make_paper.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        **depends("make_paper"),
        results=here(CONFIG.results),
    shell:
        "python -m evenprune.steps make-paper --run-sheet {input.run_sheet} --results {input.results}"
        " --significance {input.significance} --tables {params.results}/tables"
        " --figures {params.results}/figures --out {output} >{log} 2>&1"
