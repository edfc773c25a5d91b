"""The text of `evalrun --help`."""

from evalrun.commands import COMMANDS

_TOP = """\
evalrun: ask a language model every question of a benchmark, keep every answer, and score them
with error bars.

  evalrun model=smollm2 task=demo_math                 the embedded model on your CPU, no network
  evalrun model=qwen task=gsm8k                        vLLM, Hugging Face hub
  evalrun model=vllm_server task=gsm8k model.base_url=http://127.0.0.1:8000/v1
  evalrun --mode infer model=NAME task=NAME            ask and save only
  evalrun --mode eval  model=NAME task=NAME            score the saved answers, anywhere
  evalrun --mode eval  --reuse latest 'metric=[exact_match,pass@k:k=1&n=2]'
  evalrun --mode viz   --reuse latest                  write the summary again
  evalrun -m model=smollm2,qwen task=demo_math,gsm8k   a sweep: one run each, one joint summary
  evalrun --dry-run model=NAME task=NAME               show the plan and one prompt; send nothing
  evalrun 'task=gsm8k@k=2&n=8'                         8 answers, pass@2; task=gsm8k|5: five-shot

Settings (key=value)
  model=NAME            a file of conf/model; change it by model.path=..., model.temperature=...,
                        model.max_tokens=...
  task=NAME             a file of tasks_yaml/task; or a list: task=[gsm8k,demo_math]; or suite=NAME
  metric=NAME           instead of the task's own: accuracy, exact_match, pass@k, cons@k, maj@n
  dataset.path=FILE     a local .jsonl, .csv, .parquet or .arrow file instead of the task's dataset
  num_return_sequences=N  answers per question (n = k = N)
  metric_files=[FILE.py]  your own metric: one file with one class (docs/metrics.md)
  limit=N  seed=N  output_dir=DIR  max_error_rate=0.01  allow_equal_samples=true

Flags
  --mode, -M MODE       all (default), infer, eval, viz
  --reuse RUN           a run folder, its time stamp, or latest: score it, show it, or continue
                        with its settings
  --resume              go on with the newest run of the same address: only what is missing is asked
  --limit N             the first N documents
  --dry-run             plan, number of requests, one rendered prompt
  --debug               stack traces; logs are printed instead of written
  --config-dir DIR      your own task/*.yaml, model/*.yaml, ...
  -m, --multirun        sweep over comma lists
  --cfg job             print the composed configuration
  -sc install=bash      shell completion: eval "$(evalrun -sc install=bash)" (zsh, fish too)

Commands
"""

_END = """\
Exit codes: 0 good, 1 internal fault, 2 asked wrongly, 3 failed or incomplete tasks, 130 Ctrl-C,
143 SIGTERM."""

HELP = "\n".join(
    [
        _TOP.rstrip(),
        *(f"  {line}" for command in COMMANDS.values() for line in command.lines()),
        "",
        _END,
    ]
)
