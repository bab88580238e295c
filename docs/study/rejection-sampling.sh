# docs/choosing.md#how-do-i-fine-tune-on-what-a-warm-start-gets-right: own solutions beside worked ones, then tiny-rft.
# bash docs/study/rejection-sampling.sh
set -e
worked="seed=1 output_dir=outputs/by-worked"
own="seed=1 output_dir=outputs/by-own data.worked=null data.rejection_sampling.problems=400"
own="$own data.rejection_sampling.model=outputs/by-worked/sft"
make sft RECIPE=smollm2-arithmetic ARGS="$worked"
make sft RECIPE=smollm2-arithmetic ARGS="$own"
.venv/bin/python -m stages evaluate recipes/smollm2-arithmetic.yaml $worked --validation
.venv/bin/python -m stages evaluate recipes/smollm2-arithmetic.yaml $own --validation
make compare RUNS="outputs/by-worked/sft outputs/by-own/sft"

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
