# docs/choosing.md: the variants of GRPO, rewards of steps, a KL, and brevity; five seeds each.
# bash docs/study/variants.sh
set -e
make tune RECIPE=tiny-gspo RATES="2.5e-5 5e-5 1e-4"
for name in arithmetic grpo-paper dapo dr-grpo gspo cispo sapo reinforce reinforce-pp; do
  make seeds RECIPE=tiny-$name
done
make compare RUNS="outputs/tiny-arithmetic outputs/tiny-grpo-paper outputs/tiny-dapo outputs/tiny-dr-grpo \
  outputs/tiny-gspo outputs/tiny-cispo outputs/tiny-sapo outputs/tiny-reinforce outputs/tiny-reinforce-pp"

printf 'base: tiny-arithmetic.yaml\ngrpo: {beta: 0.04}\n' > recipes/with-kl.yaml
make seeds RECIPE=tiny-process
make seeds RECIPE=with-kl
make compare RUNS="outputs/tiny-arithmetic outputs/tiny-process outputs/with-kl"

printf 'base: tiny-concise.yaml\nrewards: {brevity: {weight: 0}}\n' > recipes/without-brevity.yaml
make seeds RECIPE=tiny-concise
make seeds RECIPE=without-brevity
make compare RUNS="outputs/tiny-concise outputs/without-brevity"
