// Tensor maps: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col are given, packed into 128 bytes of
// our own, and the walk over a box that a bulk tensor copy makes.
//
// A box is walked element 0 fastest; its bytes are laid out so in shared memory, then swizzled by
// exclusive-or of address bits 4.. with bits 7.. (1, 2 or 3 of them). Elements outside the tensor load as
// zero (or NaN) and are not stored; they count as bytes all the same. With a swizzle, rows of the box lie a
// whole span (32, 64 or 128 bytes) apart, also when they are narrower. The innermost coordinate must be a
// multiple of 16 bytes, or the hardware traps. (Both measured on an H200, 2026-11-21.)
//
// Elements of 4 and 6 bits come in units of whole bytes, which are what is walked here. With ALIGN16B, 16 of them take 16 bytes in shared
// memory, the last 8 or 4 of which are a gap; what an mbarrier counts are the bytes without gaps (as CUTLASS expects them).
#include "emu/exec.h"

enum { MAGIC = 0x746b746d };

typedef struct Map {
    uint32_t magic;
    uint8_t  dtype, rank, swizzle, oob_nan;
    uint64_t base;
    uint64_t dims[5], strides[4];      // bytes
    uint16_t box[5];                   // im2col: [0] channels, [1] pixels
    int16_t  lower[3], upper[3];
    uint8_t  step[5], im2col, interleave;
} Map;
_Static_assert(sizeof(Map) <= 128, "a tensor map has 128 bytes");

// What is walked: how many elements, their bytes, and their bytes in shared memory.
static const struct Unit { uint8_t elements, bytes, room; } units[] = {
    {1, 1, 1}, {1, 2, 2}, {1, 4, 4}, {1, 4, 4}, {1, 8, 8}, {1, 8, 8}, {1, 2, 2},  {1, 4, 4},
    {1, 8, 8}, {1, 2, 2}, {1, 4, 4}, {1, 4, 4}, {1, 4, 4}, {2, 1, 1}, {16, 8, 16}, {16, 12, 16}};
enum { TYPES = sizeof units / sizeof *units };

static Map map_of(const uint8_t bytes[128]) {
    Map m;
    memcpy(&m, bytes, sizeof m);
    return m;
}

static EmuStatus encode(EmuContext *ctx, EmuTensorMap *out, Map m, const uint64_t *dims, const uint64_t *strides,
                        const uint32_t *steps, int interleave) {
    static const uint32_t spans[] = {256 * 8, 32, 64, 128};
    const char *what = m.im2col ? "tensor map (im2col)" : "tensor map";
    if (m.dtype >= TYPES) return emu_error(ctx, EMU_INVALID, "%s: element type %u", what, m.dtype);
    if (m.rank < (m.im2col ? 3 : 1) || m.rank > 5) return emu_error(ctx, EMU_INVALID, "%s: rank %u", what, m.rank);
    if (interleave) return emu_error(ctx, EMU_INVALID, "%s: interleaved layouts are not supported", what);
    if (m.swizzle > EMU_TM_SWIZZLE_128B) return emu_error(ctx, EMU_INVALID, "%s: swizzle %u", what, m.swizzle);
    const struct Unit *unit = &units[m.dtype];
    uint32_t align = unit->room > unit->bytes ? 32 : 16, whole = unit->room > unit->bytes ? 128 : unit->elements;
    if (m.base & (align - 1))
        return emu_error(ctx, EMU_INVALID, "%s: the base 0x%llx is not %u-byte aligned", what, (unsigned long long)m.base, align);
    if (m.rank && dims[0] % whole)
        return emu_error(ctx, EMU_INVALID, "%s: dimension 0 of packed elements is %llu, not a multiple of %u", what, (unsigned long long)dims[0], whole);
    if (whole == 128 && m.box[0] != 128)
        return emu_error(ctx, EMU_INVALID, "%s: the box's inner dimension is %u; with ALIGN16B it is 128", what, m.box[0]);
    if (unit->elements > 1 && ((steps && m.rank && steps[0] != 1) || m.box[0] % unit->elements))
        return emu_error(ctx, EMU_INVALID, "%s: packed elements need an element stride of 1 and a box of whole bytes", what);
    for (uint32_t i = 0; i < m.rank; i++) {
        if (!dims[i] || dims[i] > 1ull << 32)
            return emu_error(ctx, EMU_INVALID, "%s: dimension %u is %llu", what, i, (unsigned long long)dims[i]);
        if (steps && (!steps[i] || steps[i] > 8))
            return emu_error(ctx, EMU_INVALID, "%s: element stride %u is %u", what, i, steps[i]);
        m.dims[i] = dims[i];
        m.step[i] = steps ? (uint8_t)steps[i] : 1;
        if (i + 1 < m.rank) {
            if (strides[i] & (align - 1) || strides[i] >= 1ull << 40)
                return emu_error(ctx, EMU_INVALID, "%s: stride %u is %llu, not a multiple of %u below 2^40", what, i,
                                 (unsigned long long)strides[i], align);
            m.strides[i] = strides[i];
        }
    }
    for (uint32_t i = 0; i < (m.im2col ? 0u : m.rank); i++)
        if (!m.box[i] || m.box[i] > 256) return emu_error(ctx, EMU_INVALID, "%s: box dimension %u is %u", what, i, m.box[i]);
    m.dims[0] /= unit->elements, m.box[0] /= unit->elements;
    uint32_t inner = m.box[0] * unit->room;
    if (inner & 15)
        return emu_error(ctx, EMU_INVALID, "%s: the box's inner dimension has %u bytes, not a multiple of 16", what,
                         inner);
    if (m.swizzle && inner > spans[m.swizzle])
        return emu_error(ctx, EMU_INVALID, "%s: the box's inner dimension has %u bytes, more than the swizzle's %u",
                         what, inner, spans[m.swizzle]);
    m.magic = MAGIC;
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &m, sizeof m);
    return EMU_OK;
}

EmuStatus emu_tensor_map_encode_tiled(EmuContext *ctx, EmuTensorMap *out, int dtype, uint32_t rank, uint64_t base,
    const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
    int interleave, int swizzle, int l2_promotion, int oob_fill) {
    Map m = {.dtype = (uint8_t)dtype,
             .rank = (uint8_t)(rank > 5 ? 6 : rank),
             .swizzle = (uint8_t)swizzle,
             .oob_nan = (uint8_t)oob_fill,
             .base = base};
    (void)l2_promotion;
    for (uint32_t i = 0; i < 5 && i < rank; i++) m.box[i] = (uint16_t)(box[i] > 257 ? 257 : box[i]);
    return encode(ctx, out, m, dims, strides, element_strides, interleave);
}

EmuStatus emu_tensor_map_encode_im2col(EmuContext *ctx, EmuTensorMap *out, int dtype, uint32_t rank, uint64_t base,
    const uint64_t *dims, const uint64_t *strides, const int *lower_corner, const int *upper_corner,
    uint32_t channels, uint32_t pixels, const uint32_t *element_strides,
    int interleave, int swizzle, int l2_promotion, int oob_fill) {
    Map m = {.dtype = (uint8_t)dtype,
             .rank = (uint8_t)(rank > 5 ? 6 : rank),
             .swizzle = (uint8_t)swizzle,
             .oob_nan = (uint8_t)oob_fill,
             .base = base,
             .im2col = 1};
    (void)l2_promotion;
    if (!channels || channels > 256 || !pixels || pixels > 1024)
        return emu_error(ctx, EMU_INVALID, "tensor map (im2col): %u channels of %u pixels", channels, pixels);
    m.box[0] = (uint16_t)channels, m.box[1] = (uint16_t)pixels;
    for (uint32_t i = 0; i + 2 < rank && i < 3; i++)
        m.lower[i] = (int16_t)lower_corner[i], m.upper[i] = (int16_t)upper_corner[i];
    return encode(ctx, out, m, dims, strides, element_strides, interleave);
}

static const char *incomplete(const Map *m) {            // a map that tensormap.replace has made may be anything
    if (m->dtype >= TYPES || m->swizzle > EMU_TM_SWIZZLE_128B) return "the tensor map's element type or swizzle is not one that is supported";
    if (m->base & 15) return "the tensor map's address is not 16-byte aligned";
    for (uint32_t i = 0; i < m->rank; i++) {
        if (!m->dims[i]) return "a dimension of the tensor map is 0";
        if (!m->step[i] || m->step[i] > 8) return "an element stride of the tensor map is not 1 to 8";
        if (!m->im2col && (!m->box[i] || m->box[i] > 256)) return "a box dimension of the tensor map is not 1 to 256";
        if (i + 1u < m->rank && (m->strides[i] & 15 || m->strides[i] >= 1ull << 40)) return "a stride of the tensor map is not a multiple of 16 below 2^40";
    }
    uint32_t inner = m->box[0] * units[m->dtype].room;
    if (inner & 15) return "the inner dimension of the tensor map's box is not a multiple of 16 bytes";
    if (m->swizzle && inner > 16u << m->swizzle) return "the inner dimension of the tensor map's box has more bytes than its swizzle";
    return NULL;
}

void tensor_replace(uint8_t bytes[128], TensorField field, uint32_t i, uint64_t v) {
    // of tensormap.replace's numbers for element types: cuTensorMapEncodeTiled's
    static const uint8_t types[] = {EMU_TM_U8, EMU_TM_U16, EMU_TM_U32, EMU_TM_S32, EMU_TM_U64, EMU_TM_S64, EMU_TM_F16, EMU_TM_F32,
                                    EMU_TM_F32_FTZ, EMU_TM_F64, EMU_TM_BF16, EMU_TM_TF32, EMU_TM_TF32_FTZ};
    Map m = map_of(bytes);
    uint32_t small = v > 0xffff ? 0xffff : (uint32_t)v;
    uint8_t tiny = v > 0xff ? 0xff : (uint8_t)v;
    m.magic = MAGIC;
    switch (field) {
    case TENSOR_ADDRESS:        m.base = v; break;
    case TENSOR_RANK:           m.rank = (uint8_t)(tiny < 5 ? tiny + 1 : 6); break;
    case TENSOR_BOX:            m.box[i] = (uint16_t)small; break;
    case TENSOR_DIM:            m.dims[i] = (uint32_t)v; break;
    case TENSOR_STRIDE:         m.strides[i < 4 ? i : 3] = v; break;
    case TENSOR_ELEMENT_STRIDE: m.step[i] = tiny; break;
    case TENSOR_TYPE:           m.dtype = v < sizeof types ? types[v] : 0xff; break;
    case TENSOR_INTERLEAVE:     m.interleave = tiny; break;
    case TENSOR_SWIZZLE:        m.swizzle = tiny; break;
    case TENSOR_FILL:           m.oob_nan = v != 0; break;
    case TENSOR_FIELDS:         break;
    }
    memcpy(bytes, &m, sizeof m);
}

bool tensor_check(Warp *w, const Insn *in, int lane, const uint8_t bytes[128], uint32_t rank, bool im2col) {
    Map m = map_of(bytes);
    const char *bad = m.magic != MAGIC     ? "these 128 bytes are no tensor map"
                      : m.rank != rank     ? "the tensor map has another rank"
                      : m.im2col != im2col ? "the tensor map is for the other mode (tiled, im2col)"
                      : m.interleave       ? "interleaved layouts are not supported"
                                           : incomplete(&m);
    if (!bad) return true;
    emu_fault(w, in, lane, EMU_FAULT_BAD_OPERAND, "%s", bad);
    return false;
}

static uint32_t extent(const Map *m, uint32_t i) { return i >= m->rank ? 1 : (m->box[i] + m->step[i] - 1u) / m->step[i]; }

uint32_t tensor_box_bytes(const uint8_t bytes[128], bool im2col) {
    Map m = map_of(bytes);
    uint32_t n = units[m.dtype].room;
    if (im2col) return n * m.box[0] * m.box[1];
    for (uint32_t i = 0; i < m.rank; i++) n *= extent(&m, i);
    return n;
}

uint32_t tensor_counted(const uint8_t bytes[128], uint32_t size) {     // of a box's bytes, those that are no gaps
    const struct Unit *unit = &units[map_of(bytes).dtype];
    return size / unit->room * unit->bytes;
}

uint32_t tensor_swizzle(const uint8_t bytes[128]) {      // the mask of address bits 7.. that are folded onto bits 4..
    static const uint32_t masks[] = {0, 1, 3, 7};
    return masks[map_of(bytes).swizzle];
}

uint64_t tensor_base(const uint8_t bytes[128]) { return map_of(bytes).base; }

uint32_t tensor_inner(const uint8_t bytes[128]) {        // bytes of a row of the box
    Map m = map_of(bytes);
    return (m.im2col ? m.box[0] : extent(&m, 0)) * units[m.dtype].room;
}

uint32_t tensor_pitch(const uint8_t bytes[128]) {        // bytes from row to row in shared memory
    Map m = map_of(bytes);
    uint32_t inner = tensor_inner(bytes), span = m.swizzle ? 16u << m.swizzle : 0;
    return inner < span ? span : inner;
}

bool tensor_aligned(Warp *w, const Insn *in, int lane, const uint8_t bytes[128], int32_t coordinate) {
    const struct Unit *unit = &units[map_of(bytes).dtype];
    int64_t at = (int64_t)coordinate * unit->bytes / unit->elements;
    if (!(at & 15) && coordinate % unit->elements == 0) return true;
    emu_fault(w, in, lane, EMU_FAULT_MISALIGNED,
              "the innermost coordinate of a bulk tensor copy is %d, %lld bytes, not a multiple of 16", coordinate,
              (long long)at);
    return false;
}

static Type reduce_type(uint8_t dtype) {
    static const Type types[TYPES] = {T_u32, T_u32, T_u32, T_s32, T_u64, T_s64, T_f16, T_f32, T_f64, T_bf16, T_f32, T_f32, T_f32, T_b8, T_b64, T_b64};
    return types[dtype];
}

// One run of n units along dimension 0, at coordinates c (all but c[0] in range or the run is outside).
static void run_of(AsyncOp *op, const Map *m, const int64_t c[5], uint32_t n, uint8_t *box, bool load, int reduce) {
    uint32_t size = units[m->dtype].bytes, room = units[m->dtype].room, step = m->im2col ? 1 : m->step[0];
    bool inside = true, gaps = room > size;
    for (uint32_t i = 1; i < m->rank; i++) inside &= c[i] >= 0 && (uint64_t)c[i] < m->dims[i];
    uint64_t at = m->base;
    for (uint32_t i = 1; inside && i < m->rank; i++) at += (uint64_t)c[i] * m->strides[i - 1];
    int64_t first = 0, end = 0;                          // elements of the run that are in the tensor
    if (inside) {
        first = c[0] < 0 ? (-c[0] + step - 1) / step : 0;
        int64_t left = (int64_t)m->dims[0] - c[0];
        end = left <= 0 ? 0 : (left + step - 1) / step;
        if (end > n) end = n;
        if (first > end) first = end;
    }
    if (load) {
        uint64_t fill = 0;
        if (m->oob_nan && size <= 8)
            fill = INT64_MAX >> (64 - 8 * size);               // f16's, bf16's, f32's and f64's
        if (gaps) memset(box, 0, (size_t)n * room);
        else for (int64_t i = 0; i < n; i++)
            if (i < first || i >= end) memcpy(box + i * size, &fill, size);
    }
    if (first >= end) return;
    uint64_t low = at + (uint64_t)(c[0] + first * step) * size, span = (uint64_t)((end - first - 1) * step + 1) * size;
    uint8_t *host = emu_host(op->warp->launch->context, low, span);
    if (!host) {
        char where[160];
        memory_describe(op->warp->launch->context, low, span, where, sizeof where);
        emu_fault(op->warp, op->in, op->lane, EMU_FAULT_OUT_OF_BOUNDS,
                  "a bulk tensor copy %s %llu bytes outside the tensor's memory: %s", load ? "reads" : "writes",
                  (unsigned long long)span, where);
        if (load) memset(box + first * room, 0, (size_t)(end - first) * room);
        return;
    }
    bool rounds = load && (m->dtype == EMU_TM_TF32 || m->dtype == EMU_TM_TF32_FTZ);
    for (int64_t i = first; i < end;) {
        if (step == 1 && reduce < 0 && !gaps) {
            if (load) memcpy(box + i * size, host, (size_t)(end - i) * size);
            else {
                memcpy(host, box + i * size, (size_t)(end - i) * size);
                memory_mark_written(op->warp->launch->context, low, span);
            }
            break;
        }
        uint8_t *p = host + (uint64_t)(i - first) * step * size;
        if (load) memcpy(box + i * room, p, size);
        else if (reduce < 0) memcpy(p, box + i * room, size);
        else {
            uint64_t v = 0;
            memcpy(&v, box + i * size, size);
            atomic_apply(p, reduce, reduce_type(m->dtype), v);
        }
        i++;
    }
    for (int64_t i = first; i < end && rounds; i++) {
        float x;
        memcpy(&x, box + i * size, sizeof x);
        x = tf32_round(x);
        memcpy(box + i * size, &x, sizeof x);
    }
}

static void walk_tiled(AsyncOp *op, const Map *m, uint8_t *box, bool load, int reduce) {
    uint32_t n[5], i[5] = {0}, inner = extent(m, 0) * units[m->dtype].room;
    for (uint32_t k = 0; k < 5; k++) n[k] = extent(m, k);
    for (i[4] = 0; i[4] < n[4]; i[4]++)
        for (i[3] = 0; i[3] < n[3]; i[3]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++)
                for (i[1] = 0; i[1] < n[1]; i[1]++, box += inner) {
                    int64_t c[5] = {op->coord[0] / units[m->dtype].elements};
                    for (uint32_t k = 1; k < m->rank; k++) c[k] = (int64_t)op->coord[k] + (int64_t)i[k] * m->step[k];
                    run_of(op, m, c, n[0], box, load, reduce);
                }
}

// Pixels follow each other along W inside the bounding box, then H, D and N; each is read at its place plus
// the filter's offsets.
static void walk_im2col(AsyncOp *op, const Map *m, uint8_t *box, bool load, int reduce) {
    uint32_t spatial = m->rank - 2u, inner = m->box[0] * units[m->dtype].room;
    int64_t at[5];
    for (uint32_t k = 0; k < 5; k++) at[k] = k < m->rank ? op->coord[k] : 0;
    at[0] /= units[m->dtype].elements;
    for (uint32_t p = 0; p < m->box[1]; p++, box += inner) {
        int64_t c[5];
        memcpy(c, at, sizeof c);
        for (uint32_t k = 0; k < spatial; k++) c[1 + k] += op->offset[k];
        run_of(op, m, c, m->box[0], box, load, reduce);
        for (uint32_t k = 0; k <= spatial; k++) {
            if (k == spatial) { at[1 + k]++; break; }
            at[1 + k] += m->step[1 + k];
            if (at[1 + k] < (int64_t)m->dims[1 + k] + m->upper[k]) break;
            at[1 + k] = m->lower[k];
        }
    }
}

void tensor_walk(AsyncOp *op, bool im2col, uint8_t *box, bool load, int reduce) {
    Map m = map_of(op->map);
    if (im2col) walk_im2col(op, &m, box, load, reduce);
    else walk_tiled(op, &m, box, load, reduce);
}
