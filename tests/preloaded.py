"""What every stage makes once for itself, made before the processes of tests are forked: whoever
imports this has it (stage_process.py)."""

from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from evaluation import pages
from machine.hardware import has_arithmetic

get_checkpoint_conversion_mapping("qwen3")
has_arithmetic("bfloat16")
for template in sorted(path.name for path in pages.TEMPLATES.iterdir()):
    pages._environment().get_template(template)
