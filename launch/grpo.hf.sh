#!/bin/bash
# GRPO as a job of Hugging Face: this runs inside it, does what `make grpo` does, and keeps the run's folder in a bucket of
# yours, for the job's disk ends with the job. The same command again resumes.
#
#   hf buckets create me/grpo --private
#   hf jobs run --flavor a10g-large --timeout 12h --secrets HF_TOKEN --env RECIPE=qwen-math-lora --env BUCKET=me/grpo \
#     python:3.11-bookworm bash -c 'git clone https://github.com/me/grpo-recipes && cd grpo-recipes && launch/grpo.hf.sh'
#
# ARGS, ACCELERATE and PROCESSES are as for make. docs/scaling.md tells what to expect.
set -euo pipefail
name=$(basename -- "${RECIPE:?is the name of a recipe}" .yaml)
folder=outputs/$name
bucket=hf://buckets/${BUCKET:?is the name of a bucket, such as me/grpo}/$name
export RECIPE ARGS="${ARGS-} output_dir=${folder@Q}"  # whatever else names one: what is not kept is lost

# Copied, for in a bucket mounted with `-v` no file can be appended to (hf-mount's default). One at a time: the last must not
# be overtaken by one that began before it.
keep() { flock "$folder" .venv/bin/hf buckets sync "$folder" "$bucket" --delete --quiet; }

# Two jobs would overwrite each other's files: the one that began later has the bucket.
job="$HOSTNAME $$ $(date +%s)"
mine() {
  local holder
  holder=$(.venv/bin/hf buckets cp "$bucket.job" -) || return 0  # not reached: it may be again
  [[ $holder == *"$job"* ]] || { echo "another job has begun with $bucket: this one ends" >&2; return 1; }
}

make setup EXTRAS=vllm
mkdir -p "$folder"
.venv/bin/hf buckets cp - "$bucket.job" <<< "$job"
.venv/bin/hf buckets sync "$bucket" "$folder" --quiet
make grpo &
making=$!
trap 'kill $making' TERM  # at the job's end: make finishes a step and saves it
while sleep "${EVERY:-300}"; do
  mine || { kill $making; break; }
  keep || echo "not kept this time" >&2
done &
keeping=$!
code=0
wait $making || code=$?
while kill -0 $making 2>/dev/null; do code=0; wait $making || code=$?; done  # a trap ends a `wait`
kill $keeping || true  # it has ended where EVERY is no time
if mine; then keep; fi
exit $code
