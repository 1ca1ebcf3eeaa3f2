"""Results, tables, figures and the PDF.

REQUIRED INPUTS: evals/, serving/, calibration/ of all checkpoints, sources/data/ of the items.
OUTPUTS: run_sheet.json, results.csv, significance.csv, tables/, figures/, report/items.json,
report/paper.html, paper.pdf.
"""

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
        depends=depends("write_run_sheet"),
    run:
        write_run_sheet(output[0], PATHS)


use rule write_run_sheet as list_checkpoints with:
    """Write the run sheet as it was when last anything of it changed that decides a number."""
    output:
        "<results>/checkpoints.json",
    log:
        "<results>/logs/list_checkpoints.log",
    params:
        depends=depends("list_checkpoints"),


use rule step as collect_results with:
    """Gather every metric into one tidy table and test the differences."""
    input:
        run_sheet="<results>/checkpoints.json",
        measured=PATHS.measured_files(),
    output:
        results=in_report(NUMBERS, "results", file="values"),
        significance=in_report(TESTS, "results", file="differences"),
        sums=["<results>/results.csv.sha256", "<results>/significance.csv.sha256"],
    log:
        "<results>/logs/collect_results.log",
    params:
        depends=depends("collect_results"),
        command=told(
            "collect-results --run-sheet {input.run_sheet:q} --out {output.results:q}"
            " --significance {output.significance:q}"
        ),


use rule step as make_items with:
    """Join dense and pruned answers to each item with its texts, for the page."""
    input:
        run_sheet="<results>/checkpoints.json",
        evals=PATHS.evaluation_files(),
        data=PATHS.item_sources(),
    output:
        "<results>/report/items.json",
    log:
        "<results>/logs/make_items.log",
    params:
        depends=depends("make_items"),
        command=told("make-items --run-sheet {input.run_sheet:q} --out {output:q}"),


use rule step as make_tables with:
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
    params:
        depends=depends("make_tables"),
        command=told(
            "make-tables {document} --out {output[0]:q}",
            document=job_options.flags(PATHS.document() | {"items": PATHS.item_files()}),
        ),


use rule step as make_paper with:
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
    params:
        depends=depends("make_paper"),
        command=told(
            "make-paper {document} --out {output:q}",
            document=job_options.flags(PATHS.document()),
        ),
