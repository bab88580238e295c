# docs/choosing.md#how-do-i-fine-tune-on-what-a-warm-start-gets-right: tiny-rft beside tiny-arithmetic.
# bash docs/study/rejection-sampling.sh
set -e
for seed in 1 2 3 4 5; do
  run="seed=$seed output_dir=outputs/tiny-arithmetic/seed-$seed"
  rft="seed=$seed output_dir=outputs/tiny-rft/seed-$seed"
  rft="$rft data.rejection_sampling.model=outputs/tiny-arithmetic/seed-$seed/sft"
  make sft ARGS="$run"
  make sft RECIPE=tiny-rft ARGS="$rft"
  .venv/bin/python -m stages evaluate recipes/tiny-arithmetic.yaml $run --validation
  .venv/bin/python -m stages evaluate recipes/tiny-rft.yaml $rft --validation
done
make compare RUNS="outputs/tiny-arithmetic/seed-*/sft outputs/tiny-rft/seed-*/sft"
