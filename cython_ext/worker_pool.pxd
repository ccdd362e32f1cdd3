from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector


cdef extern from "worker_pool.hpp" namespace "camera_ai" nogil:
    cdef struct Completion "camera_ai::WorkerPool::Completion":
        int worker
        void* task

    cdef cppclass NativePool "camera_ai::WorkerPool":
        NativePool(int workers) except +
        cbool submit(void* task) noexcept
        int next_worker() noexcept
        int free_workers() noexcept
        void* wait(int worker) noexcept
        void complete(int worker, void* task) noexcept
        # The vector that is passed has its room beforehand.
        void collect(vector[Completion]& completions) noexcept
        int fd() noexcept
        void stop() noexcept


cdef class WorkerPool:
    cdef unique_ptr[NativePool] native
    cdef vector[Completion] completions
    cdef readonly int workers
    cdef list held
    cdef list served
    cdef bint stopped
    cdef bint closed
    cdef int _serve(self, int worker, work) except -1
    cdef int _release(self) except -1
