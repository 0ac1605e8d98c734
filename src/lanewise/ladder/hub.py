"""Kernels from the kernels hub: compiled ahead for a torch and a CUDA, fetched by name and version.

Loading is the package `kernels`' own business (which build fits, where it is cached, whether it may be
trusted); here its failures become one reason that a person can act on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["HubKernel", "KernelUnavailableError"]


class KernelUnavailableError(Exception):
    """A kernel cannot be had here; the message says why in one line."""


@dataclass(frozen=True)
class HubKernel:
    """A kernel by its place on the hub.

    Attributes:
        repository: ``owner/name``.
        version: the version that is meant, so that a run today and one next year load the same.
        attribute: what is wanted from it, as a path: ``flash_attn_func``, ``layers.LigerGEGLUMLP``.
    """

    repository: str
    version: int
    attribute: str

    def load(self, folder: str | None = None) -> Any:
        """What `attribute` names.

        Args:
            folder: a kernel folder on this machine to take instead of the hub.

        Raises:
            KernelUnavailableError: the package `kernels` is missing, the hub is out of reach, no build fits, or
                the kernel does not have the attribute.
        """
        try:
            kernels = import_module("kernels")
        except ImportError:
            raise KernelUnavailableError("the package kernels is not installed: pip install kernels.") from None
        try:
            if folder is None:
                module = kernels.get_kernel(self.repository, version=self.version)
            else:
                module = kernels.get_local_kernel(Path(folder))
        except Exception as error:  # what the client's many parts raise
            where = folder or f"{self.repository} (version {self.version}) on the kernels hub"
            raise KernelUnavailableError(f"{where}: {_reason(error)}.") from error
        try:
            return reduce(getattr, self.attribute.split("."), module)
        except AttributeError:
            raise KernelUnavailableError(f"{folder or self.repository} has no {self.attribute}.") from None


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: the client wraps a refused connection several times."""
    names = []
    cause: BaseException | None = error
    while cause is not None:
        names.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    if any("Connect" in name or "Timeout" in name or "Offline" in name for name in names):
        return "out of reach from here"
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
