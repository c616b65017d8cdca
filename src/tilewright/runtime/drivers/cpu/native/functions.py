"""The names of the functions of the Python library and of systems that native code calls through the TABLE."""

from __future__ import annotations

from collections.abc import Mapping

C_FUNCTIONS = (
    "PyCallable_Check",
    "PyCapsule_GetPointer",
    "PyCapsule_IsValid",
    "PyCapsule_SetName",
    "PyDict_GetItemWithError",
    "PyDict_New",
    "PyDict_SetItem",
    "PyErr_BadInternalCall",
    "PyErr_CheckSignals",
    "PyErr_Clear",
    "PyErr_ExceptionMatches",
    "PyErr_Fetch",
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyErr_Restore",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyList_AsTuple",
    "PyList_GetItem",
    "PyList_Size",
    "PyLong_AsLongLong",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_AsUnsignedLongLong",
    "PyLong_AsVoidPtr",
    "PyLong_FromLongLong",
    "PyObject_GC_Del",
    "PyObject_GC_Track",
    "PyObject_GC_UnTrack",
    "PyObject_GetAttr",
    "PyObject_HasAttr",
    "PyObject_Vectorcall",
    "PyObject_VectorcallMethod",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_GetFlags",
    "Py_DecRef",
    "Py_IncRef",
    "_PyObject_GC_New",
)
"""Functions of the Python library that native code calls."""

FREE_THREADED_FUNCTIONS = ("PyDict_GetItemRef",)
"""Those that it calls where threads are free, and that versions of Python before 3.13 do not have."""

_POSIX_FUNCTIONS = (
    "free",
    "getpid",
    "malloc",
    "posix_memalign",
    "pthread_create",
    "pthread_getspecific",
    "pthread_setspecific",
    "pthread_sigmask",
    "raise",
    "sched_yield",
    "sigaction",
    "usleep",
    "write",
)
SYSTEM_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "linux": (*_POSIX_FUNCTIONS, "syscall"),
    "macos": (
        *_POSIX_FUNCTIONS,
        "__ulock_wait",
        "__ulock_wake",
        "pthread_attr_init",
        "pthread_attr_setstacksize",
        "pthread_main_np",
        "pthread_self",
    ),
    "windows": (
        "CloseHandle",
        "CreateThread",
        "GetCurrentThreadId",
        "GetStdHandle",
        "Sleep",
        "SwitchToThread",
        "TlsGetValue",
        "TlsSetValue",
        "WaitOnAddress",
        "WakeByAddressAll",
        "WriteFile",
        "_aligned_free",
        "_aligned_malloc",
        "malloc",
    ),
}
"""Functions of the system's libraries that native code calls, by the name of the system."""
NEW_FUNCTIONS = {"macos": ("os_sync_wait_on_address", "os_sync_wake_by_address_all")}
"""… and those that older systems lack: null there."""
EVERY_FUNCTION = sorted({name for names in (*SYSTEM_FUNCTIONS.values(), *NEW_FUNCTIONS.values()) for name in names})
"""All functions of systems."""
