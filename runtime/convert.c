// Elements from one type to another, many at once: weights whose program wants them in fewer bits than their file has.
//
// From f32 to f16 and bf16 each has a loop of its own, without branches, which the compiler vectorises; the rest goes
// through elem_get and elem_set. Rounded once, to nearest even.
#include "runtime/tensor.h"
#include "lang/number.h"

#include <string.h>

enum { BLOCK = 1024 };

static uint16_t bf16_of(uint32_t u)
{
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

static void bf16_block(const uint32_t *from, uint16_t *to, int n)
{
    for (int i = 0; i < n; i++) to[i] = bf16_of(from[i]);
}

static void f16_block(const uint32_t *from, uint16_t *to, int n)
{
    for (int i = 0; i < n; i++) to[i] = f16_from_f32(f32_from(from[i]));
}

void elems_convert(Elem from, const void *data, Elem to, void *out, int64_t n)
{
    bool fast = from == EL_f32 && (to == EL_bf16 || to == EL_f16);
    uint32_t in[BLOCK];
    uint16_t small[BLOCK];
    for (int64_t i = 0; fast && i < n; i += BLOCK) {
        int k = n - i < BLOCK ? (int)(n - i) : BLOCK;
        memcpy(in, (const char *)data + i * 4, (size_t)k * 4);           // at any address
        if (to == EL_bf16) bf16_block(in, small, k);
        else f16_block(in, small, k);
        memcpy((char *)out + i * 2, small, (size_t)k * 2);
    }
    for (int64_t i = 0; !fast && i < n; i++) elem_set(to, out, i, elem_get(from, data, i));
}
