"""Who owns a namespace: the library that a kernel of it belongs to."""

from __future__ import annotations

__all__ = ["OWNERS", "owner_of"]

OWNERS: dict[str, str] = {
    "aiter": "aiter",
    "apex": "apex",
    "at": "aten",
    "awq": "vllm",
    "bitsandbytes": "bitsandbytes",
    "c10d": "aten",
    "ck": "composable-kernel",
    "ck_tile": "composable-kernel",
    "cub": "cub",
    "ctranslate2": "ctranslate2",
    "cublas": "cublas",
    "cublasLt": "cublas",
    "cudnn": "cudnn",
    "cusparse": "cusparse",
    "cutlass": "cutlass",
    "deep_ep": "deepep",
    "deep_gemm": "deepgemm",
    "deepspeed": "deepspeed",
    "faiss": "faiss",
    "fbgemm": "fbgemm",
    "fbgemm_gpu": "fbgemm",
    "flash": "flash-attention",
    "flashinfer": "flashinfer",
    "expert_specialization": "sglang",
    "gloo": "gloo",
    "gptq": "vllm",
    "inf_patching": "cublas",
    "mori": "mori",
    "gptq_marlin": "marlin",
    "machete": "vllm",
    "marlin": "marlin",
    "marlin_moe_wna16": "marlin",
    "moe": "trtllm",
    "nvjpeg": "nvjpeg",
    "onnxruntime": "onnxruntime",
    "phi": "paddle",
    "raft": "raft",
    "rocprim": "rocprim",
    "sgl_hip": "sglang",
    "sgl_kernel": "sglang",
    "sglang": "sglang",
    "tensorflow": "tensorflow",
    "tensorrt_llm": "trtllm",
    "tensorrt": "trtllm",
    "thrust": "thrust",
    "torchao": "torchao",
    "transformer_engine": "transformer-engine",
    "turbomind": "lmdeploy",
    "vision": "torchvision",
    "vllm": "vllm",
    "xgboost": "xgboost",
}


def owner_of(root: str) -> str | None:
    """The library that owns the namespace `root`, or None."""
    return OWNERS.get(root)
