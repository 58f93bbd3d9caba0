// Much data to a device, made or converted on the way, and back: by several threads, piece by piece.
//
//     Transfer *t = transfer_new(device);
//     transfer_add(t, &(TransferItem){.to = address, .elem = EL_bf16, .n = n, .from = EL_f32, .data = weight});
//     transfer_start(t);                     ...      they are on their way
//     transfer_wait(t, &err);
//     transfer_free(t);
#ifndef TK_RUNTIME_TRANSFER_H
#define TK_RUNTIME_TRANSFER_H

#include "runtime/internal.h"

typedef struct Transfer Transfer;
typedef struct TransferItem {
    uint64_t    to;                    // on the device
    Elem        elem;                  // there
    int64_t     n;
    Elem        from;                  // of the data
    const void *data;                  // NULL: `fill` says what the elements are
    size_t      period;                // .. which are the same again after so many bytes; 0: they are not
    FillSpec    fill;
    HostTensor  own;                   // freed when all is done
} TransferItem;
// made, sent: of all threads; us: from start to end
typedef struct TransferStats { uint64_t bytes; double made_us, sent_us, us; int threads; } TransferStats;

Transfer *transfer_new(Device *d);
void      transfer_add(Transfer *t, const TransferItem *it);      // takes over `own`
void      transfer_start(Transfer *t);
// All that was added is there. `show` is called now and then with the bytes that are, and may be NULL. Then more can be
// added.
bool      transfer_wait(Transfer *t, void (*show)(void *ctx, uint64_t bytes), void *ctx, Buf *err);
void      transfer_drop(Transfer *t);  // waits for what is on its way, and forgets the rest
TransferStats transfer_stats(const Transfer *t);
void      transfer_free(Transfer *t);  // waits; NULL is fine

// To the host, of a transfer that nothing is on its way in.
bool      transfer_back(Transfer *t, void *to, uint64_t from, uint64_t bytes, Buf *err);
void      transfer_warm(Transfer *t);  // what can be done before the device is ready, by whoever has to wait for that

#endif
