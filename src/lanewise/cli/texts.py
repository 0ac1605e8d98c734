"""What the command line itself says: errors, progress, messages. English here, Japanese in ``translations/ja/cli.toml``."""

from __future__ import annotations

from lanewise.translations import Catalog

__all__ = ["TEXTS"]

TEXTS = Catalog(
    "cli",
    {
        # what was typed
        "file-for-command": "{word} is a file, not a command. To explain it: lanewise explain {word}",
        "near-command": "there is no command {word!r}. Did you mean {near}?",
        "unknown-command": "there is no command {word!r}. See: lanewise --help",
        "near-rule": "there is no rule {word!r}. Did you mean {near}?",
        "unknown-rule": "there is no rule {word!r}. All rules: lanewise rule",
        "see-help": "See: {command} --help",
        "missing": "{name} is missing.",
        "no-option": "there is no option {name}.",
        "no-option-near": "there is no option {name}. Did you mean {near}?",
        "too-many": "too many arguments: {words}.",
        "needs-value": "{name} needs a value.",
        "no-value": "{name} takes no value.",
        "bad-choice": "{value} is none of {choices}.",
        "bad-range": "{value} is not in the range {range}.",
        "bad-number": "{value} is not a number.",
        "interrupted": "interrupted.",
        # writing
        "exists": "the file exists.",
        "exists-next": "Give another name, or --force to replace it.",
        "is-folder": "is a folder.",
        "is-folder-next": "Name a file in it.",
        "output": "standard output",
        "suffix": "the name does not tell the form of the output.",
        "suffix-next": "End it in {suffixes}, or give --format.",
        "not-written": "cannot be written ({why}).",
        "same-file": "is the trace itself.",
        "same-file-next": "Give another name for the slice.",
        "written": "{path}: {size}",
        # --fail-on
        "fail-on-form": "{text!r} is neither the id of a finding nor a saving.",
        "fail-on-form-next": "Write an id (launch-bound), a share of the step (5%) or a time per step (200us).",
        "breach-id": "{id} was found: {title}",
        "breach-share": "{id} would save {share} of the step, which is {limit} or more: {title}",
        "breach-saving": "{id} would save {saving} a step, which is {limit} or more: {title}",
        "fail-on-unknown": "there is no rule {text!r}.",
        "fail-on-near": "Did you mean {near}?",
        "fail-on-list": "All rules: lanewise rule",
        # progress
        "reading": "reading {name}",
        "cutting": "cutting {name}",
        # tables
        "sort-form": "{text!r} is not a column of this table.",
        "sort-form-next": "Sort by {columns}.",
        "no-shapes": "the trace has no input shapes.",
        "no-shapes-next": "Record it with record_shapes=True, or leave out --by-shape.",
        # view
        "not-a-file": "there is no such file.",
        "not-a-file-next": "The viewer reads files, which it can read again when they change.",
        "port-taken": "port {port} is in use.",
        "port-taken-next": "Give another, or leave --port out.",
        "perfetto-port-next": "ui.perfetto.dev reads from this port only: end the program that uses it.",
        "one-trace": "ui.perfetto.dev opens one trace at a time.",
        "one-trace-next": "Give a single TRACE.",
        "view-ends": "Ctrl-C ends the viewer.",
        # export
        "export-twice": "a pipe can be read once only.",
        "export-twice-next": "Export reads the trace twice: give a file.",
        "export-same-next": "Give another name for the copy.",
        "exported": "{hidden} of {events} events would have been hidden; extra lanes for them: {lanes}.",
        "exported-none": "None of {events} events would have been hidden.",
        # slice
        "sliced": "{kept} of {events} events kept ({window}).",
        "sliced-calls": "{gpu_ops} GPU ops: {own} launched in the window, {earlier} launched before it and still running then.",
        "sliced-flows": "{kept} arrows kept; {open} with only one end in the window left out.",
        "sliced-damaged": "{count} damaged events left out.",
        "sliced-mended": "{count} damaged events mended.",
        "no-window": "say what to cut out.",
        "no-window-next": "Give --steps 3-5, or --from and --to.",
        "next-explain": "Next: lanewise explain {path}",
        # run
        "ranks-count": "--ranks needs a number of processes, such as --ranks 2.",
        # record
        "limit-form": "{text!r} is not a size. Write 512M or 2G; 0 is no limit.",
        "ranks-form": "{text!r} is not a list of ranks. Write 0,3.",
        "skip-0": "the steps found in a script begin with the second.",
        "skip-0-next": "Give 1 or more, or --whole.",
        # tree
        "no-step": "there is no step {step}.",
        "no-step-next": "The trace has {steps}.",
        "no-steps": "the trace has no step marks.",
        "no-steps-next": "Leave out --step to see the whole trace.",
    },
)
