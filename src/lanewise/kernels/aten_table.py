"""Kernels and functors of ATen (aten/src/ATen/native/cuda) whose words do not say what they do, or mislead."""

from __future__ import annotations

from lanewise.kernels.lists import listed

__all__ = ["BASES", "FUNCTORS", "GLOBAL_BASES", "JITERATED"]


def _table(**names: str) -> dict[str, tuple[str, str | None]]:
    """``norm_backward="a b"`` gives ``{"a": ("norm", "backward"), ...}``; an underscore within a kind is a hyphen."""
    table: dict[str, tuple[str, str | None]] = {}
    for key, text in names.items():
        kind, direction = key, None
        for way in ("forward", "backward"):
            if key.endswith(f"_{way}"):
                kind, direction = key[: -len(way) - 1], way
        for name in text.split():
            table[name] = (kind.replace("_", "-"), direction)
    return table


BASES = _table(
    norm_forward="RowwiseMomentsCUDAKernel LayerNormForwardCUDAKernel vectorized_layer_norm_kernel"
    " ComputeFusedParamsCUDAKernel batch_norm_collect_statistics_kernel batch_norm_transform_input_kernel"
    " batch_norm_collect_statistics_channels_last_kernel batch_norm_transform_input_channels_last_kernel"
    " batch_norm_reduce_statistics_kernel weight_norm_fwd_first_dim_kernel weight_norm_fwd_last_dim_kernel"
    " cuApplyLayerNorm cuApplyRMSNorm",
    norm_backward="GammaBetaBackwardCUDAKernelTemplate GammaBetaBackwardCUDAKernel_32x32 GammaBetaBackwardCUDAKernel"
    " GammaBetaBackwardSimpleCUDAKernel GammaBetaBackwardCUDAKernel1 GammaBetaBackwardCUDAKernel2"
    " GammaBeta1dBackwardCUDAKernel1 GammaBeta1dBackwardCUDAKernel2 ComputeInternalGradientsCUDAKernel"
    " ComputeGradientFusedParamsCUDAKernel ComputeBackwardFusedParamsCUDAKernel LayerNormBackwardCUDAKernel"
    " Compute1dBackwardFusedParamsCUDAKernel layer_norm_grad_input_kernel"
    " layer_norm_grad_input_kernel_vectorized cuComputePartGradGammaBeta cuComputeGradGammaBeta"
    " cuComputeGradInput weight_norm_bwd_first_dim_kernel weight_norm_bwd_last_dim_kernel"
    " batch_norm_backward_elemt_channels_last_kernel_impl",
    norm="renorm_kernel",
    softmax_forward="cunn_SoftMaxForwardGmem cunn_SpatialSoftMaxForward",
    softmax_backward="cunn_SpatialSoftMaxBackward",
    loss_forward="cunn_ClassNLLCriterion_updateOutput_kernel ctc_loss_log_alpha_gpu_kernel",
    loss_backward="cunn_ClassNLLCriterion_updateGradInput_kernel ctc_loss_backward_log_beta_gpu_kernel"
    " ctc_loss_zero_padded_gradients",
    elementwise="adjacent_difference_kernel apply_kernel op_dense_esuhm transform_vals"
    " triu_tril_kernel cross_kernel elementwise_kernel_with_index _elementwise_kernel kernelPointwiseApply1"
    " kernelPointwiseApply2 kernelPointwiseApply3 transform_bias_rescale_qkv_kernel"
    " transform_bias_rescale_qkv_add_padding_kernel fused_bias_act",
    elementwise_backward="glu_backward_kernel",
    fill="tril_indices_kernel triu_indices_kernel",
    random="unpack_cudnn fused_dropout_kernel_vec fused_dropout_kernel distribution_elementwise_grid_stride_kernel"
    " distribution_binary_elementwise_kernel randperm_handle_duplicate_keys_kernel sampleMultinomialOnce"
    " sampleMultinomialWithReplacement renormRowsL1 poisson_cuda_kernel binomial_cuda_kernel gamma_cuda_kernel"
    " dirichlet_kernel",
    random_forward="rrelu_with_noise_cuda_kernel",
    reduction="reduce_kernel kernelHistogram1D segment_reduce_forward_kernel segment_reduce_backward_kernel"
    " _segment_reduce_lengths_offsets_kernel",
    foreach="lpnorm_cleanup lpmax_cleanup",
    embedding_backward="compute_grad_weight compute_grad_weight_bags sum_and_scatter krn_partials_per_segment"
    " krn_partial_to_segment_idx compute_grad_weight_atomic_accumulate krn_partial_segment_offset"
    " compute_num_of_partial_segments write_num_of_segments"
    " embedding_backward_kernel embedding_backward_feature_kernel EmbeddingBag_accGradParametersKernel_max",
    embedding="embedding_renorm_wrap_indices_kernel",
    embedding_forward="EmbeddingBag_updateOutputKernel_max EmbeddingBag_updateOutputKernel_sum_mean",
    index="vectorized_gather_kernel write_indices flag_kernel coalesceValuesKernel index_elementwise_kernel"
    " _scatter_gather_elementwise_kernel compute_cuda_kernel indexing_backward_kernel_many_indices",
    index_backward="unfold_backward_elementwise_kernel _unfold_backward_elementwise_kernel indexing_backward_kernel "
    "indexing_backward_kernel_stride_1 indexing_backward_kernel_small_stride"
    " indexing_backward_kernel_quantized",
    sort_scan="bitonicSortKVInPlace calc_block_sums final_scan_kernel warpMergeSortKVInPlace radixSortKVInPlace"
    " gatherTopK radixFindKthValues computeBlockwiseWithinKCounts computeBlockwiseKthCounts computeDigitCumSum"
    " computeBlockDigitCounts compute_agg"
    " gatherKthValue gatherMedian fill_index_and_segment_kernel fill_reverse_indices_kernel"
    " sort_postprocess_kernel compute_mode searchsorted_cuda_kernel tensor_kernel_scan_innermost_dim"
    " tensor_kernel_scan_outer_dim segmented_sort_kernel tensor_kernel_scan_innermost_dim_with_indices"
    " tensor_kernel_scan_outer_dim_with_indices",
    cast_copy="jagged_dense_dense_elementwise_jagged_output_kernel_"
    " jagged_dense_dense_elementwise_jagged_output_opt_search_kernel_"
    " jagged_dense_dense_elementwise_jagged_output_opt_gather_kernel_ CatArrayBatchedCopy"
    " _float_to_bfloat16_cuda_kernel _bfloat16_to_float_cuda_kernel"
    " split_with_sizes_copy_out_contiguous_no_cast_kernel roll_cuda_kernel chunk_cat_cuda_kernel"
    " jagged_dense_elementwise_dense_output_kernel_ add_padding_1 add_padding_2 add_padding_3 remove_padding"
    " remove_padding_2 remove_padding_transform0213 flip_cuda_kernel HIP_CatArrayBatchedCopy"
    " kernel_pointwise_flip_apply2",
    conv_backward="conv_depthwise2d_grad_weight_kernel conv_depthwise3d_cuda_backward_input_kernel"
    " conv_depthwise3d_cuda_backward_weight_kernel conv_depthwise2d_backward_kernel",
    conv_forward="conv_depthwise3d_cuda_kernel conv_depthwise2d_forward_kernel_generic",
    conv_aux="im2col_kernel col2im_kernel col2im_batched_kernel vol2col_kernel vol2im_kernel",
    gemm_aux="prepare_grouped_gemm_data",
    gemm="tinygemm_m16n8k16_chunk_kernel sparse_semi_structured_gemm",
    quantize="matrix_to_m16n8k16_Bint4_layout ChooseQuantizationParamsKernelImpl"
    " MovingAverageMinMax fake_quantize_tensor_cachemask_kernel",
    rnn_forward="lstm_cell_forward gru_cell_forward",
    rnn_backward="lstm_cell_backward gru_cell_backward",
    pooling_backward="adaptivemaxgradinput atomicadaptivemaxgradinput adaptiveaveragegradinput"
    " atomicadaptiveaveragegradinput",
    resample="affine_grid_generator_2d_kernel",
    linalg="unpack_pivots_cuda_kernel _compute_linear_combination_internal_kernel apply_eye",
    fft="_fft_conjugate_copy_kernel",
    collective="one_shot_all_reduce_kernel two_shot_all_reduce_kernel two_shot_all_reduce_kernel_inplace"
    " multimem_all_reduce_kernel multimem_one_shot_all_reduce_kernel multimem_all_gather_kernel barrier_kernel"
    " put_signal_kernel wait_signal_kernel oneShotAllReduceKernel twoShotAllReduceKernel"
    " exchangeSplitAndOffset hybridCubeMeshAllReduceKernel allToAllV reduce_scatter_out_kernel memset32_kernel"
    " kernel_barrier"
    " multimem_one_shot_reduce_kernel",
    other="set_conditional_handle_kernel checkForNaN masked_scatter_size_check sparse_semi_structured_tile_kernel"
    " sparse_semi_structured_apply_kernel sparse_semi_structured_apply_dense_k spin_kernel"
    " amp_update_scale_cuda_kernel _assert_async_cuda_kernel cdist_kernel_cuda_impl"
    " cdist_backward_kernel_cuda_impl pdist_kernel_cuda_impl pdist_backward_kernel_cuda_impl",
)  # fmt: skip
"""Name of a kernel to its kind and direction."""

GLOBAL_BASES = frozenset(
    listed(
        "softmax_warp_forward softmax_warp_backward gamma_cuda_kernel poisson_cuda_kernel compute_cuda_kernel"
        " softmax_warp_forward_masked indexing_backward_kernel indexing_backward_kernel_stride_1"
        " indexing_backward_kernel_small_stride indexing_backward_kernel_quantized multimem_one_shot_reduce_kernel"
        " _float_to_bfloat16_cuda_kernel _bfloat16_to_float_cuda_kernel elementwise_kernel_with_index"
        " cunn_ClassNLLCriterion_updateOutput_kernel"
        " cunn_ClassNLLCriterion_updateGradInput_kernel multimem_all_reduce_kernel one_shot_all_reduce_kernel"
        " two_shot_all_reduce_kernel barrier_kernel two_shot_all_reduce_kernel_inplace"
        " multimem_one_shot_all_reduce_kernel"
        " multimem_all_gather_kernel put_signal_kernel wait_signal_kernel randperm_handle_duplicate_keys_kernel"
        " kernelPointwiseApply1 kernelPointwiseApply2 kernelPointwiseApply3 vectorized_elementwise_kernel"
        " unrolled_elementwise_kernel elementwise_kernel elementwise_kernel_manual_unroll reduce_kernel"
        " index_elementwise_kernel CatArrayBatchedCopy CatArrayBatchedCopy_contig CatArrayBatchedCopy_aligned16_contig"
        " CatArrayBatchedCopy_vectorized CatArrayBatchedCopy_alignedK_contig vectorized_layer_norm_kernel"
        " cunn_SoftMaxForward cunn_SoftMaxBackward cunn_SoftMaxForwardSmem cunn_SoftMaxBackwardSmem"
        " cunn_SpatialSoftMaxForward cunn_SpatialSoftMaxBackward cunn_SoftMaxForwardReg cunn_SoftMaxForwardGmem"
        " indexSelectLargeIndex indexSelectSmallIndex indexFuncLargeIndex indexFuncSmallIndex"
        " layer_norm_grad_input_kernel"
        " layer_norm_grad_input_kernel_vectorized GammaBetaBackwardCUDAKernelTemplate"
        " batch_norm_collect_statistics_kernel"
        " batch_norm_transform_input_kernel batch_norm_backward_kernel vectorized_gather_kernel"
        " distribution_elementwise_grid_stride_kernel fused_dropout_kernel_vec"
        " unrolled_elementwise_kernel_for_multi_outputs vectorized_templated_elementwise_kernel"
        " _scatter_gather_elementwise_kernel embedding_backward_feature_kernel spin_kernel"
    )
)
"""Kernels that stand in no namespace, and those that Nsight Systems' short names leave without one."""

FUNCTORS = _table(
    fill="FillFunctor fill_kernel_cuda arange_cuda_out range_cuda_out linspace_cuda_out logspace_cuda_out"
    " fill_kernel_impl diagonal_fill",
    cast_copy="direct_copy_kernel_cuda bfloat16_copy_kernel_cuda float16_copy_kernel_cuda float8_copy_kernel_cuda"
    " float4_copy_kernel_cuda copy_device_to_device bfloat16tofloat32_copy_kernel_cuda"
    " float16tofloat32_copy_kernel_cuda ConvertFloatToFloat8E5M2Op ConvertToFloat8E4M3fnOp flip_kernel_impl"
    " roll_cuda copy_kernel_cuda CopyFunctor",
    loss="mse_kernel_cuda smooth_l1_kernel_cuda huber_kernel_cuda binary_cross_entropy_out_kernel kl_div"
    " binary_cross_entropy_kernel",
    loss_backward="mse_backward_cuda_kernel smooth_l1_backward_cuda_kernel huber_backward_cuda_kernel"
    " binary_cross_entropy_backward_out_kernel binary_cross_entropy_backward_kernel",
    random="gamma_cuda_kernel poisson_cuda_kernel binomial_cuda_kernel bernoulli_scalar_cuda_kernel"
    " launch_dirichlet_kernel bernoulli_tensor_cuda_kernel bernoulli_kernel"
    " uniform_and_transform normal_and_transform random_from_to_kernel random_kernel"
    " random_full_64_bits_range_kernel exponential_kernel cauchy_kernel geometric_kernel log_normal_kernel"
    " masked_scale_kernel uniform_kernel normal_kernel dropout_backward_kernel",
    random_backward="launch_dirichlet_grad_kernel launch_standard_gamma_grad_kernel",
    elementwise="relu_quantized_cuda_ cuda_masked_fill_kernel_quantized transform_bias_rescale_qkv",
    linalg="unpack_pivots_cuda_kernel",
    index="launch_masked_scatter_kernel index_select_sparse_cuda index_kernel_impl index_put_kernel_impl"
    " index_fill_kernel_impl index_copy_kernel_impl take_put_kernel_template take_kernel put_kernel"
    " _cuda_scatter_gather_internal_kernel _cuda_scatter_fill_internal_kernel cuda_take_put_kernel"
    " masked_scatter_kernel index_put_kernel unfold_backward_cuda_kernel index_put_kernel_quantized_cuda",
    norm_forward="GroupNormKernelImplInternal batch_norm_update_stats_and_invert batch_norm_update_stats"
    " batch_norm_calc_invstd batch_norm_elementwise GroupNorm1dForward",
    norm_backward="GroupNormBackwardKernelImplInternal batch_norm_elementwise_backward_eval"
    " batch_norm_elementwise_backward_train GroupNorm1dBackward",
    quantize="quantize_tensor_per_tensor_affine_cuda dequantize_tensor_per_tensor_affine_cuda"
    " fake_quantize_tensor_cachemask_kernel_cuda fake_quant_per_channel_cachemask_cuda"
    " _fake_quantize_grad_learnable_tensor_kernel_cuda fake_quantize_grad_learnable_channel_kernel_cuda"
    " quantize_tensor_per_channel_affine_cuda dequantize_tensor_per_channel_affine_cuda",
    fft="_fft_fill_with_conjugate_symmetry_cuda_",
)  # fmt: skip
"""Name of what an element-wise wrapper applies to its kind and direction, where it is not plainly element-wise."""

JITERATED = frozenset(
    listed(
        "prod gcd lcm i0 i0e i1 i1e digamma trigamma polygamma lgamma sinc ndtri log_ndtr zeta erfcx entr airy_ai"
        " bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0"
        " modified_bessel_k1 chebyshev_polynomial_t chebyshev_polynomial_u hermite_polynomial_h laguerre_polynomial_l"
        " legendre_polynomial_p spherical_bessel_j0 scaled_modified_bessel_k0 scaled_modified_bessel_k1"
        " kaiser_window exp2"
        " erfinv tan sinh cosh asin acos atan asinh acosh atanh sigmoid_backward tanh_backward logit"
    )
)
"""Operations that PyTorch compiles at run time, as plain C kernels: ``erfinv_kernel_vectorized4_kernel``."""
