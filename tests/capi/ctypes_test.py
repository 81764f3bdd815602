# tests/capi/ctypes_test.py -- the C interface loaded by ctypes: ctypes_test.py libluminal_c.so
import array
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.luminal_program_from_text.restype = ctypes.c_void_p
library.luminal_error.restype = ctypes.c_char_p


class Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


assert library.luminal_c_version() == 1
program = ctypes.c_void_p(library.luminal_program_from_text(b"fn @main(%x: f32[3]) { %y = mul %x, %x  return "
                                                            b"y = %y }"))
assert program.value, library.luminal_error()
numbers = array.array("f", [1, 2, 3])
shape = (ctypes.c_int64 * 1)(3)
assert library.luminal_set_input(program, b"x", b"f32", 1, shape,
                                 ctypes.c_void_p(numbers.buffer_info()[0])), library.luminal_error()
assert library.luminal_execute(program), library.luminal_error()
value = Value()
assert library.luminal_output(program, b"y", ctypes.byref(value)), library.luminal_error()
assert value.dtype == b"f32" and value.shape[0] == 3
assert list((ctypes.c_float * 3).from_address(value.data)) == [1, 4, 9]
assert not library.luminal_output(program, b"z", ctypes.byref(value))
assert b"there is no result z" in library.luminal_error()
library.luminal_program_free(program)

# Weights may be given again, at other sizes too; what depends on them is computed anew, and states go on.
program = ctypes.c_void_p(library.luminal_program_from_text(b"""
symbol n: 1..100000
fn @main(%x: f32[n], weight %w: f32[n], weight %v: f32[2], state %s: f32) {
  %p = mul %x, %w
  %e = exp %v
  %f = fold [i: 2] over [i] { sum %e[i] }
  %g = get %f, 0
  %h = fold [i: n] over [i] { sum %p[i] }
  %k = get %h, 0
  %t = add %s, %k
  return y = %p, z = %g, t = %t -> s
}"""))
assert program.value, library.luminal_error()


def give(name, values, rank=1):
    data = array.array("f", values)
    assert library.luminal_set_input(program, name, b"f32", rank, (ctypes.c_int64 * 1)(len(values)),
                                     ctypes.c_void_p(data.buffer_info()[0])), library.luminal_error()


def result(name):
    assert library.luminal_output(program, name, ctypes.byref(value)), library.luminal_error()
    return list((ctypes.c_float * (value.bytes // 4)).from_address(value.data))


give(b"s", [100], rank=0)
give(b"v", [0, 0])
total = 100.0
for size, weight in (3, 1), (3, 5), (20000, 7), (1, 9):
    give(b"x", [2] * size)
    give(b"w", [weight] * size)
    assert library.luminal_execute(program), library.luminal_error()
    total += 2 * weight * size
    assert result(b"y") == [2 * weight] * size
    assert result(b"z") == [2.0]
    assert result(b"t") == [total]
give(b"v", [0, float("-inf")])
assert result(b"z") == [2.0]  # of the last run
assert library.luminal_execute(program), library.luminal_error()
assert result(b"z") == [1.0]
library.luminal_program_free(program)

# What the largest sizes take can be more than addresses reach: memory is for the present ones.
program = ctypes.c_void_p(library.luminal_program_from_text(b"""
symbol n: 1..100000
fn @main(%x: f32[n, n, n]) {
  %y = view %x [i: n, j: n, k: n] -> [k, j, i]
  %s = scan [i: n, j: n, k: n] along k { sum %y[i, j, k] }
  %a = get %s, 0
  %t = scan [i: n, j: n, k: n] along j { sum %a[i, j, k] }
  %b = get %t, 0
  return b = %b
}"""))
assert program.value, library.luminal_error()
for size in (5, 40, 3):
    data = array.array("f", [1] * size**3)
    assert library.luminal_set_input(program, b"x", b"f32", 3, (ctypes.c_int64 * 3)(size, size, size),
                                     ctypes.c_void_p(data.buffer_info()[0])), library.luminal_error()
    assert library.luminal_execute(program), library.luminal_error()
    assert result(b"b") == [(j + 1) * (k + 1) for i in range(size) for j in range(size) for k in range(size)]
library.luminal_program_free(program)
