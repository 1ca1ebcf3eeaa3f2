"""A GPU that is not there: what would run on it.

Within ``fake_gpu()`` the device ``cuda:0`` exists. For every operation torch's fake-tensor mode
decides, from metadata alone, whether its operands may be together, as a real GPU would. The values
that a program then reads back (``.item()``, ``.cpu()``, ``nonzero``) come from a shadow of each
tensor in the CPU's memory, so that whole steps run to their end and their results can be compared.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch import __future__ as future
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, UnsupportedOperatorException
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

DEVICE = "cuda:0"
ATEN = torch.ops.aten
# What fake-tensor mode has said: an operator and its arguments -> is the result on the device?
PLACES: dict[tuple, bool] = {}


class FakeGpuTensor(Tensor):
    """Says that it lies on ``cuda:0``; ``shadow`` holds its values on the CPU.

    torch's C++ code takes it for a CPU tensor, since a torch without CUDA cannot switch to a
    device cuda: what copies from and to the device is therefore caught here, in Python.
    """

    shadow: Tensor

    @staticmethod
    def __new__(cls, shadow: Tensor) -> "FakeGpuTensor":
        return Tensor._make_wrapper_subclass(
            cls,
            shadow.size(),
            strides=shadow.stride(),
            storage_offset=shadow.storage_offset(),
            dtype=shadow.dtype,
        )

    def __init__(self, shadow: Tensor) -> None:
        self.shadow = shadow

    device = property(lambda self: torch.device(DEVICE))  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]

    def to(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Return what torch's ``to`` does, with the devices as Python sees them."""
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        wanted = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype)]
        places = [value for value in (*args, kwargs.get("device"))
                  if isinstance(value, str | torch.device)]  # fmt: skip
        device = torch.device(places[0]) if places else torch.device(DEVICE)
        dtype = wanted[0] if wanted else self.dtype
        copied = kwargs.get("copy", False)
        if device.type == "cuda" and dtype == self.dtype and not copied:
            return self
        return ATEN._to_copy(self, dtype=dtype, device=device)

    def cpu(self, *_: Any, **__: Any) -> Tensor:  # type: ignore[override]
        """Return the values on the CPU."""
        return self.to("cpu")

    def tolist(self) -> Any:
        """Return the values, copied to the CPU at once, as torch does."""
        return self.cpu().tolist()

    def get_device(self) -> int:
        """Return the device's number."""
        return 0

    def numpy(self, *, force: bool = False) -> Any:
        """Refuse, as torch does for a tensor that is not on the CPU."""
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.to and not isinstance(args[0], cls) and isinstance(args[1], cls):
                return args[0].to(DEVICE, args[1].dtype)
            if func is torch.nn.functional.one_hot:
                # Its C++ code makes a tensor where it takes ours to be; on a GPU nothing is read.
                index, classes = args[0], (kwargs or {}).get("num_classes", args[-1])
                hot = torch.zeros(*index.shape, classes, dtype=torch.int64, device=DEVICE)
                return hot.scatter_(-1, index.unsqueeze(-1), 1)
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on a tensor of the fake GPU, outside of fake_gpu()")


class FakeGpu(TorchDispatchMode):
    """Runs every operation twice: by torch's fake-tensor mode, and on the shadows."""

    def __init__(self) -> None:
        super().__init__()
        self.unfakeable: set[str] = set()
        self.fake = FakeTensorMode(allow_non_fake_inputs=False)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        ours = [leaf for leaf in leaves if isinstance(leaf, FakeGpuTensor)]
        asked = kwargs.get("device")
        to_us = asked is not None and torch.device(asked).type == "cuda"
        if not ours and not to_us:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        here = self._place(func, name, args, kwargs, ours, to_us)
        if to_us:
            kwargs["device"] = torch.device("cpu")
        shadows = tree_map(_shadow, (args, kwargs))
        result = func(*shadows[0], **shadows[1])
        known = {id(leaf.shadow): leaf for leaf in ours}

        def wrapped(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if id(value) in known:
                return known[id(value)]
            return FakeGpuTensor(value) if here else value

        if not here and name in ("copy_", "_copy_from"):
            return args[0]
        return tree_map(wrapped, result)

    def _place(
        self, func: Any, name: str, args: Any, kwargs: dict, ours: list, to_us: bool
    ) -> bool:
        """Return whether the result lies on the device; refuse what a GPU would."""
        if not ours:
            return True
        if name in ("_to_copy", "copy_"):
            target = kwargs.get("device", DEVICE if name == "_to_copy" else args[0].device)
            return to_us or torch.device(target).type == "cuda"
        if name == "_local_scalar_dense":
            return False
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            indices = [leaf for leaf in args[1] if leaf is not None]
            # Indices on the CPU are allowed, and copied; masks are counted first.
            if any(leaf.dtype in (torch.bool, torch.uint8) for leaf in indices):
                return self._unfakeable(name, [args[0], *args[2:3]])
        elif {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(func.tags):
            return self._unfakeable(name, args)
        # Sizes, types and devices decide: what was asked before has the same answer.
        leaves, form = tree_flatten((args, kwargs))
        key = (func, form, *map(_metadata, leaves))
        if key not in PLACES:
            try:
                with self.fake:
                    fakes = tree_map(self._fake, (args, kwargs))
                    found = tree_leaves(func(*fakes[0], **fakes[1]))
            except UnsupportedOperatorException:
                return self._unfakeable(name, (args, kwargs))
            PLACES[key] = any(
                leaf.device.type == "cuda" for leaf in found if isinstance(leaf, Tensor)
            )
        return PLACES[key]

    def _unfakeable(self, name: str, values: Any) -> bool:
        """Note an operator without a fake form; refuse operands that are not together."""
        self.unfakeable.add(name)
        for leaf in tree_leaves(values):
            if isinstance(leaf, Tensor) and leaf.ndim and not isinstance(leaf, FakeGpuTensor):
                raise RuntimeError(f"{name}: expected all tensors on {DEVICE}, got one on the CPU")
        return True

    def _fake(self, value: Any) -> Any:
        """Return a tensor without data of a tensor's size, on the device that it says."""
        if not isinstance(value, Tensor):
            return value
        device = value.device if value.device.type != "cuda" else torch.device(DEVICE)
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)


def _metadata(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype, value.device
    return type(value), value


def _shadow(value: Any) -> Any:
    return value.shadow if isinstance(value, FakeGpuTensor) else value


@contextlib.contextmanager
def fake_gpu() -> Iterator[FakeGpu]:
    """Yield the device ``cuda:0``, which exists meanwhile.

    ``unfakeable`` has the operators whose result torch's fake-tensor mode cannot tell.
    """
    mode = FakeGpu()
    patches: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "synchronize": lambda device=None: None,
        "Event": lambda **_: mock.Mock(**{"elapsed_time.return_value": 0.0}),  # there is no time
        "current_stream": lambda device=None: None,
        "device_of": lambda tensor: contextlib.nullcontext(),
        "get_device_name": lambda device=None: "fake",
        "empty_cache": lambda: None,
    }
    # In inference mode composed operators come whole, past what decides about their parts.
    quiet = torch.inference_mode

    def enter(self: Any) -> None:
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def leave(self: Any, *_error: object) -> None:
        torch.set_grad_enabled(self.before)

    # Its binding asks for a guard of the device, which a torch without CUDA does not have.
    contiguous = Tensor.contiguous

    def made_contiguous(self: Tensor, memory_format: Any = torch.contiguous_format) -> Tensor:
        if not isinstance(self, FakeTensor) or self.is_contiguous(memory_format=memory_format):
            return contiguous(self, memory_format=memory_format)
        return ATEN.clone(self, memory_format=memory_format)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(Tensor, "contiguous", made_contiguous))
        stack.enter_context(mock.patch.object(quiet, "__enter__", enter))
        stack.enter_context(mock.patch.object(quiet, "__exit__", leave))
        for name, value in patches.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        # Else a module on its way to the device would keep its parameters' Python objects.
        stack.callback(future.set_swap_module_params_on_conversion,
                       future.get_swap_module_params_on_conversion())  # fmt: skip
        future.set_swap_module_params_on_conversion(True)
        # `torch.tensor` with a device: made on the CPU, then copied where the mode sees it.
        stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)
        stack.enter_context(mode)
        yield mode
