// Tensors of ONNX files: TensorProto in all its forms to plain memory.
//
//     raw_data         little endian bytes, used where they are         float_data, int32_data, ...   converted
//     external data    a piece of another file, mapped                  4-bit and 2-bit integers      unpacked, a byte
//     each; matrices of 4 bits stay packed as weights (weight_of), and the graph unpacks them
//
// What a tensor says of itself has to agree: dimensions, element type, bytes. Element types that have no
// row in lang/dtypes.h are read as the smallest one that holds all their values (int4 as i8, float4e2m1 as
// f8e4m3, float8e8m0 as f32, the unsigned-zero float8 kinds as f16): exact, since the importer computes
// with values. Strings and complex numbers are not read.
#include "graph/onnx/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/file.h"
#include "lang/number.h"

typedef enum Field { IN_NONE, IN_FLOAT, IN_INT32, IN_INT64, IN_DOUBLE, IN_UINT64 } Field;
typedef enum Code { PLAIN, SIGNED_BITS, UNSIGNED_BITS, E4M3UZ, E5M2UZ, E2M1, E8M0 } Code; // how an element is written

typedef struct OnnxType {
    const char *name;
    Elem elem;
    uint8_t bits;
    Field field;
    Code code;
} OnnxType;

// By number of TensorProto.DataType.
// clang-format off
static const OnnxType types[] = {
    [1]  = {"float",          EL_f32,    32, IN_FLOAT,  PLAIN},         [2]  = {"uint8",      EL_u8,  8,  IN_INT32,  PLAIN},
    [3]  = {"int8",           EL_i8,      8, IN_INT32,  PLAIN},         [4]  = {"uint16",     EL_u16, 16, IN_INT32,  PLAIN},
    [5]  = {"int16",          EL_i16,    16, IN_INT32,  PLAIN},         [6]  = {"int32",      EL_i32, 32, IN_INT32,  PLAIN},
    [7]  = {"int64",          EL_i64,    64, IN_INT64,  PLAIN},         [8]  = {"string",     EL_none, 0, IN_NONE,   PLAIN},
    [9]  = {"bool",           EL_bool,    8, IN_INT32,  PLAIN},         [10] = {"float16",    EL_f16, 16, IN_INT32,  PLAIN},
    [11] = {"double",         EL_f64,    64, IN_DOUBLE, PLAIN},         [12] = {"uint32",     EL_u32, 32, IN_UINT64, PLAIN},
    [13] = {"uint64",         EL_u64,    64, IN_UINT64, PLAIN},         [14] = {"complex64",  EL_none, 0, IN_NONE,   PLAIN},
    [15] = {"complex128",     EL_none,    0, IN_NONE,   PLAIN},         [16] = {"bfloat16",   EL_bf16, 16, IN_INT32, PLAIN},
    [17] = {"float8e4m3fn",   EL_f8e4m3,  8, IN_INT32,  PLAIN},         [18] = {"float8e4m3fnuz", EL_f16, 8, IN_INT32, E4M3UZ},
    [19] = {"float8e5m2",     EL_f8e5m2,  8, IN_INT32,  PLAIN},         [20] = {"float8e5m2fnuz", EL_f16, 8, IN_INT32, E5M2UZ},
    [21] = {"uint4",          EL_u8,      4, IN_INT32,  UNSIGNED_BITS}, [22] = {"int4",       EL_i8,   4, IN_INT32,  SIGNED_BITS},
    [23] = {"float4e2m1",     EL_f8e4m3,  4, IN_INT32,  E2M1},          [24] = {"float8e8m0", EL_f32,  8, IN_INT32,  E8M0},
    [25] = {"uint2",          EL_u8,      2, IN_INT32,  UNSIGNED_BITS}, [26] = {"int2",       EL_i8,   2, IN_INT32,  SIGNED_BITS},
};
// clang-format on
enum { TYPES = sizeof types / sizeof *types };

const char *onnx_type_name(int type) { return type > 0 && type < TYPES ? types[type].name : "undefined"; }
Elem onnx_type_elem(int type) { return type > 0 && type < TYPES ? types[type].elem : EL_none; }
int onnx_type_bits(int type) { return type > 0 && type < TYPES ? types[type].bits : 0; }

bool onnx_type_plain(int type) { return type <= 0 || type >= TYPES || types[type].code == PLAIN; }

int onnx_type_of(Elem elem) {
    for (int i = 1; i < TYPES; i++)
        if (types[i].elem == elem && types[i].code == PLAIN) return i;
    return 0;
}

// ---- elements that are no element of ours ----------------------------------------------------------

// A float of 1 sign, `exponent` and `mantissa` bits, whose negative zero is NaN and whose bias is one more than usual.
static float float_uz(unsigned b, int exponent, int mantissa) {
    int bias = 1 << (exponent - 1), e = (int)(b >> mantissa) & ((1 << exponent) - 1);
    float m = (float)(b & ((1u << mantissa) - 1)) / (float)(1 << mantissa);
    if (b == 0x80) return NAN;
    float v = e == 0 ? ldexpf(m, 1 - bias) : ldexpf(1 + m, e - bias);
    return b & 0x80 ? -v : v;
}

static void decode_one(const OnnxType *t, unsigned b, void *out, int64_t i) {
    static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    unsigned half = 1u << (t->bits - 1);
    switch (t->code) {
    case SIGNED_BITS: ((int8_t *)out)[i] = (int8_t)((int)(b ^ half) - (int)half); break;
    case UNSIGNED_BITS: ((uint8_t *)out)[i] = (uint8_t)b; break;
    case E4M3UZ: ((uint16_t *)out)[i] = f16_from_f32(float_uz(b, 4, 3)); break;
    case E5M2UZ: ((uint16_t *)out)[i] = f16_from_f32(float_uz(b, 5, 2)); break;
    case E2M1: ((uint8_t *)out)[i] = e4m3_from_f32(b & 8 ? -e2m1[b & 7] : e2m1[b & 7]); break;
    case E8M0: ((float *)out)[i] = b == 255 ? NAN : ldexpf(1, (int)b - 127); break;
    case PLAIN: break;
    }
}

// Packed bytes, the first element in the low bits -> one element of ours each.
static void *decode(const OnnxType *t, const uint8_t *bytes, int64_t count, Arena *a) {
    int in_byte = 8 / t->bits;
    void *out = arena_alloc(a, (size_t)count * (size_t)elem_bytes(t->elem));
    for (int64_t i = 0; i < count; i++)
        decode_one(t, (unsigned)bytes[i / in_byte] >> (i % in_byte * t->bits) & ((1u << t->bits) - 1), out, i);
    return out;
}

// ---- typed fields ----------------------------------------------------------------------------------

static size_t field_length(const OnnxType *t, const Onnx__TensorProto *p) {
    switch (t->field) {
    case IN_FLOAT: return p->n_float_data;
    case IN_INT32: return p->n_int32_data;
    case IN_INT64: return p->n_int64_data;
    case IN_DOUBLE: return p->n_double_data;
    case IN_UINT64: return p->n_uint64_data;
    case IN_NONE: break;
    }
    return 0;
}

// The typed field as the bytes that raw_data would have.
static const void *field_bytes(const OnnxType *t, const Onnx__TensorProto *p, Arena *a) {
    switch (t->field) {
    case IN_FLOAT: return p->float_data;
    case IN_INT64: return p->int64_data;
    case IN_DOUBLE: return p->double_data;
    case IN_UINT64: {
        if (t->bits == 64) return p->uint64_data;
        uint32_t *out = NEW_N(a, uint32_t, p->n_uint64_data);
        for (size_t i = 0; i < p->n_uint64_data; i++) out[i] = (uint32_t)p->uint64_data[i];
        return out;
    }
    case IN_INT32: {
        if (t->bits == 32) return p->int32_data;
        size_t wide = t->bits == 16 ? 2 : 1;
        uint8_t *out = arena_alloc(a, p->n_int32_data * wide);
        for (size_t i = 0; i < p->n_int32_data; i++) memcpy(out + i * wide, &p->int32_data[i], wide); // little endian
        return out;
    }
    case IN_NONE: break;
    }
    return NULL;
}

// ---- external data ---------------------------------------------------------------------------------

static bool is_below(const char *folder, const char *path) {
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n > 0 && folder[n - 1] == '/'));
}

static bool number_of(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

// NULL: err says why, or nothing when the file is not there and that is allowed (*missing).
static const FileMap *external_file(OnnxModel *m, const char *location, bool *missing, Buf *err) {
    bool climbs = strcmp(location, "..") == 0 || strncmp(location, "../", 3) == 0 || strstr(location, "/../") != NULL ||
                  (strlen(location) > 2 && strcmp(location + strlen(location) - 3, "/..") == 0);
    if (*location == '\0' || *location == '/' || climbs || strlen(location) > 4000) {
        buf_printf(err, "its external data \"%s\" must be a file below the model's folder", shown(m->arena, location));
        return NULL;
    }
    if (m->folder == NULL) return buf_puts(err, "has external data, but the model's folder cannot be read"), NULL;
    char *path = arena_printf(m->arena, "%s/%s", m->folder, location), *real = file_real(path);
    *missing = real == NULL && (errno == ENOENT || errno == ENOTDIR);
    if (real == NULL) {
        if (!*missing) buf_printf(err, "its external data %s: %s", shown(m->arena, path), strerror(errno));
        return NULL;
    }
    const FileMap *found = NULL;
    if (!is_below(m->folder, real))
        buf_printf(err, "its external data \"%s\" lead out of the model's folder", shown(m->arena, location));
    else {
        for (uint32_t i = 0; i < m->maps.n; i++)
            if (strcmp(m->maps.at[i].path, real) == 0) found = &m->maps.at[i];
        FileMap map;
        if (found == NULL && file_map(real, &map, m->arena, err)) {
            vec_push(m->arena, &m->maps, map);
            found = &m->maps.at[m->maps.n - 1];
        }
    }
    heap_free(real);
    return found;
}

static bool external_bytes(OnnxModel *m, const Onnx__TensorProto *p, uint64_t want, OnnxTensor *out,
                           const uint8_t **bytes, Buf *err) {
    const char *location = NULL;
    uint64_t offset = 0, length = want;
    if (m == NULL) return buf_puts(err, "its data stand in another file, which only a model names"), false;
    for (size_t i = 0; i < p->n_external_data; i++) {
        const char *key = p->external_data[i]->key, *value = p->external_data[i]->value;
        if (key == NULL || value == NULL) continue;
        if (strcmp(key, "location") == 0) location = value;
        bool ok = strcmp(key, "offset") == 0   ? number_of(value, &offset)
                  : strcmp(key, "length") == 0 ? number_of(value, &length)
                                               : true;
        if (!ok)
            return buf_printf(err, "the %s of its external data is no number: \"%s\"", key, shown(m->arena, value)),
                   false;
    }
    if (location == NULL) return buf_puts(err, "its external data name no file"), false;
    if (length != want)
        return buf_printf(err, "its external data have %llu bytes, but its type and dimensions need %llu",
                          (unsigned long long)length, (unsigned long long)want),
               false;
    bool missing = false;
    const FileMap *f = external_file(m, location, &missing, err);
    out->from.offset = offset;
    if (missing) {
        out->missing = arena_printf(m->arena, "%s", location);
        out->from.file = arena_printf(m->arena, "%s/%s", m->folder, location);
    }
    if (f == NULL) return missing;
    out->from.file = f->path;
    if (offset > f->n || want > f->n - offset)
        return buf_printf(err, "its external data are bytes %llu to %llu of %s, which has %zu",
                          (unsigned long long)offset, (unsigned long long)offset + want, shown(m->arena, location),
                          f->n),
               false;
    *bytes = f->p == NULL ? (const uint8_t *)"" : f->p + offset;
    return true;
}

// ---- tensors ---------------------------------------------------------------------------------------

static bool shape_count(const int64_t *dim, size_t rank, int64_t *count, Buf *err) {
    int64_t n = 1, limit = INT64_MAX / 64;
    bool none = false;
    if (rank > MAX_RANK) return buf_printf(err, "has %zu dimensions; %d are supported", rank, MAX_RANK), false;
    for (size_t d = 0; d < rank; d++) {
        if (dim[d] < 0) return buf_printf(err, "has a negative dimension, %lld", (long long)dim[d]), false;
        if (dim[d] == 0) none = true;
        else if (dim[d] > limit / n) return buf_puts(err, "has dimensions whose product is beyond any memory"), false;
        else n *= dim[d];
    }
    *count = none ? 0 : n;
    return true;
}

// ---- weights of 4 bits as they lie ---------------------------------------------------------------------

// Two to a byte, in rows of whole bytes; not few of them, which may be sizes or zero points that are looked at one by one.
static bool two_to_a_byte(const OnnxType *t, const OnnxTensor *x) {
    enum { MANY = 1024 };
    bool whole = t->bits == 4 && (t->code == SIGNED_BITS || t->code == UNSIGNED_BITS);
    return whole && x->count >= MANY && x->rank >= 2 && x->dim[x->rank - 1] % 2 == 0;
}

// Signed ones as 8 more, so that a field of either is a number from 0 to 15.
static void keep_packed(const OnnxType *t, const uint8_t *bytes, Arena *a, OnnxTensor *out) {
    int64_t n = out->count / 2;
    out->packed = t->elem;
    out->elem = EL_u8;
    out->count = n;
    out->dim[out->rank - 1] /= 2;
    out->data = bytes;
    if (t->code == UNSIGNED_BITS) return;
    uint8_t *more = arena_alloc(a, (size_t)n);
    for (int64_t i = 0; i < n; i++) more[i] = bytes[i] ^ 0x88;
    out->data = more;
}

static bool tensor_as(OnnxModel *m, const Onnx__TensorProto *p, Arena *a, bool packed, OnnxTensor *out, Buf *err) {
    const OnnxType *t = p->data_type > 0 && p->data_type < TYPES ? &types[p->data_type] : NULL;
    *out = (OnnxTensor){.name = p->name != NULL ? p->name : "", .type = p->data_type};
    if (t == NULL) return buf_printf(err, "has an unknown element type, number %d", p->data_type), false;
    if (t->elem == EL_none) return buf_printf(err, "has elements of type %s, which are not supported", t->name), false;
    if (p->segment != NULL) return buf_puts(err, "is stored in segments, which are not supported"), false;
    if (!shape_count(p->dims, p->n_dims, &out->count, err)) return false;
    out->elem = t->elem;
    out->rank = (int)p->n_dims;
    for (size_t d = 0; d < p->n_dims; d++) out->dim[d] = p->dims[d];

    uint64_t want = ((uint64_t)out->count * t->bits + 7) / 8;
    size_t listed = field_length(t, p), expected = t->bits < 8 ? (size_t)want : (size_t)out->count;
    const uint8_t *bytes = NULL;
    if (p->data_location == 1) {
        if (!external_bytes(m, p, want, out, &bytes, err)) return false;
        if (bytes == NULL) return true;
    } else if (p->has_raw_data && (p->raw_data.len > 0 || listed == 0)) {
        if (listed > 0) return buf_puts(err, "has both raw_data and typed data"), false;
        if (p->raw_data.len != want)
            return buf_printf(err, "has %zu bytes of data, but its type and dimensions need %llu", p->raw_data.len,
                              (unsigned long long)want),
                   false;
        bytes = p->raw_data.data;
    } else {
        if (listed != expected)
            return buf_printf(err, "has %zu elements of data, but its dimensions need %zu", listed, expected), false;
        bytes = field_bytes(t, p, a);
    }
    if (out->count == 0) bytes = (const uint8_t *)"";
    int wide = elem_bytes(t->elem);
    if (packed && two_to_a_byte(t, out)) keep_packed(t, bytes, a, out);
    else if (t->code != PLAIN) out->data = decode(t, bytes, out->count, a);
    else if ((uintptr_t)bytes % (uintptr_t)wide == 0 || out->count == 0) out->data = bytes;
    else out->data = memcpy(arena_alloc(a, want), bytes, want); // at an odd place of a file
    return true;
}

bool tensor_of(OnnxModel *m, const Onnx__TensorProto *p, Arena *a, OnnxTensor *out, Buf *err) {
    return tensor_as(m, p, a, false, out, err);
}
bool weight_of(OnnxModel *m, const Onnx__TensorProto *p, Arena *a, OnnxTensor *out, Buf *err) {
    return tensor_as(m, p, a, true, out, err);
}

// Values at indices into the flattened shape, or rows of coordinates.
bool sparse_of(OnnxModel *m, const Onnx__SparseTensorProto *p, Arena *a, OnnxTensor *out, Buf *err) {
    OnnxTensor values, indices;
    if (p->values == NULL || p->indices == NULL) return buf_puts(err, "is sparse and lacks values or indices"), false;
    if (!tensor_of(m, p->values, a, &values, err) || !tensor_of(m, p->indices, a, &indices, err)) return false;
    *out = (OnnxTensor){.name = values.name, .type = values.type, .elem = values.elem, .rank = (int)p->n_dims};
    if (!shape_count(p->dims, p->n_dims, &out->count, err)) return false;
    bool flat = indices.rank == 1, fits = flat || (indices.rank == 2 && indices.dim[1] == (int64_t)p->n_dims);
    if (values.rank != 1 || indices.elem != EL_i64 || !fits || indices.dim[0] != values.count || values.missing ||
        indices.missing)
        return buf_puts(err, "is sparse, and its values and indices do not fit each other"), false;
    enum { LARGEST = 1 << 28 };
    if (out->count > LARGEST) return buf_puts(err, "is sparse and too large to be filled in"), false;
    int64_t wide = elem_bytes(out->elem);
    uint8_t *data = arena_alloc(a, (size_t)(out->count * wide));
    for (size_t d = 0; d < p->n_dims; d++) out->dim[d] = p->dims[d];
    for (int64_t i = 0; i < values.count; i++) {
        const int64_t *at = (const int64_t *)indices.data + (flat ? i : i * out->rank);
        int64_t to = flat ? *at : 0;
        for (int d = 0; !flat && d < out->rank; d++) {
            if (at[d] < 0 || at[d] >= out->dim[d]) return buf_puts(err, "is sparse, with an index out of range"), false;
            to = to * out->dim[d] + at[d];
        }
        if (to < 0 || to >= out->count) return buf_puts(err, "is sparse, with an index out of range"), false;
        memcpy(data + to * wide, (const uint8_t *)values.data + i * wide, (size_t)wide);
    }
    out->data = data;
    return true;
}

Node *tensor_node(Graph *g, const OnnxTensor *t) {
    return g_const_ref(g, t->elem, t->rank, t->dim, t->data, &t->from);
}

Node *tensor_unpacked(Graph *g, const OnnxTensor *t, Node *x) {
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    int last = x->rank - 1;
    if (t->packed == EL_none) return x;
    for (int d = 0; d < x->rank; d++)
        shape[d] = d == last ? ix_muli(g, x->shape[d], 2) : x->shape[d], coord[d] = ix_axis(g, d, shape[d]);
    Node *shift = g_index(g, EL_u8, x->rank, shape, ix_muli(g, ix_modi(g, coord[last], 2), 4));
    coord[last] = ix_divi(g, coord[last], 2);
    Node *field = g_ew2(g, EW_and, g_ew2(g, EW_shr, g_view(g, x, x->rank, shape, coord, NULL, g_int(0)), shift),
                        g_i(g, EL_u8, 15));
    if (t->packed == EL_u8) return field;
    return g_cast(g, g_ew2(g, EW_sub, g_cast(g, field, EL_i32), g_i(g, EL_i32, 8)), EL_i8);
}

// ---- *.pb files --------------------------------------------------------------------------------------

bool onnx_tensor_parse(const void *bytes, size_t n, GTensor *out, Buf *err) {
    Arena *a = arena_new();
    OnnxTensor t;
    Onnx__TensorProto *p = (Onnx__TensorProto *)message_read(&onnx__tensor_proto__descriptor, bytes, n, a, err);
    bool ok = p != NULL && tensor_of(NULL, p, a, &t, err);
    if (ok) {
        *out = (GTensor){.elem = t.elem, .rank = t.rank};
        for (int d = 0; d < t.rank; d++) out->shape[d] = t.dim[d];
        ok = g_tensor_alloc(out);
        if (ok && out->bytes > 0) memcpy(out->data, t.data, out->bytes);
        else if (!ok) buf_puts(err, "is larger than memory");
    }
    arena_free(a);
    return ok;
}

bool onnx_tensor_read(const char *path, GTensor *out, Buf *err) {
    FileMap f;
    Buf why = {0};
    Arena *a = arena_new();
    bool ok = file_map(path, &f, a, &why);
    if (ok) {
        size_t at = why.n;
        ok = onnx_tensor_parse(f.p, f.n, out, &why);
        if (!ok) buf_printf(err, "%s: %s", path, why.p + at);
        file_unmap(&f);
    } else {
        buf_puts(err, why.p);
    }
    buf_free(&why);
    arena_free(a);
    return ok;
}

bool onnx_tensor_write(const char *path, const char *name, const GTensor *t, Buf *err) {
    Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
    p.name = (char *)(uintptr_t)name;
    p.n_dims = (size_t)t->rank;
    p.dims = (int64_t *)(uintptr_t)t->shape;
    p.has_data_type = p.has_raw_data = true;
    p.data_type = onnx_type_of(t->elem);
    p.raw_data = (ProtobufCBinaryData){t->bytes, t->data};
    if (t->bytes > INT32_MAX)
        return buf_printf(err, "%s: more than 2 GiB, which a protobuf file cannot hold", path), false;
    size_t n = onnx__tensor_proto__get_packed_size(&p);
    uint8_t *bytes = heap_try(n);
    if (bytes == NULL) return buf_printf(err, "%s: its %zu bytes are larger than memory", path, n), false;
    n = onnx__tensor_proto__pack(&p, bytes);
    bool ok = file_replace(path, &(FilePart){bytes, n}, 1);
    if (!ok) buf_printf(err, "%s: cannot be written: %s", path, strerror(errno));
    heap_free(bytes);
    return ok;
}
