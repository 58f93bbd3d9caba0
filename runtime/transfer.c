// A thread takes a piece, makes it in room of its own, and sends that off; it makes the next while others send theirs.
//
//     thread 1   make | send . . . | make | send . . . |         the bus is busy as long as someone sends, and making is
//     thread 2      make | send . . . | make | send . . . |      spread over the cores
//
// Back it is the same, the other way. The room of all is one piece of memory, of huge pages. Where little is to be
// done, or a device has no such room, whoever waits does it, through `write` and `read`.
#include "runtime/transfer.h"

#include "runtime/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECE = 2 << 20, MAX_THREADS = 16, LITTLE = 8 << 20 };

typedef struct Worker {
    Transfer    *t;
    pthread_t    thread;
    DeviceStage *stage;                                  // NULL: the room is ordinary memory
    bool         pins;                                   // its room, and those of some after it, are pinned
    bool         no_memory;
    double       made_us, sent_us;
    Buf          err;
} Worker;

struct Transfer {
    Device       *device;
    Heap         *heap;                                  // of its threads
    void        (*what)(void *worker);                   // that they do
    TransferItem *item;      int n, room;
    int64_t      *piece;                                 // by item: the number of its first piece
    int64_t       pieces;
    _Atomic int64_t next, bytes;
    atomic_int    working;
    Worker        worker[MAX_THREADS];
    int           threads;
    char         *rooms;                                 // a PIECE for each worker
    char         *back;                                  // bytes [back_from, .. + back_bytes) of the device go there
    uint64_t      back_from, back_bytes;
    double        started;
    TransferStats stats;
    pthread_mutex_t lock;
    pthread_cond_t  done;
};

static void end(Transfer *t);
static void end_transfer(void *t, uint64_t none) { (void)none; end(t); }

Transfer *transfer_new(Device *d) {
    Transfer *t = heap_alloc(sizeof *t);
    t->device = d;
    t->heap = heap_here();
    for (int i = 0; i < MAX_THREADS; i++) t->worker[i].t = t;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->done, NULL);
    heap_hold_thread(end_transfer, t, 0);
    return t;
}

static uint64_t item_bytes(const TransferItem *it) { return (uint64_t)it->n * (uint64_t)elem_bytes(it->elem); }

void transfer_add(Transfer *t, const TransferItem *it) {
    if (t->n == t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->item = heap_resize(t->item, sizeof *t->item * (size_t)t->room);
        t->piece = heap_resize(t->piece, sizeof *t->piece * (size_t)t->room);
    }
    t->piece[t->n] = t->pieces;
    t->item[t->n++] = *it;
    t->pieces += (int64_t)((item_bytes(it) + PIECE - 1) / PIECE);
}

// ---- one piece -----------------------------------------------------------------------------------

static void make(const TransferItem *it, int64_t first, int64_t n, void *out) {
    size_t at = (size_t)first * (size_t)elem_bytes(it->from);
    if (it->data) elems_convert(it->from, (const char *)it->data + (it->period ? at % it->period : at), it->elem, out, n);
    else elems_fill(it->elem, out, first, n, &it->fill);
}

static char *room_at(Transfer *t, const Worker *w) {
    if (!t->rooms) {
        t->rooms = heap_aligned(PIECE, (size_t)MAX_THREADS * PIECE);
        host_huge(t->rooms, (size_t)MAX_THREADS * PIECE);
    }
    return t->rooms + (w - t->worker) * PIECE;
}

static void *room_of(Worker *w) {
    Device *d = w->t->device;
    return w->stage ? d->ops->stage_room(d, w->stage, &w->err) : room_at(w->t, w);
}

static bool send(Worker *w, const TransferItem *it, int64_t first, int64_t n) {
    Device  *d = w->t->device;
    int64_t  wide = elem_bytes(it->elem);
    uint64_t to = it->to + (uint64_t)(first * wide), bytes = (uint64_t)(n * wide);
    double   start = now_us();
    void    *room = room_of(w);
    double   ready = now_us();
    if (!room) return false;
    make(it, first, n, room);
    double made = now_us();
    bool fine = w->stage ? d->ops->stage_send(d, w->stage, to, bytes, &w->err)
                         : d->ops->write(d, to, room, bytes, &w->err);
    w->made_us += made - ready;
    w->sent_us += ready - start + (now_us() - made);
    atomic_fetch_add(&w->t->bytes, (int64_t)bytes);
    return fine;
}

static void leave(Transfer *t) {
    pthread_mutex_lock(&t->lock);
    atomic_fetch_sub(&t->working, 1);
    pthread_cond_broadcast(&t->done);
    pthread_mutex_unlock(&t->lock);
}

static void work(void *worker) {
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
}

static void fetch(void *worker) {
    Worker   *w = worker;
    Transfer *t = w->t;
    Device   *d = t->device;
    for (int64_t k; !w->err.n && (k = atomic_fetch_add(&t->next, 1)) < t->pieces;) {
        uint64_t at = (uint64_t)k * PIECE, n = t->back_bytes - at < PIECE ? t->back_bytes - at : PIECE;
        if (!d->ops->stage_fetch(d, w->stage, t->back_from + at, n, &w->err)) break;
        const void *room = d->ops->stage_room(d, w->stage, &w->err);
        if (room) memcpy(t->back + at, room, n);
    }
}

static void *on_thread(void *worker) {
    Worker *w = worker;
    w->no_memory = !heap_run(w->t->heap, w->t->what, w);
    leave(w->t);
    return NULL;
}

// ---- all -----------------------------------------------------------------------------------------

static uint64_t all_bytes(const Transfer *t) {
    uint64_t bytes = 0;
    for (int i = 0; i < t->n; i++) bytes += item_bytes(&t->item[i]);
    return bytes;
}

// Workers [from, to) get rooms that the device copies from. How many of all have one.
static int make_rooms(Transfer *t, int from, int to) {
    Device *d = t->device;
    Buf     none = {0};
    Worker *first = &t->worker[from];
    int     n = from;
    first->pins = d->ops->pin(d, room_at(t, first), (uint64_t)(to - from) * PIECE, &none);
    for (Worker *w = first; first->pins && n < to; w++, n++)
        if (!(w->stage = d->ops->stage_make(d, room_at(t, w), &none))) break;        // fewer will do
    buf_free(&none);
    return n;
}

// On as many threads as there are cores; on none where there is no room that the device copies from.
static void start_threads(Transfer *t) {
    int most = !t->device->ops->stage_make ? 0 : cores() < MAX_THREADS ? cores() : MAX_THREADS, have = 0;
    if (most > t->pieces) most = (int)t->pieces;
    while (have < most && t->worker[have].stage) have++;
    if (have < most && !t->worker[have].pins) have = make_rooms(t, have, most);
    for (int i = 0; i < have; i++) {
        Worker *w = &t->worker[i];
        atomic_fetch_add(&t->working, 1);
        if (pthread_create(&w->thread, NULL, on_thread, w) == 0) { t->threads++; continue; }
        atomic_fetch_sub(&t->working, 1);
        break;
    }
}

static void begin(Transfer *t, uint64_t bytes, void (*what)(void *worker)) {
    t->started = now_us();
    t->threads = 0;
    t->what = what;
    atomic_store(&t->next, 0);
    atomic_store(&t->bytes, 0);
    if (bytes > LITTLE) start_threads(t);
}

void transfer_start(Transfer *t) { begin(t, all_bytes(t), work); }

static void wait_and_show(Transfer *t, void (*show)(void *ctx, uint64_t bytes), void *ctx) {
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

static void forget_items(Transfer *t) {
    for (int i = 0; i < t->n; i++) tensor_free(&t->item[i].own);
    t->n = 0;
    t->pieces = 0;
}

// What the threads, which are gone, have to say.
static bool heard(Transfer *t, Buf *err) {
    bool fine = true, no_memory = false;
    for (int i = 0; i < MAX_THREADS; i++) {
        Worker *w = &t->worker[i];
        no_memory |= w->no_memory;
        w->no_memory = false;
        if (w->err.n && fine) { fine = false; buf_add(err, w->err.p, w->err.n); }
        buf_free(&w->err);
        w->err = (Buf){0};
    }
    t->threads = 0;
    if (no_memory) heap_give_up(0);
    return fine;
}

bool transfer_wait(Transfer *t, void (*show)(void *ctx, uint64_t bytes), void *ctx, Buf *err) {
    if (t->threads) wait_and_show(t, show, ctx);
    for (int i = 0; i < t->threads; i++) pthread_join(t->worker[i].thread, NULL);
    if (!t->threads && t->n) work(&t->worker[0]);        // little: here
    if (t->n) {
        t->stats.bytes += all_bytes(t);
        t->stats.us += now_us() - t->started;
        if (t->stats.threads < t->threads) t->stats.threads = t->threads;
    }
    forget_items(t);
    return heard(t, err);
}

TransferStats transfer_stats(const Transfer *t) {
    TransferStats s = t->stats;
    for (int i = 0; i < MAX_THREADS; i++) s.made_us += t->worker[i].made_us, s.sent_us += t->worker[i].sent_us;
    return s;
}

void transfer_drop(Transfer *t) {
    atomic_store(&t->next, t->pieces);
    for (int i = 0; i < t->threads; i++) pthread_join(t->worker[i].thread, NULL);
    t->threads = 0;
    for (int i = 0; i < MAX_THREADS; i++) buf_free(&t->worker[i].err), t->worker[i].no_memory = false;
    forget_items(t);
}

void transfer_free(Transfer *t) {
    if (!t) return;
    heap_let_go(end_transfer, t, 0);
    end(t);
}

static void end(Transfer *t) {
    transfer_drop(t);
    for (int i = 0; i < MAX_THREADS; i++) {
        if (t->worker[i].stage) t->device->ops->stage_free(t->device, t->worker[i].stage);
        if (t->worker[i].pins) t->device->ops->unpin(t->device, room_at(t, &t->worker[i]));
    }
    heap_free(t->rooms);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    heap_free(t->item);
    heap_free(t->piece);
    heap_free(t);
}

// ---- back ----------------------------------------------------------------------------------------

bool transfer_back(Transfer *t, void *to, uint64_t from, uint64_t bytes, Buf *err) {
    t->back = to;
    t->back_from = from;
    t->back_bytes = bytes;
    t->pieces = (int64_t)((bytes + PIECE - 1) / PIECE);
    begin(t, bytes, fetch);
    int threads = t->threads;
    for (int i = 0; i < threads; i++) pthread_join(t->worker[i].thread, NULL);
    t->pieces = 0;
    return heard(t, err) && (threads || t->device->ops->read(t->device, to, from, bytes, err));
}

void transfer_warm(Transfer *t) {
    if (t->device->ops->stage_make) host_touch(room_at(t, t->worker), (size_t)MAX_THREADS * PIECE);
}
