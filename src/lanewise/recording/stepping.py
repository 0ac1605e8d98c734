"""Where steps end, found in a program that does not say so.

Training: the return of `optimizer.step()`. Inference: the return of an outermost module call, that is of a
module with parameters called from no other module. Or the return of a function that the user names.

How each is seen, and why so:

- Optimizers through torch's global post-step hook. The hook runs inside the profiler's own `Optimizer.step#`
annotation, and a
  step that ended there would cut that annotation in two. So the hook, when it first meets an optimizer, puts
  a wrapper around that one object's `step`, and from then on the wrapper's return is the boundary. Where
  something replaces the wrapper, the hook itself goes on marking steps.
- Modules through `torch.nn.Module.__call__`, replaced while the answer is open and put back as soon as an
optimizer has stepped.
  Global module hooks would do as well but send every submodule of an eager model down torch's slow path, and
  a compiled one into other graphs; the replacement costs a fraction of a microsecond a call, and
  `torch.compile` sees through it: while compiling it only calls the original.
- Functions by replacing the attribute that holds them: after the import of their module, or, for those of the
script itself,
  when a profile function sees the first call; it is removed then.

Until an optimizer steps, module calls count, with three exceptions: modules without parameters (data
transforms, losses), data-loader workers, and a model that already has gradients, which is a training run that
accumulates them. When the first optimizer step comes, what was counted is forgotten. A program that holds an
optimizer but has not stepped it may be validating before it trains; it gets a number of calls to begin.

Of several optimizers or modules, one is followed; see `Leader`.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable
from inspect import iscoroutinefunction
from itertools import islice
from typing import Any

from lanewise.recording.accelerator import torch_module
from lanewise.recording.imports import when_imported
from lanewise.recording.recorder import Recorder

__all__ = ["Leader", "follow_functions", "follow_modules", "follow_optimizers", "follow_steps"]

# Calls of other objects in a row after which the followed one counts as out of use. A text encoder before a
# diffusion loop, or a generator trained once in five steps of its critic, stay below or above it clearly.
_PATIENCE = 8
# Validation before training is short by convention (Lightning: 2 batches); a program that only evaluates but
# has built an optimizer must not wait for ever.
_CALLS_BEFORE_TRAINING = 200
_GRADIENTS_LOOKED_AT = 8  # of a module's parameters: some may be frozen or unused, hardly the first eight
_MARK = "_lanewise_mark"


class Leader:
    """Picks one object whose events mark the steps: the first seen, until others come `patience` times in a row."""

    def __init__(self, patience: int = _PATIENCE) -> None:
        self._patience = patience
        self._leader: weakref.ref[Any] | None = None
        self._missed = 0

    def leads(self, candidate: Any) -> bool:
        """Whether an event of this object marks a step."""
        leader = None if self._leader is None else self._leader()
        if leader is not candidate:
            self._missed += 1
            if leader is not None and self._missed <= self._patience:
                return False
            self._leader = weakref.ref(candidate)
        self._missed = 0
        return True


class _Finder:
    """What all finders share: the recorder they tell, and how to take them out of the program again."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._undo: list[Callable[[], None]] = []
        self._detached = False

    def detach(self) -> None:
        """Leave the program as it was; wrappers that others have wrapped stay, and do nothing."""
        self._detached = True
        while self._undo:
            self._undo.pop()()


class _OptimizerSteps(_Finder):
    """Marks a step at each return of an optimizer's `step`."""

    def __init__(self, recorder: Recorder, first: Callable[[], bool]) -> None:
        super().__init__(recorder)
        self._leader = Leader()
        self._first: Callable[[], bool] | None = first
        self._mark = object()
        self._inside: Any = None
        register = torch_module("torch.optim.optimizer").register_optimizer_step_post_hook
        self._undo.append(register(self._stepped).remove)

    def _stepped(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        if torch_module().compiler.is_compiling() or self._inside is optimizer:
            return
        self._wrap(optimizer)
        self._boundary(optimizer)

    def _boundary(self, optimizer: Any) -> None:
        if not self._leader.leads(optimizer):
            return
        if self._first is not None:
            first, self._first = self._first, None
            if not first():
                self.detach()
                return
            self.recorder.source = f"steps of {type(optimizer).__name__}"
        self.recorder.step()

    def _wrap(self, optimizer: Any) -> None:
        inner = optimizer.step
        if getattr(inner, _MARK, None) is self._mark:
            return
        # Only functions are kept, no bound methods, so that the wrapper does not keep the optimizer alive.
        function = getattr(inner, "__func__", None)
        call = function if function is not None else _without_owner(inner)
        own = _unbound(vars(optimizer).get("step"))
        reference = weakref.ref(self)

        @functools.wraps(function or inner)
        def step(owner: Any, *args: Any, **kwargs: Any) -> Any:
            finder = reference()
            if finder is None or finder._detached:
                return call(owner, *args, **kwargs)
            before, finder._inside = finder._inside, owner
            try:
                result = call(owner, *args, **kwargs)
            finally:
                finder._inside = before
            finder._boundary(owner)
            return result

        # `functools.wraps` copies attributes, so a wrapper around this one (learning rate schedulers) has it
        # too.
        setattr(step, _MARK, self._mark)
        optimizer.step = types.MethodType(step, optimizer)
        self._undo.append(functools.partial(_put_back, weakref.ref(optimizer), step, own))


def _without_owner(function: Any) -> Any:
    """The function, called without the first argument."""
    return lambda _owner, *args, **kwargs: function(*args, **kwargs)


def _unbound(step: Any) -> tuple[Any, bool] | None:
    """An optimizer's own `step` attribute as its function and whether that was bound; None where it has none."""
    if step is None:
        return None
    function = getattr(step, "__func__", None)
    return (step, False) if function is None else (function, True)


def _put_back(reference: weakref.ref[Any], ours: Any, own: tuple[Any, bool] | None) -> None:
    optimizer = reference()
    if optimizer is None or getattr(vars(optimizer).get("step"), "__func__", None) is not ours:
        return
    if own is None:
        del optimizer.step
    else:
        function, bound = own
        optimizer.step = types.MethodType(function, optimizer) if bound else function


class _ModuleCalls(_Finder):
    """Marks a step at each return of an outermost module call."""

    def __init__(self, recorder: Recorder, wait_for_training: bool) -> None:
        super().__init__(recorder)
        self._leader = Leader()
        self._wait_for_training = wait_for_training
        self._calls = 0
        self._depth = 0
        self._optimizer_seen: bool | None = None
        self._install()

    def _install(self) -> None:
        torch = torch_module()
        module_class = torch.nn.Module
        original = module_class.__call__
        finder = self
        is_compiling = torch.compiler.is_compiling

        # torch's Python tracer knows a module call by this function's name and by its argument `self`.
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if is_compiling() or finder._depth or finder._detached:
                return original(self, *args, **kwargs)
            return finder._outermost(original, self, args, kwargs)

        module_class.__call__ = __call__

        def restore() -> None:
            # Compiled code may be guarded by the replacement, and putting the original back would compile it
            # again.
            if module_class.__call__ is __call__ and "torch._dynamo" not in sys.modules:
                module_class.__call__ = original

        self._undo.append(restore)

    def _outermost(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        self._depth = 1
        try:
            result = original(module, *args, **kwargs)
        finally:
            self._depth = 0
        has_parameters = next(module.parameters(), None) is not None
        if has_parameters and self._counts(module) and self._leader.leads(module):
            self.recorder.source = f"calls of {_module_name(module)}"
            self.recorder.step()
        return result

    def _counts(self, module: Any) -> bool:
        """Whether a call belongs to inference, as far as one can tell."""
        if not self._wait_for_training:
            return True
        self._calls += 1
        if self._calls == 1 and _in_loader_worker():
            self.recorder.discard()
            return False
        if torch_module().is_grad_enabled() and _has_gradients(module):
            return False
        if self._optimizer_seen is None and self.recorder.recording.completed + 1 >= self.recorder.plan.skip:
            self._optimizer_seen = _optimizer_alive()
        return not self._optimizer_seen or self._calls > _CALLS_BEFORE_TRAINING


def _module_name(module: Any) -> str:
    """The class of a module; of a compiled one, the class of what was compiled."""
    return type(getattr(module, "_orig_mod", module)).__name__


def _has_gradients(module: Any) -> bool:
    trained = (parameter for parameter in module.parameters() if parameter.requires_grad)
    return any(parameter.grad is not None for parameter in islice(trained, _GRADIENTS_LOOKED_AT))


def _optimizer_alive() -> bool:
    """Whether the program has built an optimizer. Looks at every object once; `type` runs no code of theirs."""
    optimizer_class = torch_module("torch.optim").Optimizer
    return any(issubclass(type(thing), optimizer_class) for thing in gc.get_objects())


def _in_loader_worker() -> bool:
    return torch_module("torch.utils.data").get_worker_info() is not None


def follow_optimizers(recorder: Recorder) -> Callable[[], None]:
    """Mark a step at each optimizer step. Returns what takes the finder out again."""
    return _OptimizerSteps(recorder, first=lambda: True).detach


def follow_modules(recorder: Recorder) -> Callable[[], None]:
    """Mark a step at each outermost module call. Returns what takes the finder out again."""
    return _ModuleCalls(recorder, wait_for_training=False).detach


def follow_steps(recorder: Recorder) -> Callable[[], None]:
    """Mark steps of training where there is training, else of inference. Returns what takes the finder out again."""
    modules = _ModuleCalls(recorder, wait_for_training=True)

    def training() -> bool:
        if recorder.phase in ("active", "done"):
            return False  # the window is open or over: it is one of inference
        modules.detach()
        recorder.restart()
        return True

    optimizers = _OptimizerSteps(recorder, first=training)

    def detach() -> None:
        modules.detach()
        optimizers.detach()

    return detach


def follow_functions(recorder: Recorder, name: str) -> Callable[[], None]:
    """Mark a step at each return of a function.

    Args:
        recorder: what is told.
        name: ``module:function``, ``module:Class.method``, or either without its module, in the script
            itself.

    Returns:
        What takes the finder out again.
    """
    module, _, path = name.rpartition(":")
    finder = _Finder(recorder)
    recorder.source = f"calls of {path}"
    if module in ("", "__main__", _script_name()):
        _wait_for_call(finder, path)
    else:
        finder._undo.append(when_imported(module, functools.partial(_replace, finder, path=path)))
    return finder.detach


def _script_name() -> str:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
    return main.rpartition("/")[2].removesuffix(".py")


def _replace(finder: _Finder, holder: Any, path: str) -> None:
    """Put a wrapper in the place of a function that marks a step when it returns."""
    *owners, last = path.split(".")
    for owner in owners:
        holder = getattr(holder, owner)
    inner = vars(holder)[last] if isinstance(holder, type) else getattr(holder, last)
    function = inner.__func__ if isinstance(inner, (staticmethod, classmethod)) else inner

    marked = _marking_awaited(finder, function) if iscoroutinefunction(function) else _marking(finder, function)
    setattr(holder, last, type(inner)(marked) if isinstance(inner, (staticmethod, classmethod)) else marked)
    finder._undo.append(functools.partial(setattr, holder, last, inner))


def _marking(finder: _Finder, function: Any) -> Any:
    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        finder.recorder.step()
        return result

    return marked


def _marking_awaited(finder: _Finder, function: Any) -> Any:
    @functools.wraps(function)
    async def marked(*args: Any, **kwargs: Any) -> Any:
        result = await function(*args, **kwargs)
        finder.recorder.step()
        return result

    return marked


def _wait_for_call(finder: _Finder, path: str) -> None:
    """Wait for the first call of a function of the script, which does not exist yet, and replace it then.

    That first call is not counted. Python calls are slower until it comes.
    """
    last = path.rpartition(".")[2]

    def watch(frame: types.FrameType, event: str, _argument: Any) -> None:
        if event != "call" or frame.f_code.co_name != last or frame.f_globals.get("__name__") != "__main__":
            return
        main = sys.modules["__main__"]
        try:
            _replace(finder, main, path)
        except (AttributeError, KeyError):
            return  # another function of that name, or not yet bound
        sys.setprofile(None)

    sys.setprofile(watch)
    finder._undo.append(lambda: sys.setprofile(None) if sys.getprofile() is watch else None)
