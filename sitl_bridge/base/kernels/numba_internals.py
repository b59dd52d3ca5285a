"""Compiles a kernel with numba: together with the kernels it calls, as one module.

Left to itself, numba makes a finished product of every function that another one calls: optimised, turned
into machine code, wrapped for Python, written to the cache, and then copied into its caller and optimised
again; and one more for every integer literal it is called with.  Here a kernel that kernels call is typed
and lowered once, and optimised within the kernel that Python calls; only that one is wrapped and cached.
And what few vehicles or worlds need, or what many kernels that Python calls have in common (a vehicle's step,
its sensors, its flight stack), is left out of the kernels that call it: it is compiled once, at the latest
when it is called first, see ``on_demand``.

All this builds on numba's internals; no other file uses them, and this one only for versions of numba that
compiled.py names or that pass ``check``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import gc
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import IO, Any, ClassVar, cast, get_type_hints

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typing import make_concrete_template

from sitl_bridge.base.error_log import cause, print_error
from sitl_bridge.base.kernels.announcement import announce_at_least
from sitl_bridge.base.kernels.kernel_cache import file_of, write
from sitl_bridge.base.kernels.record import numba_type
from sitl_bridge.base.system.signals import delay_signals

OPTIONS = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "boundscheck": None,
    "no_cfunc_wrapper": True,
}
"""Those of compiled.py, and what numba derives of them."""


def _once_per_types(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's search of an operator's signature, once for types of arguments.

    It tries dozens of overloads at every call; of 12,700 calls in a flight stack 430 differ.  Types are told
    apart by their identity, which is theirs as long as they are kept here.
    """
    known: dict[tuple[int, ...], tuple[Any, ...]] = {}

    @functools.wraps(resolve)
    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return resolve(self, context, args, kws)
        key = (id(context), id(self), *map(id, args))
        if key not in known:
            known[key] = (resolve(self, context, args, kws), context, self, args)
        return known[key][0]

    return get_call_type


_find_call_type = _once_per_types(types.Function.get_call_type)


@contextlib.contextmanager
def _patch_while_compiling() -> Iterator[None]:
    """While kernels are compiled, and only then: numba is its user's, who may compile functions of his own.

    Search operators by ``_once_per_types``, which spares a tenth of the time, and look for garbage seldom, as
    numba makes millions of objects that last, which spares a sixth.  Compilations within this one change
    nothing more, for numba's lock is held.
    """
    search, thresholds = types.Function.get_call_type, gc.get_threshold()
    types.Function.get_call_type = _find_call_type
    gc.set_threshold(max(thresholds[0], 100_000), *thresholds[1:])
    try:
        yield
    finally:
        types.Function.get_call_type = search
        gc.set_threshold(*thresholds)


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Code of a kernel that Python calls, with all the parts it reaches."""

    def add_linking_library(self, library: Any) -> None:
        """Link ``library`` in; with a part, the parts that it calls."""
        if library in self._linking_libraries or library is rtsys.library:
            return
        super().add_linking_library(library)
        if isinstance(library, _PartLibrary):
            for inner in library._linking_libraries:
                self.add_linking_library(inner)

    def _optimize_final_module(self) -> None:
        # Linked functions are there for others to link, too; nobody will.  As internal ones they may be
        # inlined away where they are called once, which is worth a fifth of the simulation's speed.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"
        super()._optimize_final_module()

    def add_ir_module(self, ir_module: Any) -> None:
        """Add a function's code; like ``finalize`` to its end, whatever signal comes.

        Objects of llvmlite must not be left half made: their ``__del__`` fails.  And LLVM hands machine code
        over to a callback: an exception of a signal there would be lost, and the code with it.
        """
        with delay_signals():
            super().add_ir_module(ir_module)

    def finalize(self) -> None:
        """Optimize, and make machine code."""
        with delay_signals():
            super().finalize()


class _PartLibrary(_Library):
    """Intermediate code of a kernel that kernels call; by itself neither optimised nor made executable."""

    def finalize(self) -> None:
        """Leave it to those that link this."""
        self._finalized = True


def _holds(outer: Any, inner: Any) -> bool:
    """Whether a record of one type may lie within one of another, or in it as the element of an array."""
    if not isinstance(outer, types.Record):
        return False
    fields = [kind.dtype if isinstance(kind, types.Array) else kind for _, kind in outer.members]
    return any(kind == inner or _holds(kind, inner) for kind in fields)


def lie_apart(kinds: Any) -> bool:
    """Whether a kernel may take its arguments to share no memory: numbers, and records of different types.

    None of the records may lie within another.  Then loops that read one and write another become vector
    instructions without a comparison of the addresses at run time, which costs a tenth of a step.
    """
    records = [kind for kind in kinds if isinstance(kind, types.Record)]
    others = [kind for kind in kinds if not isinstance(kind, types.Record)]
    return (
        len(set(records)) == len(records) > 1
        and not any(_holds(one, other) for one in records for other in records)
        and not any(isinstance(kind, types.Buffer | types.BaseTuple) for kind in others)
    )


class _KernelCompiler(Compiler):  # type: ignore[misc]
    library: type[_Library] = _Library

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile into a library of this module's; the flags are this compilation's alone."""
        self.set_flags(self.state.flags)
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)

    def set_flags(self, flags: Any) -> None:
        """Set what differs from the options of the decorators."""
        flags.noalias = lie_apart(self.state.args)


class _LateCompiler(_KernelCompiler):
    def set_flags(self, flags: Any) -> None:
        super().set_flags(flags)
        flags.no_cfunc_wrapper = False


class _PartCompiler(_KernelCompiler):
    library = _PartLibrary

    def set_flags(self, flags: Any) -> None:
        super().set_flags(flags)
        flags.no_compile = flags.no_cpython_wrapper = True


class _Part(CPUDispatcher):  # type: ignore[misc]
    """A kernel as other kernels call it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call; a literal argument is of its general type, which spares a specialisation."""
        _, folded = self._compiler.fold_argument_types(args, kws)
        return super().get_call_template(tuple(types.unliteral(argument) for argument in folded), {})

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled under a key of its own; there is nothing that Python could call."""
        key = object()
        self.targetctx.insert_user_function(key, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = cres._replace(entry_point=key)


class _Cache:
    """Code on disk, without which a kernel runs as well: it is compiled once more at the next start."""

    _reported: ClassVar[set[str]] = set()

    def __init__(self, function: FunctionType, decorator: str) -> None:
        self._function, self._decorator = function, decorator
        self._turn: IO[bytes] | None = None

    def _path(self, kinds: Any, context: Any) -> Path:
        """File of the code for a signature, on a processor like this one."""
        made = f"{self._decorator} {[_text(kind) for kind in kinds]} {context.codegen().magic_tuple()}"
        return file_of(self._function, made)

    def load_overload(self, kinds: Any, context: Any) -> Any:
        """Code for types of arguments; None where there is none, or where its file is damaged.

        Where there is none, another process may be compiling it right now: then this one waits for that.
        Numba's declarations of what kernels may call take half a second; the first compilation makes them.
        """
        rtsys.initialize(context)
        path = self._path(kinds, context)
        found = self._load(path, context)
        if found is None and self._take_turn(path):
            found = self._load(path, context)
        return found

    def _take_turn(self, path: Path) -> bool:
        """Be the only process that compiles this, until ``close``; whether another one was first."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._turn = path.with_suffix(".lock").open("wb")
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with event.trigger_event("numba:compile"):
                    fcntl.flock(self._turn, fcntl.LOCK_EX)
                return True
        except OSError:
            pass  # where nothing can be kept, everybody compiles
        return False

    def close(self) -> None:
        """Let other processes compile; safe to call twice."""
        if self._turn is not None:
            Path(self._turn.name).unlink(missing_ok=True)
            self._turn.close()
            self._turn = None

    def _load(self, path: Path, context: Any) -> Any:
        try:
            content = path.read_bytes()
        except OSError:
            return None  # what is wrong, if anything is, shows when code is kept
        try:
            with delay_signals():
                found = CompileResult._rebuild(context, *pickle.loads(content))  # noqa: S301
        except Exception as error:  # noqa: BLE001  (unpickling raises whatever it meets)
            self._report(f"{path}: compiled code cannot be read: {cause(error)}; it is compiled again")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # it is in use
        return found

    def save_overload(self, kinds: Any, code: Any) -> None:
        """Keep code where the disk has room for it."""
        path = self._path(kinds, code.target_context)
        try:
            write(path, dumps(code._replace(type_annotation="")._reduce()))
        except OSError as error:
            reason = f"compiled code cannot be kept: {error.strerror}; it is compiled at every start"
            self._report(f"{path.parent}: {reason}")

    def _report(self, line: str) -> None:
        """Print a line for the user, the first time in a process."""
        if line not in self._reported:
            self._reported.add(line)
            print_error(line)


def _text(kind: Any) -> str:
    """Key that distinguishes a type from others; numba's name of a named tuple does not have its fields."""
    inner = [_text(each) for each in kind.types] if isinstance(kind, types.BaseTuple) else ()
    return f"{kind.name}{getattr(kind, 'fields', '')}{inner}"


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel as Python calls it, cached on disk.

    Args:
        function: what to compile.
        locals: for numba, which rebuilds dispatchers from the names it pickles them by.
        targetoptions: likewise.
    """

    _class: ClassVar[type[_KernelCompiler]] = _KernelCompiler

    def __init__(self, function: Callable[..., Any], locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(function, locals or {}, targetoptions or OPTIONS, self._class)
        self._cache = _Cache(cast("FunctionType", function), type(self).__name__)

    @functools.cached_property
    def _part(self) -> _Part:
        return _Part(self.py_func, self.locals, self.targetoptions, _PartCompiler)

    def compile(self, sig: Any) -> Any:
        """Compile for types of arguments, or load the code from the disk."""
        # Numba takes the lock, too, but lets it go before the turn ends.
        with global_compiler_lock, contextlib.closing(self._cache), _patch_while_compiling():
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call by another kernel."""
        return self._part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Symbol by which the code generator finds what another kernel calls."""
        return self._part.get_overload(sig)


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)  # type: ignore[untyped-decorator]
def _compile_now(cell: int) -> int:
    """Compile the kernel whose address is to be in a cell; compiled code calls this while it is 0.

    Returns the signal that came meanwhile, or 0: an exception would be lost here.
    """
    kernel = LateKernel.by_cell[cell]
    number = 0
    while True:
        try:
            with announce_at_least(print_error, kernel.py_func.__module__.split(".")[-1].replace("_", " ")):
                kernel.prepare()
            break
        except KeyboardInterrupt as error:
            number = getattr(error, "number", signal.SIGINT)  # the code that called cannot be left from here
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(70)  # nor can it go on
    return number


_COMPILE_NOW = "sitl_bridge.compile_now"
llvm.add_symbol(_COMPILE_NOW, ctypes.cast(_compile_now, ctypes.c_void_p).value)


class LateKernel(Kernel):
    """A kernel that is compiled when it is called first; other kernels call it by its address."""

    by_cell: ClassVar[dict[int, LateKernel]] = {}
    _class = _LateCompiler

    def __init__(self, function: Callable[..., Any], locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(function, locals, targetoptions)
        self._cell = ctypes.c_int64(0)
        self._symbol = f"sitl_bridge.late.{function.__module__}.{function.__qualname__}"
        llvm.add_symbol(self._symbol, ctypes.addressof(self._cell))
        self.by_cell[ctypes.addressof(self._cell)] = self
        self._signature: Any = None

    def _declared_signature(self) -> Any:
        """Signature by the function's annotations."""
        if self._signature is None:
            hints = get_type_hints(self.py_func, include_extras=True)
            result = numba_type(hints.pop("return"))
            self._signature = result(*(numba_type(hint) for hint in hints.values()))
            self.targetctx.insert_func_defn([(self._generate_call, self._symbol, self._signature.args)])
        return self._signature

    def prepare(self) -> None:
        """Compile it now, or load its code from the disk."""
        if self._cell.value != 0:
            return
        kinds = self._declared_signature().args
        self.compile(kinds)
        code = self.overloads[kinds]
        self._cell.value = code.library.get_pointer_to_function(code.fndesc.llvm_cfunc_wrapper_name)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call by another kernel, by the annotations."""
        found, folded = self._compiler.fold_argument_types(args, kws)
        template = make_concrete_template(self._symbol, self._symbol, [self._declared_signature()])
        return template, found, tuple(types.unliteral(argument) for argument in folded), {}

    def get_overload(self, sig: Any) -> Any:
        """Give the code generator the call."""
        del sig
        return self._symbol

    def _generate_call(self, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        cell = builder.module.globals.get(self._symbol) or ir.GlobalVariable(
            builder.module, word, self._symbol
        )
        number = ir.IntType(32)
        resolve = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(number, [word]), _COMPILE_NOW
        )
        raise_signal = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(number, [number]), "PyErr_SetInterruptEx"
        )
        missing, there = (builder.append_basic_block(f"late.{name}") for name in ("missing", "there"))

        def is_missing() -> Any:
            return builder.icmp_signed("==", builder.load(cell), word(0))

        builder.cbranch(is_missing(), missing, there)
        with builder.goto_block(missing):
            came = builder.call(resolve, [builder.ptrtoint(cell, word)])
            # A signal that came before this call ends the call before it begins, and that exception is lost.
            lost = is_missing()
            builder.call(raise_signal, [builder.select(lost, number(0), came)])
            builder.cbranch(lost, missing, there)
        builder.position_at_end(there)
        kind = ir.FunctionType(
            context.get_value_type(signature.return_type),
            [context.get_value_type(each) for each in signature.args],
        )
        return builder.call(builder.inttoptr(builder.load(cell), kind.as_pointer()), arguments)


def check() -> None:
    """Compile a kernel with a part and a late kernel, and compare its answer.

    Raises:
        Exception: of whatever kind, under a version of numba whose internals are others.
    """

    def third(x: float) -> float:
        return x / 3.0

    def later(x: float) -> float:
        return x - 1.0

    part, late = Kernel(third), LateKernel(later)

    def whole(values: Any) -> float:
        total = 0.0
        for i in range(values.shape[0]):
            total += late(values[i]) if i % 2 else part(values[i])
        return total

    answer = Kernel(whole)(np.array([1.0, 2.0, 4.0]))
    if answer != 1.0 / 3.0 + 1.0 + 4.0 / 3.0:
        raise ValueError(f"a kernel that is to give 8/3 gives {answer}")
