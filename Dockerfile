# The environment of requirements.lock, for a GPU with driver 580 or newer. Not yet run on one (docs/scaling.md).
#   docker build -t grpo-recipes .
#   docker run --gpus all --ipc=host -v "$PWD/outputs:/grpo-recipes/outputs" -v cache:/root/.cache grpo-recipes \
#     make grpo RECIPE=qwen-math-lora
# The volume `cache` keeps what was downloaded.
FROM python:3.11-slim-bookworm
# git says in a run's folder which commit it was; Triton compiles its kernels with gcc.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc git libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /grpo-recipes
COPY Makefile pyproject.toml requirements.lock ./
RUN make setup EXTRAS=vllm PIP_ARGS=--no-cache-dir
COPY . .
# The layer of `make setup` may be older than the repository's files, and make would install again in every container.
RUN touch .venv/installed
