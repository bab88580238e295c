# docs/results.md#qwen-coder-05b-svamp: GRPO with five seeds, its controls SFT and RFT, and ASDiv.
# bash docs/study/qwen-coder-0.5b-svamp.sh
set -e
recipe=RECIPE=qwen-coder-0.5b-svamp
for seed in 1 2 3 4 5; do
  run="seed=$seed output_dir=outputs/qwen-coder-0.5b-svamp/seed-$seed"
  make grpo $recipe ARGS="$run"
  make evaluate $recipe ARGS="$run"
done

sft="per_device_train_batch_size: 16, learning_rate: 1e-4, gradient_checkpointing: false"
worked="'sft={max_steps: 40, save_steps: 10, $sft}' output_dir=outputs/svamp-sft"
own="'sft={max_steps: 16, $sft}' 'data.rejection_sampling={problems: 64, samples: 8, keep: 8}'"
own="$own output_dir=outputs/svamp-rft"
make sft $recipe ARGS="$worked"
make sft $recipe ARGS="$own"
make evaluate $recipe MODEL="outputs/svamp-sft/sft/checkpoint-30 outputs/svamp-rft/sft"

run="seed=1 output_dir=outputs/qwen-coder-0.5b-svamp/seed-1"
make evaluate $recipe ARGS="$run evaluate.benchmarks=[asdiv] evaluate.limit=1000"
