# The workflow with its environment, from the locks.
#
#   docker build -t evenprune .                            # CPU
#   docker build -t evenprune --build-arg VARIANT=cuda .   # for --gpus all
#   docker run --rm -v "$PWD":/data -u "$(id -u):$(id -g)" evenprune snakemake -s /opt/evenprune/Snakefile --cores all
#   apptainer build evenprune.sif docker-daemon://evenprune:latest
#
# What is computed lies in /data, the caller's folder. The base image is named by its tag: no digest
# could be looked up where this was written. vLLM is not in it (make vllm-env).
FROM python:3.11-slim-bookworm

ARG VARIANT=cpu
ARG TORCH_INDEX=""
# make, git for workflows taken from git, LaTeX for the PDF.
RUN apt-get update \
 && apt-get install -y --no-install-recommends make git latexmk texlive-latex-base \
    texlive-latex-recommended texlive-latex-extra \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/evenprune
# The packages first: a change of the code does not install them again.
COPY Makefile pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY src src
COPY worlds worlds
RUN PIP_NO_CACHE_DIR=1 make env VARIANT=$VARIANT TORCH_INDEX=$TORCH_INDEX PYTHON=python3.11 VENV=/opt/venv
COPY . .

# A name for callers whose number (-u) the image does not know: Snakemake asks for one.
ENV PATH=/opt/venv/bin:$PATH HF_HUB_DISABLE_TELEMETRY=1 HOME=/tmp LOGNAME=evenprune
WORKDIR /data
CMD ["evenprune", "--help"]
