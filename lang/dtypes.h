// The element types. One row each: name, bits, class, meaning.
//
// Storage floats (f16, bf16, f8) are loaded, stored, moved, compared, selected, min/max-ed and fed to
// `dot` as they are; every other operation on them yields f32. `index` is the type of an axis used as
// a value: 64-bit meaning, narrowed by the compiler when launch guards prove it; storing needs `as`.
//
// clang-format off
//    name      bits  class    meaning
#define ELEMS(X) \
    X(bool,      8,   BOOL,    "true or false, one byte in memory") \
    X(i8,        8,   INT,     "signed integer, wraps") \
    X(i16,      16,   INT,     "signed integer, wraps") \
    X(i32,      32,   INT,     "signed integer, wraps") \
    X(i64,      64,   INT,     "signed integer, wraps") \
    X(u8,        8,   UINT,    "unsigned integer, wraps") \
    X(u16,      16,   UINT,    "unsigned integer, wraps") \
    X(u32,      32,   UINT,    "unsigned integer, wraps") \
    X(u64,      64,   UINT,    "unsigned integer, wraps") \
    X(index,    64,   INT,     "an axis's index, or a dimension") \
    X(f8e4m3,    8,   STORAGE, "float, 4-bit exponent, no infinity") \
    X(f8e5m2,    8,   STORAGE, "float, 5-bit exponent") \
    X(f16,      16,   STORAGE, "IEEE half") \
    X(bf16,     16,   STORAGE, "bfloat16") \
    X(f32,      32,   FLOAT,   "IEEE single") \
    X(f64,      64,   FLOAT,   "IEEE double")
// clang-format on
