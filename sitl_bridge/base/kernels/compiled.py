"""How numba compiles a kernel: together with the kernels it calls, as one module.

Left to itself, numba makes a finished product of every function that another one calls: optimised, turned
into machine code, wrapped for Python, written to the cache, and then copied into its caller and optimised
again; and one more for every integer literal it is called with.  Here a kernel that kernels call is typed
and lowered once, and optimised within the kernel that Python calls; only that one is wrapped and cached.
That halves the first compilation.  It builds on numba's internals, so pyproject.toml bounds numba's version.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

import llvmlite.binding as llvm
from numba import config, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from sitl_bridge.base.error_log import cause, print_error
from sitl_bridge.base.kernels.kernel_cache import is_own, used_directory

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "boundscheck": None,
    "no_cfunc_wrapper": True,
}
"""IEEE arithmetic is kept (no fast-math), so that the same inputs give the same bytes."""


@contextlib.contextmanager
def _cached_here(function: Callable[..., Any]) -> Iterator[None]:
    """Within the block, numba keeps ``function`` in the directory of the file that defines it."""
    before = config.CACHE_DIR
    config.CACHE_DIR = used_directory(function.__code__.co_filename)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@functools.cache
def _reference_counts() -> Any:
    """Numba's functions that count the references to an array, ready to be inlined."""
    text = rtsys.library.get_llvm_str().replace("noinline", "alwaysinline")
    module = llvm.parse_assembly(text)
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "linkonce_odr"
    return module


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
        # inlined away where they are called once, which is worth a tenth of the simulation's speed.
        self._link_as("internal", counts="available_externally")
        super()._optimize_final_module()
        self._inline_reference_counts()

    def _link_as(self, linkage: str, counts: str) -> None:
        """Change the linkage of the functions that were linked in, and of those that count references."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = counts if function.name in ("NRT_incref", "NRT_decref") else linkage

    def _inline_reference_counts(self) -> None:
        """Spare the calls that count references, which numba keeps until it has removed pairs of them.

        Arrays that ``array_at`` makes are not counted, yet a tuple of sixteen of them cost 33 calls a step.
        """
        self._final_module.link_in(_reference_counts(), preserve=True)
        self._link_as("internal", counts="internal")
        passes = llvm.create_new_module_pass_manager()
        passes.add_ipsccp_pass()
        passes.add_always_inliner_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_arg_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, self._codegen._pass_builder())


class _PartLibrary(_Library):
    """Intermediate code of a kernel that kernels call; by itself neither optimised nor made executable."""

    def finalize(self) -> None:
        """Leave it to those that link this."""
        self._finalized = True


class _Flags(Flags):  # type: ignore[misc]
    """Compiler flags that are one object for all kernels: numba compares them a hundred thousand times."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def copy(self) -> _Flags:
        """Nobody changes them, so this is as good as a copy."""
        return self


class _KernelCompiler(Compiler):  # type: ignore[misc]
    library: type[_Library] = _Library
    flags: _Flags | None = None

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile into a library and with flags of this module's."""
        if type(self).flags is None:
            type(self).flags = self.shared_flags()
        self.state.flags = type(self).flags
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)

    def shared_flags(self) -> _Flags:
        return _Flags(self.state.flags)


class _PartCompiler(_KernelCompiler):
    library = _PartLibrary
    flags = None

    def shared_flags(self) -> _Flags:
        flags = _Flags(self.state.flags)
        flags.no_compile = flags.no_cpython_wrapper = True
        return flags


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


class _Locator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Where code is kept: the package's wherever it is installed, other files' by their path and content."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        super().__init__(function, path)
        self._own = is_own(path)
        if self._own:
            self._cache_path = config.CACHE_DIR

    def ensure_cache_path(self) -> None:
        """Make the directory; whether it can be written shows when code is kept."""
        with contextlib.suppress(OSError):
            os.makedirs(self._cache_path, exist_ok=True)  # noqa: PTH103  (600 times at every start)

    def get_source_stamp(self) -> Any:
        """What tells versions of a file apart; for the package's files their directory does."""
        return "" if self._own else super().get_source_stamp()


class _CacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar[list[type]] = [_Locator]


class _Cache(FunctionCache):  # type: ignore[misc]
    """Code on disk, without which a kernel runs as well: it is compiled once more at the next start."""

    _impl_class = _CacheFiles
    _reported: ClassVar[set[str]] = set()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Code for a signature; None where there is none, or where its file is damaged."""
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            return None  # the directory cannot be read; what is wrong shows when code is kept
        except Exception as error:  # noqa: BLE001  (unpickling raises whatever it meets)
            self._report(f"compiled code cannot be read: {cause(error)}; it is compiled again")
            self._reporting(self.flush)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code where the disk has room for it."""
        self._reporting(lambda: super(_Cache, self).save_overload(sig, data))

    def _reporting(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._report(f"compiled code cannot be kept: {error.strerror}; it is compiled at every start")

    def _report(self, line: str) -> None:
        """Print a line for the user, the first time in a process."""
        if line not in self._reported:
            self._reported.add(line)
            print_error(f"{self.cache_path}: {line}")


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel as Python calls it, cached on disk.

    Args:
        function: what to compile.
        locals: for numba, which rebuilds dispatchers from the names it pickles them by.
        targetoptions: likewise.
    """

    def __init__(self, function: Callable[..., Any], locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(function, locals or {}, targetoptions or OPTIONS, _KernelCompiler)
        self._part = _Part(function, self.locals, self.targetoptions, _PartCompiler)
        self.enable_caching()

    def enable_caching(self) -> None:
        """Cache in the directory of the file that defines the kernel."""
        with _cached_here(self.py_func):
            self._cache = _Cache(self.py_func)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call by another kernel."""
        return self._part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Where the code generator finds what another kernel calls."""
        return self._part.get_overload(sig)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call, cached on disk, free of the GIL."""
    return cast("Callable[P, R]", Kernel(function))
