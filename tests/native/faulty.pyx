"""Faults on purpose, each in its own way out of bounds: what a sanitizer must report, or it sees nothing."""

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc


def read_past_the_end(const float[::1] values):
    return values[values.shape[0]]


def write_past_the_end(float[::1] values):
    values[values.shape[0]] = 1


def read_what_is_freed(Py_ssize_t at):
    cdef int* numbers = <int*>malloc(16 * sizeof(int))
    numbers[at] = 1
    free(numbers)
    return numbers[at]


def shift_too_far(int32_t number, int by):
    return number << by


def add_too_much(int32_t number, int32_t more):
    cdef int32_t total = number + more
    return total


def cast_out_of_range(double number):
    return <int32_t>number


def read_misaligned(const unsigned char[::1] bytes_read, Py_ssize_t at):
    return (<const int32_t*>&bytes_read[at])[0]
