// A thread takes a piece, makes it in room of its own, and sends that off; it makes the next while others send theirs.
//
//     thread 1   make | send . . . | make | send . . . |         the bus is busy as long as someone sends, and making is
//     thread 2      make | send . . . | make | send . . . |      spread over the cores
//
// Where little is to be done, or a device has no such room, whoever waits does it, through `write`.
#include "runtime/transfer.h"

#include "runtime/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECE = 4 << 20, MAX_THREADS = 8, LITTLE = 8 << 20 };

typedef struct Worker {
    Transfer    *t;
    pthread_t    thread;
    DeviceStage *stage;
    void        *heap;                                   // where there are no stages
    double       made_us, sent_us;
    Buf          err;
} Worker;

struct Transfer {
    Device       *device;
    TransferItem *item;      int n, room;
    int64_t      *piece;                                 // by item: the number of its first piece
    int64_t       pieces;
    _Atomic int64_t next, bytes;
    atomic_int    working;
    Worker        worker[MAX_THREADS];
    int           threads;
    double        started;
    TransferStats stats;
    pthread_mutex_t lock;
    pthread_cond_t  done;
};

Transfer *transfer_new(Device *d)
{
    Transfer *t = checked_alloc(sizeof *t);
    t->device = d;
    for (int i = 0; i < MAX_THREADS; i++) t->worker[i].t = t;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->done, NULL);
    return t;
}

static uint64_t item_bytes(const TransferItem *it) { return (uint64_t)it->n * (uint64_t)elem_bytes(it->elem); }

void transfer_add(Transfer *t, const TransferItem *it)
{
    if (t->n == t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->item = realloc(t->item, sizeof *t->item * (size_t)t->room);
        t->piece = realloc(t->piece, sizeof *t->piece * (size_t)t->room);
        if (!t->item || !t->piece) ice("out of memory");
    }
    t->piece[t->n] = t->pieces;
    t->item[t->n++] = *it;
    t->pieces += (int64_t)((item_bytes(it) + PIECE - 1) / PIECE);
}

// ---- one piece -----------------------------------------------------------------------------------

static void make(const TransferItem *it, int64_t first, int64_t n, void *out)
{
    if (it->data) elems_convert(it->from, (const char *)it->data + first * elem_bytes(it->from), it->elem, out, n);
    else elems_fill(it->elem, out, first, n, &it->fill);
}

static void *room_of(Worker *w)
{
    Device *d = w->t->device;
    if (w->stage) return d->ops->stage_room(d, w->stage, &w->err);
    if (!w->heap) w->heap = checked_alloc(PIECE);
    return w->heap;
}

static bool send(Worker *w, const TransferItem *it, int64_t first, int64_t n)
{
    Device  *d = w->t->device;
    int64_t  wide = elem_bytes(it->elem);
    uint64_t to = it->to + (uint64_t)(first * wide), bytes = (uint64_t)(n * wide);
    double   start = now_us();
    void    *room = room_of(w);
    double   ready = now_us();
    if (!room) return false;
    make(it, first, n, room);
    double made = now_us();
    bool   fine = w->stage ? d->ops->stage_send(d, w->stage, to, bytes, &w->err) : d->ops->write(d, to, room, bytes, &w->err);
    w->made_us += made - ready;
    w->sent_us += ready - start + (now_us() - made);
    atomic_fetch_add(&w->t->bytes, (int64_t)bytes);
    return fine;
}

static void *work(void *worker)
{
    Worker   *w = worker;
    Transfer *t = w->t;
    int       at = 0;
    for (int64_t k; !w->err.n && (k = atomic_fetch_add(&t->next, 1)) < t->pieces;) {
        while (at + 1 < t->n && t->piece[at + 1] <= k) at++;
        const TransferItem *it = &t->item[at];
        int64_t grain = PIECE / elem_bytes(it->elem), first = (k - t->piece[at]) * grain;
        send(w, it, first, it->n - first < grain ? it->n - first : grain);
    }
    if (w->stage && !w->err.n) t->device->ops->stage_room(t->device, w->stage, &w->err);
    pthread_mutex_lock(&t->lock);
    atomic_fetch_sub(&t->working, 1);
    pthread_cond_broadcast(&t->done);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

// ---- all -----------------------------------------------------------------------------------------

static uint64_t all_bytes(const Transfer *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->n; i++) bytes += item_bytes(&t->item[i]);
    return bytes;
}

void transfer_start(Transfer *t)
{
    Device *d = t->device;
    int most = cores() < MAX_THREADS ? cores() : MAX_THREADS;
    t->started = now_us();
    atomic_store(&t->next, 0);
    atomic_store(&t->bytes, 0);
    t->threads = 0;
    bool many = d->ops->stage_make && all_bytes(t) > LITTLE;
    for (int i = 0; many && i < most && i < t->pieces; i++) {
        Worker *w = &t->worker[i];
        if (!w->stage) w->stage = d->ops->stage_make(d, PIECE, &w->err);
        if (!w->stage) { buf_free(&w->err); break; }     // fewer will do
        atomic_fetch_add(&t->working, 1);
        if (pthread_create(&w->thread, NULL, work, w) == 0) { t->threads++; continue; }
        atomic_fetch_sub(&t->working, 1);
        break;
    }
}

static void wait_and_show(Transfer *t, void (*show)(void *ctx, uint64_t bytes), void *ctx)
{
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->working) > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        if (until.tv_nsec >= 1000000000) { until.tv_nsec -= 1000000000; until.tv_sec++; }
        pthread_cond_timedwait(&t->done, &t->lock, &until);
        if (show) show(ctx, (uint64_t)atomic_load(&t->bytes));
    }
    pthread_mutex_unlock(&t->lock);
}

static void forget_items(Transfer *t)
{
    for (int i = 0; i < t->n; i++) tensor_free(&t->item[i].own);
    t->n = 0;
    t->pieces = 0;
}

bool transfer_wait(Transfer *t, void (*show)(void *ctx, uint64_t bytes), void *ctx, Buf *err)
{
    bool fine = true;
    if (t->threads) wait_and_show(t, show, ctx);
    for (int i = 0; i < t->threads; i++) pthread_join(t->worker[i].thread, NULL);
    if (!t->threads && t->n) {                           // little: here
        atomic_fetch_add(&t->working, 1);
        work(&t->worker[0]);
    }
    if (t->n) {
        t->stats.bytes += all_bytes(t);
        t->stats.us += now_us() - t->started;
        if (t->stats.threads < t->threads) t->stats.threads = t->threads;
    }
    for (int i = 0; i < MAX_THREADS; i++) {
        Worker *w = &t->worker[i];
        if (w->err.n && fine) { fine = false; buf_add(err, w->err.p, w->err.n); }
        buf_free(&w->err);
        w->err = (Buf){0};
    }
    t->threads = 0;
    forget_items(t);
    return fine;
}

TransferStats transfer_stats(const Transfer *t)
{
    TransferStats s = t->stats;
    for (int i = 0; i < MAX_THREADS; i++) s.made_us += t->worker[i].made_us, s.sent_us += t->worker[i].sent_us;
    return s;
}

void transfer_drop(Transfer *t)
{
    Buf none = {0};
    atomic_store(&t->next, t->pieces);
    if (t->threads) transfer_wait(t, NULL, NULL, &none);
    forget_items(t);
    buf_free(&none);
}

void transfer_free(Transfer *t)
{
    if (!t) return;
    transfer_drop(t);
    for (int i = 0; i < MAX_THREADS; i++) {
        if (t->worker[i].stage) t->device->ops->stage_free(t->device, t->worker[i].stage);
        free(t->worker[i].heap);
    }
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t->item);
    free(t->piece);
    free(t);
}

// ---- back ----------------------------------------------------------------------------------------

typedef struct Back { Device *d; char *to; uint64_t from; Buf err; pthread_mutex_t lock; } Back;

static void fetch(void *ctx, int64_t from, int64_t to)
{
    Back   *b = ctx;
    Device *d = b->d;
    Buf     err = {0};
    DeviceStage *s = d->ops->stage_make(d, PIECE, &err);
    bool fine = s != NULL;
    for (uint64_t at = (uint64_t)from; fine && at < (uint64_t)to; at += PIECE) {
        uint64_t n = (uint64_t)to - at < PIECE ? (uint64_t)to - at : PIECE;
        fine = d->ops->stage_fetch(d, s, b->from + at, n, &err);
        const void *room = fine ? d->ops->stage_room(d, s, &err) : NULL;
        if (room) memcpy(b->to + at, room, n);
        fine = room != NULL;
    }
    d->ops->stage_free(d, s);
    pthread_mutex_lock(&b->lock);
    if (!fine && !b->err.n) buf_add(&b->err, err.p, err.n);
    pthread_mutex_unlock(&b->lock);
    buf_free(&err);
}

bool transfer_back(Device *d, void *to, uint64_t from, uint64_t bytes, Buf *err)
{
    if (!d->ops->stage_make || bytes <= 4 * (uint64_t)LITTLE) return d->ops->read(d, to, from, bytes, err);
    Back    b = {.d = d, .to = to, .from = from};
    uint64_t share = (bytes / MAX_THREADS + PIECE) / PIECE * PIECE;
    pthread_mutex_init(&b.lock, NULL);
    parallel((int64_t)bytes, (int64_t)share, fetch, &b);
    pthread_mutex_destroy(&b.lock);
    bool fine = !b.err.n;
    if (!fine) buf_add(err, b.err.p, b.err.n);
    buf_free(&b.err);
    return fine;
}
