// ONNX files: mapped, checked, unpacked.
//
//     bytes --check_message--> known to be well formed --protobuf-c--> messages in the arena
//
// protobuf-c is a good reader of good files. Of bad ones it says only that they are bad, its recursion has
// no bottom, and where a message appears twice that may appear once it merges. So the bytes are walked
// once before, by protobuf-c's own descriptors: every length within its message, every field of the type
// that is declared, nesting within a limit. This costs next to nothing (tensors' bytes are stepped over)
// and says which field of which message is wrong, and where. After it, unpacking cannot fail.
#include "graph/onnx/internal.h"

#include "lang/file.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

// ---- files ---------------------------------------------------------------------------------------

bool file_map(const char *path, FileMap *out, Arena *a, Buf *err) {
    const void *p;
    const char *why;
    size_t n;
    if (!file_map_plain(path, &p, &n, &why)) return buf_printf(err, "%s: %s", path, why), false;
    *out = (FileMap){.path = arena_printf(a, "%s", path), .p = p, .n = n};
    return true;
}

void file_unmap(FileMap *f) {
    file_unmap_plain(f->p, f->n);
    *f = (FileMap){0};
}

const char *shown(Arena *a, const char *name) {
    enum { LONGEST = 120 };
    size_t n = name != NULL ? strlen(name) : 0, i = 0;
    Buf text = {0};
    while (i < n) {
        size_t whole = utf8_length(name + i, name + n);
        if (i + (whole > 0 ? whole : 1) > LONGEST) break;
        if (whole > 0 && char_plain(name + i, whole)) buf_add(&text, name + i, whole);
        else buf_putc(&text, '?');
        i += whole > 0 ? whole : 1;
    }
    char *out = arena_printf(a, i < n ? "%s...(%zu bytes)" : "%s", text.n > 0 ? text.p : "", n);
    buf_free(&text);
    return out;
}

// ---- the wire format -----------------------------------------------------------------------------

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, DEEPEST = 64 };

typedef struct Walk {
    const uint8_t *start, *p;
    int depth;
    Buf *err;
} Walk;

static bool wrong(Walk *w, const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *f,
                  const char *what) {
    buf_printf(w->err, "not a valid ONNX file: %s%s%s %s (byte %td)", type->short_name, f != NULL ? "." : "",
               f != NULL ? f->name : "", what, w->p - w->start);
    return false;
}

static bool varint(Walk *w, const uint8_t *end, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && w->p < end; shift += 7) {
        uint8_t b = *w->p++;
        if (shift == 63 && b > 1) return false;
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

// What a field of this type looks like when it is not packed.
static unsigned wire_of(const ProtobufCFieldDescriptor *f) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
    }
}

static bool check_packed(Walk *w, const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *f,
                         const uint8_t *end) {
    unsigned one = wire_of(f);
    uint64_t value;
    if (one == WIRE_VARINT) {
        while (w->p < end)
            if (!varint(w, end, &value)) return wrong(w, type, f, "holds a broken number");
        return true;
    }
    if ((size_t)(end - w->p) % (one == WIRE_32 ? 4 : 8) != 0) return wrong(w, type, f, "holds part of a number");
    w->p = end;
    return true;
}

static bool check_message(Walk *w, const ProtobufCMessageDescriptor *type, const uint8_t *end);

static bool check_field(Walk *w, const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *f,
                        unsigned wire, const uint8_t *end) {
    uint64_t n;
    bool repeated = f != NULL && f->label == PROTOBUF_C_LABEL_REPEATED;
    bool packed = repeated && wire == WIRE_BYTES && wire_of(f) != WIRE_BYTES;
    if (f != NULL && wire != wire_of(f) && !packed) return wrong(w, type, f, "is not of the type that it should be");
    switch (wire) {
    case WIRE_VARINT: return varint(w, end, &n) || wrong(w, type, f, "holds a broken number");
    case WIRE_32:
    case WIRE_64: n = wire == WIRE_32 ? 4 : 8; break;
    case WIRE_BYTES:
        if (!varint(w, end, &n)) return wrong(w, type, f, "has a broken length");
        break;
    default: return wrong(w, type, f, "is of an unknown wire type");
    }
    if (n > (uint64_t)(end - w->p)) return wrong(w, type, f, "runs past the end: the file is truncated or damaged");
    const uint8_t *stop = w->p + n;
    if (packed) return check_packed(w, type, f, stop);
    if (f != NULL && f->type == PROTOBUF_C_TYPE_MESSAGE) return check_message(w, f->descriptor, stop);
    w->p = stop;
    return true;
}

static bool check_message(Walk *w, const ProtobufCMessageDescriptor *type, const uint8_t *end) {
    uint64_t seen = 0, tag; // fields of message type that may appear once
    if (++w->depth > DEEPEST) return wrong(w, type, NULL, "is nested too deeply");
    while (w->p < end) {
        if (!varint(w, end, &tag) || tag >> 3 == 0 || tag >> 32 != 0)
            return wrong(w, type, NULL, "holds no field where one should be");
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
        if (f != NULL && f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED) {
            uint64_t bit = UINT64_C(1) << (f - type->fields);
            if (seen & bit) return wrong(w, type, f, "appears twice");
            seen |= bit;
        }
        if (!check_field(w, type, f, (unsigned)(tag & 7), end)) return false;
    }
    w->depth--;
    return true;
}

static void *take(void *arena, size_t n) { return arena_alloc(arena, n); }
static void leave(void *arena, void *p) { (void)arena, (void)p; } // the arena goes as a whole

ProtobufCMessage *message_read(const ProtobufCMessageDescriptor *type, const uint8_t *p, size_t n, Arena *a, Buf *err) {
    Walk w = {.start = p, .p = p, .err = err};
    if (n == 0) {
        buf_puts(err, "is empty");
        return NULL;
    }
    if (n > INT32_MAX) {
        buf_puts(err,
                 "is larger than 2 GiB, which a protobuf file cannot be: weights of that size go into external data");
        return NULL;
    }
    if (!check_message(&w, type, p + n)) return NULL;
    ProtobufCAllocator in = {.alloc = take, .free = leave, .allocator_data = a};
    ProtobufCMessage *read = protobuf_c_message_unpack(type, &in, n, p);
    if (read == NULL) buf_puts(err, "not a valid ONNX file");
    return read;
}
