# docs/results.md#smollm2-svamp: five seeds, judged in sampled and in greedy answers.
# bash docs/study/smollm2-svamp.sh
set -e
recipe=RECIPE=smollm2-svamp
for seed in 1 2 3 4 5; do
  run="seed=$seed output_dir=outputs/smollm2-svamp/seed-$seed data.pass_rate=[0.1,0.9]"
  make sft $recipe ARGS="$run"
  make probe $recipe ARGS="$run --samples 4"
  make grpo $recipe ARGS="$run"
  make evaluate $recipe ARGS="$run"
  run="seed=$seed output_dir=outputs/smollm2-svamp-sampled/seed-$seed evaluate.temperature=1 evaluate.samples=2"
  models="outputs/smollm2-svamp/seed-$seed/sft outputs/smollm2-svamp/seed-$seed/grpo"
  make evaluate $recipe ARGS="$run" MODEL="$models"
  .venv/bin/python -m stages evaluate recipes/smollm2-svamp.yaml seed=$seed output_dir=outputs/validation-$seed \
    grpo.eval_steps=null --validation --model outputs/smollm2-svamp/seed-$seed/sft \
    --model outputs/smollm2-svamp/seed-$seed/grpo
done
