"""A scene of triangles in Embree, through the C interface of the library that embreex brings along.

embreex itself builds scenes of medium quality and hands every ray through Python's arrays; built with spatial
splits and called from a kernel with packets of rays, the same library takes about a quarter of the time for a
lidar's turn in clutter.
"""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError

# embree4/rtcore_common.h, rtcore_geometry.h, rtcore_buffer.h and rtcore_scene.h.
_TRIANGLES = 0
_INDICES, _VERTICES = 0, 1
_UINT3, _FLOAT3 = 0x5003, 0x9003
_HIGH_QUALITY = 2
# RTCIntersectArguments (rtcore_common.h): flags, features, four pointers and a width in words of 32 bits.
_ARGUMENT_WORDS, _COHERENT, _ALL_FEATURES = 12, 1 << 16, 0xFFFFFFFF
_VOID, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "rtcNewDevice": (_VOID, [ctypes.c_char_p]),
    "rtcReleaseDevice": (None, [_VOID]),
    "rtcNewScene": (_VOID, [_VOID]),
    "rtcReleaseScene": (None, [_VOID]),
    "rtcSetSceneBuildQuality": (None, [_VOID, _INT]),
    "rtcCommitScene": (None, [_VOID]),
    "rtcNewGeometry": (_VOID, [_VOID, _INT]),
    "rtcReleaseGeometry": (None, [_VOID]),
    "rtcSetSharedGeometryBuffer": (None, [_VOID, _INT, ctypes.c_uint, _INT, _VOID, _SIZE, _SIZE, _SIZE]),
    "rtcSetGeometryBuildQuality": (None, [_VOID, _INT]),
    "rtcCommitGeometry": (None, [_VOID]),
    "rtcAttachGeometry": (ctypes.c_uint, [_VOID, _VOID]),
    "rtcGetDeviceError": (_INT, [_VOID]),
}


def _library() -> ctypes.CDLL:
    """Embree 4, as embreex has loaded it.

    Raises:
        ImportError: without embreex.
        UserError: where embreex is built upon another version of Embree.
    """
    importlib.import_module("embreex.rtcore_scene")
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {line.split(maxsplit=5)[5] for line in lines if "libembree4" in line}
    if not files:
        raise UserError("embreex is built upon another version of Embree than 4: pip install -U embreex")
    library = ctypes.CDLL(min(files))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class EmbreeTriangles:
    """Triangles in Embree.

    Attributes:
        scene: address of the RTCScene, valid while this object lives.
        intersect: address of rtcIntersect16.
        arguments: address of the RTCIntersectArguments for rays that go nearly the same way, valid likewise.

    Args:
        vertices: (v, 3) float32; three of them in a row are a triangle.

    Raises:
        ImportError: without embreex.
        UserError: where Embree refuses the triangles.
    """

    def __init__(self, vertices: NDArray[np.float32]) -> None:
        library = _library()
        # Embree reads 16 bytes at the last vertex.
        self._vertices = np.concatenate([vertices.ravel(), np.zeros(4, np.float32)])
        self._indices = np.arange(len(vertices), dtype=np.uint32)
        device = library.rtcNewDevice(b"")
        self.scene = int(library.rtcNewScene(device))
        finalize(self, library.rtcReleaseDevice, device)
        finalize(self, library.rtcReleaseScene, self.scene)
        library.rtcSetSceneBuildQuality(self.scene, _HIGH_QUALITY)
        geometry = library.rtcNewGeometry(device, _TRIANGLES)
        for slot, format_, array, count in (
            (_VERTICES, _FLOAT3, self._vertices, len(vertices)),
            (_INDICES, _UINT3, self._indices, len(vertices) // 3),
        ):
            library.rtcSetSharedGeometryBuffer(geometry, slot, 0, format_, array.ctypes.data, 0, 12, count)
        library.rtcSetGeometryBuildQuality(geometry, _HIGH_QUALITY)
        library.rtcCommitGeometry(geometry)
        library.rtcAttachGeometry(self.scene, geometry)
        library.rtcReleaseGeometry(geometry)
        library.rtcCommitScene(self.scene)
        if error := library.rtcGetDeviceError(device):
            raise UserError(f"Embree refuses the scene's meshes with its error {error}")
        self.intersect = int(ctypes.cast(library.rtcIntersect16, _VOID).value or 0)
        self._arguments = np.zeros(_ARGUMENT_WORDS, np.uint32)
        self._arguments[:2] = _COHERENT, _ALL_FEATURES
        self.arguments = int(self._arguments.ctypes.data)
