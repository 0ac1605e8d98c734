"""Planted causes: name, cause, and a function that makes (the step with the cause, the step without it)."""

from __future__ import annotations

from collections.abc import Callable

import causes_on_gpu as on_gpu
import causes_on_host as on_host
from steps import Pair

CASES: dict[str, tuple[str, Callable[[], Pair]]] = {
    "print_loss": ("host_sync", on_host.print_loss),
    "branch_on_gpu": ("host_sync", on_host.branch_on_gpu),
    "masked_select": ("host_sync", on_host.masked_select),
    "topk_on_cpu": ("host_sync", on_host.topk_on_cpu),
    "pageable_images": ("pageable_copy", on_host.pageable_images),
    "python_before_step": ("data_starvation", on_host.python_before_step),
    "loader_in_process": ("data_starvation", on_host.loader_in_process),
    "scalars_one_by_one": ("small_copies", on_host.scalars_one_by_one),
    "rnn_cell_loop": ("launch_bound", on_host.rnn_cell_loop),
    "sgd_for_loop": ("unfused_optimizer", on_gpu.sgd_for_loop),
    "conv_fp32": ("no_tensor_cores", on_gpu.conv_fp32),
    "sdpa_math_masked": ("sdpa_math", on_gpu.sdpa_math_masked),
    "einsum_attention": ("unfused_attention", on_gpu.einsum_attention),
    "odd_hidden": ("misaligned_dims", on_gpu.odd_hidden),
    "mish_by_hand": ("unfused_pointwise", on_gpu.mish_by_hand),
    "layer_norm_by_hand": ("unfused_pointwise", on_gpu.layer_norm_by_hand),
    "clone_then_add": ("hidden_copy", on_gpu.clone_then_add),
    "transposed_twice": ("layout_copy", on_gpu.transposed_twice),
    "casts_between_layers": ("dtype_casts", on_gpu.casts_between_layers),
    "new_python_number": ("recompilation", on_host.new_python_number),
    "empty_cache_between": ("allocator", on_host.empty_cache_between),
    "eval_with_grad": ("autograd_in_inference", on_host.eval_with_grad),
    "heads_in_a_loop": ("unbatched_gemms", on_gpu.heads_in_a_loop),
    "graph_with_copied_inputs": ("graph_input_copies", on_host.graph_with_copied_inputs),
    "tiny_compiled_calls": ("compile_overhead", on_host.tiny_compiled_calls),
    "results_on_one_stream": ("single_stream_copy", on_host.results_on_one_stream),
    "fine_convs": ("none", on_gpu.fine_convs),
    "fine_encoder": ("none", on_gpu.fine_encoder),
}
