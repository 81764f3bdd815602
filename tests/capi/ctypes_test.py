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
