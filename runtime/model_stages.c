// A model in several programs, run: the programs on a device, and between them the interpreter's turns on the host (graph/fuse/cut.c).
//
//     turn 0   what programs read of it is sent         program 1   what turns read of it is fetched         turn 1   ..
//
// A value lies on the device, on the host, or on both: it is brought to the other side when something there reads it, once. What only programs
// read is never on the host. Its place on the device grows with it and stays between runs, so that runs with the same sizes are the same
// plans with the same addresses; sizes that were not found before are other plans of the same kernels (graph_sizes.c).
//
// Small values that go the same way at the same time lie side by side (Parcel): one copy for all masks of a layer of experts, and one for all
// that was found in them.
//
// The device is waited for after each program: how many boxes there are has to be known before what follows can be launched.
#include "runtime/model_stages.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/transfer.h"
#include "runtime/graph.h"

typedef struct Held {            // a tensor, where it is
    const char *name;
    GTensor  host;               // type and shape are always there; data NULL: it is not on the host
    bool     own;                // .. the data are freed here
    bool     on_device;
    Elem     elem;               // .. as which type
    uint64_t address;            // .. where
    uint64_t place, room;        // memory of its own
    uint64_t lent, lent_room;    // the caller's, for a result
    struct Parcel *in;           // it lies there, `at` bytes from its beginning on, or NULL
    uint64_t at;
    bool     fetched, sent;      // a turn reads it; a program reads it, as `as`
    Elem     as;
} Held;

enum { SMALL = 64 << 10, APART = 256 };

typedef struct Parcel {          // small values side by side
    uint64_t address, room, bytes;
    char    *host;
    size_t   host_room;
    bool     there;              // .. on the other side
} Parcel;

struct ModelStages {
    const Graph   *whole;
    const GStages *s;
    Runtime       *rt;
    GraphExec    **exec;         // by stage, from 1
    Held          *input, *value;
    Parcel        *fetched, *sent;         // by stage: what its turn reads of its program; what its turn makes
    int            ninputs;
    GSizes         known;
    Bound         *bound;
    bool           ran;          // the last run came to its end
};

// ---- life ----------------------------------------------------------------------------------------

static void note_readers(ModelStages *x) {
    for (int k = 0; k <= x->s->nstages; k++) {
        const GStage *at = &x->s->stage[k];
        for (int i = 0; i < at->nreads; i++) x->value[at->reads[i]].fetched = true;
        for (int i = 0; i < at->nin; i++)
            if (at->in[i] >= 0) x->value[at->in[i]].sent = true, x->value[at->in[i]].as = graph_info(x->exec[k])->params[i].elem;
    }
}

ModelStages *stages_open(Runtime *rt, const SemaFile *file, const Graph *whole, Buf *err) {
    const GStages *s = graph_stages(whole);
    if (sema_graph_count(file) != s->nstages)
        return buf_printf(err, "the file has %d graphs, the model is run in %d", sema_graph_count(file), s->nstages), NULL;
    ModelStages *x = heap_alloc(sizeof *x);
    size_t dims = (size_t)graph_dim_count(whole) + 1;
    *x = (ModelStages){.whole = whole, .s = s, .rt = rt, .ninputs = graph_input_count(whole), .bound = heap_alloc(sizeof *x->bound)};
    x->exec = heap_alloc(sizeof(GraphExec *) * ((size_t)s->nstages + 1));
    x->input = heap_alloc(sizeof *x->input * ((size_t)x->ninputs + 1));
    x->value = heap_alloc(sizeof *x->value * ((size_t)s->nvalues + 1));
    x->known = (GSizes){heap_alloc(sizeof(int64_t) * dims), heap_alloc(sizeof(bool) * dims)};
    for (int i = 0; i < x->ninputs; i++) x->input[i].name = graph_input_name(whole, i);
    for (int i = 0; i < s->nvalues; i++) x->value[i].name = s->value[i].name;
    x->fetched = heap_alloc(sizeof *x->fetched * ((size_t)s->nstages + 1));
    x->sent = heap_alloc(sizeof *x->sent * ((size_t)s->nstages + 1));
    bool fine = true;
    for (int i = 1; i <= s->nstages && fine; i++) {
        const GStage *at = &s->stage[i];
        x->exec[i] = graph_open(rt, (InstanceOf){.file = (SemaFile *)(uintptr_t)file, .item = sema_graph(file, i - 1)});
        int have = x->exec[i] ? graph_info(x->exec[i])->nparams : 0, want = at->nin + at->nout;
        fine = x->exec[i] && have == want && want <= MAX_GRAPH_PARAMS;
        if (x->exec[i] && want > MAX_GRAPH_PARAMS) buf_printf(err, "a program has at most %d inputs and outputs", MAX_GRAPH_PARAMS);
        else if (x->exec[i] && !fine) buf_printf(err, "graph %d has %d inputs and outputs, that of the model %d", i, have, want);
    }
    if (fine) { note_readers(x); return x; }
    stages_close(x);
    return NULL;
}

static void forget(Held *h) {
    if (h->own) g_tensor_free(&h->host);
    h->host.data = NULL;
    h->own = h->on_device = false;
    h->in = NULL;
    h->lent = h->lent_room = 0;
}

void stages_close(ModelStages *x) {
    if (!x) return;
    Device *d = runtime_device(x->rt);
    for (int i = 0; i < x->ninputs + x->s->nvalues; i++) {
        Held *h = i < x->ninputs ? &x->input[i] : &x->value[i - x->ninputs];
        forget(h);
        if (h->place) device_free(d, h->place);
    }
    for (int i = 0; i <= x->s->nstages; i++) {
        Parcel *p[2] = {&x->fetched[i], &x->sent[i]};
        for (int k = 0; k < 2; k++) {
            if (p[k]->address) device_free(d, p[k]->address);
            heap_free(p[k]->host);
        }
    }
    heap_free(x->fetched);
    heap_free(x->sent);
    for (int i = 1; i <= x->s->nstages; i++) graph_close(x->exec[i]);
    heap_free(x->exec);
    heap_free(x->input);
    heap_free(x->value);
    heap_free(x->known.dims);
    heap_free(x->known.bound);
    heap_free(x->bound);
    heap_free(x);
}

// ---- from one side to the other --------------------------------------------------------------------

static uint64_t bytes_as(const Held *h, Elem e) {
    uint64_t n = (uint64_t)elem_bytes(e);
    for (int d = 0; d < h->host.rank; d++) n *= (uint64_t)h->host.shape[d];
    return n;
}

// Memory on the device for h as `elem`: the caller's, if there is some, else its own.
static bool make_place(ModelStages *x, Held *h, Elem elem, Buf *err) {
    Device  *d = runtime_device(x->rt);
    uint64_t bytes = bytes_as(h, elem);
    if (h->lent && bytes > h->lent_room)
        return buf_printf(err, "`%s` has %llu bytes, more than the %llu that there is room for", h->name, (unsigned long long)bytes, (unsigned long long)h->lent_room), false;
    if (!h->lent && (!h->place || h->room < bytes)) {
        if (h->place) device_free(d, h->place);
        h->room = bytes + bytes / 4;                         // the next may be a little larger
        h->place = device_alloc(d, h->room, h->name, err);
        if (!h->place) return h->room = 0, false;
    }
    h->address = h->lent ? h->lent : h->place;
    h->elem = elem;
    return true;
}

// h goes into a parcel, if it is small enough.
static bool packed(Parcel *p, Held *h, Elem elem) {
    uint64_t bytes = bytes_as(h, elem);
    if (bytes > SMALL || h->lent) return false;
    h->in = p;
    h->at = p->bytes;
    h->elem = elem;
    p->bytes += (bytes / APART + 1) * APART;                 // of no elements, too, a place
    return true;
}

// Room for it on both sides.
static bool parcel_room(ModelStages *x, Parcel *p, Buf *err) {
    Device *d = runtime_device(x->rt);
    p->there = false;
    if (p->host_room < p->bytes) {
        heap_free(p->host);
        p->host = heap_alloc(p->host_room = p->bytes * 2);
    }
    if (p->room >= p->bytes && p->address) return true;
    if (p->address) device_free(d, p->address);
    p->room = p->bytes * 2;
    p->address = device_alloc(d, p->room, "what goes between programs", err);
    if (!p->address) p->room = 0;
    return p->address != 0;
}

static bool fetch(ModelStages *x, Held *h, void **data, Buf *err) {
    Parcel *p = h->in;
    if (!p->there && p->bytes && !runtime_device(x->rt)->ops->read(runtime_device(x->rt), p->host, p->address, p->bytes, err)) return false;
    p->there = true;
    *data = p->host + h->at;
    return true;
}

// What a turn has made and programs read, in one piece.
static bool send(ModelStages *x, int number, Buf *err) {
    const GStage *at = &x->s->stage[number];
    Parcel *p = &x->sent[number];
    Device *d = runtime_device(x->rt);
    p->bytes = 0;
    for (int i = 0; i < at->nmakes; i++) {
        Held *h = &x->value[at->makes[i]];
        if (h->sent && h->as == h->host.elem) packed(p, h, h->as);
    }
    if (p->bytes == 0) return true;
    if (!parcel_room(x, p, err)) return false;
    for (int i = 0; i < at->nmakes; i++) {
        Held *h = &x->value[at->makes[i]];
        if (h->in != p) continue;
        if (h->host.bytes) memcpy(p->host + h->at, h->host.data, h->host.bytes);
        h->address = p->address + h->at;
        h->on_device = true;
    }
    return d->ops->write(d, p->address, p->host, p->bytes, err);
}

// On the host, as the interpreter has it.
static bool to_host(ModelStages *x, Held *h, Elem elem, Buf *err) {
    if (h->host.data && h->host.elem == elem) return true;
    GTensor as = h->host, t;
    if (!as.data) {
        as.elem = h->elem;
        as.bytes = bytes_as(h, h->elem);
        if (h->in && !fetch(x, h, &as.data, err)) return false;
        if (!as.data) h->own = true;
        if (!as.data && !g_tensor_alloc(&as)) return buf_printf(err, "`%s` is too large for this machine's memory", h->name), false;
        if (!h->in && as.bytes && !transfer_back(store_transfer(x->rt), as.data, h->address, as.bytes, err)) return g_tensor_free(&as), h->own = false;
    }
    if (as.elem != elem) {
        if (!g_tensor_convert(&as, elem, &t)) return buf_printf(err, "`%s` is too large for this machine's memory", h->name), false;
        if (h->own) g_tensor_free(&as);
        as = t;
        h->own = true;
    }
    h->host = as;
    return true;
}

static bool to_device(ModelStages *x, Held *h, Elem elem, Buf *err) {
    Device *d = runtime_device(x->rt);
    if (h->on_device && h->elem == elem) return true;
    GTensor as = {0};
    if (!h->host.data && !to_host(x, h, h->elem, err)) return false;
    bool other = h->host.elem != elem;
    if (other && !g_tensor_convert(&h->host, elem, &as)) return buf_printf(err, "`%s` is too large for this machine's memory", h->name), false;
    if (!other) as = h->host;
    bool fine = make_place(x, h, elem, err) && (!as.bytes || d->ops->write(d, h->address, as.data, as.bytes, err));
    if (other) g_tensor_free(&as);
    return h->on_device = fine;
}

// ---- a run -------------------------------------------------------------------------------------------

static Elem elem_of_input(const ModelStages *x, int i) { return graph_input_elem(x->whole, i); }

// What is fetched, sent and computed between programs, as a row of its own among the times of launches.
static void say_turn(const ModelStages *x, int number, double us, ProfileText *to) {
    const char *from = x->s->stage[number].from;
    buf_printf(&to->table, "the interpreter, turn %d: %.2f us, %s\n\n", number, us, from ? from : "what only moves");
    to->since_us += us;
}

static bool turn(ModelStages *x, int number, Buf *err) {
    static char somewhere;                                   // of inputs whose shapes alone are looked at
    const GStage *at = &x->s->stage[number];
    char why[512] = "out of memory";
    if (at->nmakes == 0) return true;
    GTensor *in = heap_alloc(sizeof *in * (size_t)(x->ninputs + 1)), *reads = heap_alloc(sizeof *reads * (size_t)(at->nreads + 1)),
            *makes = heap_alloc(sizeof *makes * (size_t)at->nmakes);
    bool fine = true, later = false;
    for (int i = 0; i < at->ninputs; i++) later |= x->input[at->inputs[i]].host.data == NULL;
    if (later) fine = runtime_device(x->rt)->ops->sync(runtime_device(x->rt), err);           // a stream of the caller's may be making it
    for (int i = 0; i < at->ninputs && fine; i++) fine = to_host(x, &x->input[at->inputs[i]], elem_of_input(x, at->inputs[i]), err);
    for (int i = 0; i < x->ninputs; i++) {
        in[i] = x->input[i].host;
        in[i].elem = elem_of_input(x, i);
        if (!in[i].data) in[i].data = &somewhere;
    }
    for (int i = 0; i < at->nreads && fine; i++) {
        const GBetween *v = &x->s->value[at->reads[i]];
        fine = to_host(x, &x->value[at->reads[i]], v->elem, err);
        reads[i] = x->value[at->reads[i]].host;
    }
    if (fine && !graph_turn(x->whole, number, in, reads, makes, &x->known, why, sizeof why)) fine = false, buf_puts(err, why);
    for (int i = 0; i < at->nmakes && fine; i++) {
        Held *h = &x->value[at->makes[i]];
        h->host = makes[i];
        h->own = true;
    }
    fine = fine && send(x, number, err);
    heap_free(makes);
    heap_free(reads);
    heap_free(in);
    return fine;
}

static void describe(const Held *h, BindArg *to) {
    *to = (BindArg){.origin = h->name, .elem = h->elem, .rank = h->host.rank, .address = h->address};
    for (int d = 0; d < to->rank; d++) to->dim[d] = h->host.shape[d];
    bind_contiguous(to);
}

static GraphFailure program(ModelStages *x, int number, const RunControl *ctl, Buf *err) {
    const GStage *at = &x->s->stage[number];
    const LaunchInfo *info = graph_info(x->exec[number]);
    Device  *d = runtime_device(x->rt);
    BindArg *args = heap_alloc(sizeof *args * (size_t)(at->nin + at->nout + 1));
    Parcel  *parcel = &x->fetched[number];
    GraphFailure r = GRAPH_FINE;
    parcel->bytes = 0;
    for (int i = 0; i < at->nin && r == GRAPH_FINE; i++) {
        Held *h = at->in[i] < 0 ? &x->input[-1 - at->in[i]] : &x->value[at->in[i]];
        if (!to_device(x, h, info->params[i].elem, err)) r = GRAPH_DEVICE;
        describe(h, &args[i]);
    }
    for (int i = 0; i < at->nout; i++) args[at->nin + i].absent = true;
    if (r == GRAPH_FINE && !bind_args(info, args, at->nin + at->nout, x->bound, err)) r = GRAPH_ARGUMENTS;
    for (int i = 0; i < at->nout && r == GRAPH_FINE; i++) {
        BindArg *a = &args[at->nin + i];
        Held    *h = &x->value[at->out[i]];
        h->host = (GTensor){.elem = a->elem, .rank = a->rank};
        for (int k = 0; k < a->rank; k++) h->host.shape[k] = a->dim[k];
        if (h->fetched) packed(parcel, h, a->elem);
    }
    if (r == GRAPH_FINE && parcel->bytes && !parcel_room(x, parcel, err)) r = GRAPH_DEVICE;
    for (int i = 0; i < at->nout && r == GRAPH_FINE; i++) {
        BindArg *a = &args[at->nin + i];
        Held    *h = &x->value[at->out[i]];
        if (h->in) h->address = parcel->address + h->at;
        else if (!make_place(x, h, a->elem, err)) r = h->lent ? GRAPH_ARGUMENTS : GRAPH_DEVICE;
        if (r == GRAPH_FINE && ctl->junk_seed && !d->ops->fill(d, h->address, bytes_as(h, a->elem), junk_of(ctl), ctl->junk_seed + (uint64_t)i, err)) r = GRAPH_DEVICE;
        if (r == GRAPH_FINE) describe(h, a);
        h->on_device = true;
    }
    if (r == GRAPH_FINE && ctl->watch && ctl->watch->program) ctl->watch->program(ctl->watch->ctx, number);
    RunControl with = *ctl;
    with.no_wait = false;
    if (ctl->profile) ctl->profile->program = number;
    if (r == GRAPH_FINE) r = graph_run_at(x->exec[number], args, &with, err);
    heap_free(args);
    return r;
}

static void take_input(Held *h, const StageTensor *t) {
    forget(h);
    h->host = (GTensor){.elem = t->elem, .rank = t->rank, .data = t->on_device ? NULL : t->data};
    for (int d = 0; d < t->rank; d++) h->host.shape[d] = t->dim[d];
    h->host.bytes = bytes_as(h, t->elem);
    h->on_device = t->on_device;
    h->elem = t->elem;
    h->address = t->address;
}

static bool show(ModelStages *x, int i, bool on_device, StageTensor *to, Buf *err) {
    Held *h = &x->value[x->s->result[i]];
    Elem  elem = stages_output_elem(x, i);
    if (on_device ? !to_device(x, h, elem, err) : !to_host(x, h, elem, err)) return false;
    *to = (StageTensor){.given = true, .on_device = on_device, .elem = elem, .rank = h->host.rank, .data = h->host.data, .address = h->address, .bytes = bytes_as(h, elem)};
    for (int d = 0; d < to->rank && d < MAX_RANK; d++) to->dim[d] = h->host.shape[d];
    return true;
}

bool stages_result(ModelStages *x, int i, bool on_device, StageTensor *to, Buf *err) {
    if (!x->ran) return buf_puts(err, "there is no result: the graph has not run to its end"), false;
    return show(x, i, on_device, to, err);
}

// To the caller's memory, unless a program has put it there.
static bool hand_out(ModelStages *x, int i, const StageTensor *to, Buf *err) {
    Held  *h = &x->value[x->s->result[i]];
    Device *d = runtime_device(x->rt);
    StageTensor at;
    if (!to->given || (to->on_device && h->on_device && h->address == to->address)) return true;
    if (!show(x, i, false, &at, err)) return false;
    if (at.bytes > to->bytes)
        return buf_printf(err, "`%s` has %llu bytes, more than the %llu that there is room for", h->name, (unsigned long long)at.bytes, (unsigned long long)to->bytes), false;
    if (!to->on_device && at.bytes) memcpy(to->data, at.data, at.bytes);
    return !to->on_device || !at.bytes || d->ops->write(d, to->address, at.data, at.bytes, err);
}

GraphFailure stages_run(ModelStages *x, const StageTensor *in, const StageTensor *out, const RunControl *ctl, Buf *err) {
    int ndims = graph_dim_count(x->whole), results = graph_output_count(x->whole);
    Device *d = runtime_device(x->rt);
    RunStages *times = runtime_options(x->rt)->stages;
    double since = now_us(), known = stages_known(times);
    if (!device_ready(d, times ? &times->device_us : NULL, err)) return GRAPH_DEVICE;
    stages_lap_rest(times, RS_device, &since, &known);
    if (ctl->junk_seed) d->junk = junk_of(ctl), d->junk_seed = ctl->junk_seed, d->in_order = ctl->in_order, d->order_seed = ctl->order_seed;
    memset(x->known.dims, 0, sizeof *x->known.dims * (size_t)ndims);
    memset(x->known.bound, 0, sizeof *x->known.bound * (size_t)ndims);
    for (int i = 0; i < x->s->nvalues; i++) forget(&x->value[i]);
    for (int i = 0; i < x->ninputs; i++) take_input(&x->input[i], &in[i]);
    for (int i = 0; i < results && out; i++) {
        Held *h = &x->value[x->s->result[i]];
        if (out[i].given && out[i].on_device && x->s->value[x->s->result[i]].program && !h->lent) h->lent = out[i].address, h->lent_room = out[i].bytes;
    }
    GraphFailure r = GRAPH_FINE;
    x->ran = false;
    for (int k = 0; k <= x->s->nstages && r == GRAPH_FINE; k++) {
        if (k > 0) r = program(x, k, ctl, err);
        stages_lap_rest(times, RS_run, &since, &known);
        double begun = since;
        if (r == GRAPH_FINE && !turn(x, k, err)) r = GRAPH_ARGUMENTS;
        stages_lap_rest(times, RS_turns, &since, &known);
        if (ctl->profile && x->s->stage[k].nmakes) say_turn(x, k, since - begun, ctl->profile);
    }
    for (int i = 0; i < results && out && r == GRAPH_FINE; i++)
        if (!hand_out(x, i, &out[i], err)) r = GRAPH_ARGUMENTS;
    x->ran = r == GRAPH_FINE;
    return r;
}

// ---- asked -------------------------------------------------------------------------------------------

Elem stages_input_elem(const ModelStages *x, int i) {
    for (int k = 1; k <= x->s->nstages; k++)
        for (int p = 0; p < x->s->stage[k].nin; p++)
            if (x->s->stage[k].in[p] == -1 - i) return graph_info(x->exec[k])->params[p].elem;
    return elem_of_input(x, i);
}

Elem stages_output_elem(const ModelStages *x, int i) {
    const GBetween *v = &x->s->value[x->s->result[i]];
    const GStage *at = &x->s->stage[v->program];
    for (int p = 0; p < at->nout && v->program; p++)
        if (at->out[p] == x->s->result[i]) return graph_info(x->exec[v->program])->params[at->nin + p].elem;
    return v->elem;
}

GraphStats stages_stats(const ModelStages *x) {
    GraphStats sum = {0};
    for (int k = 1; k <= x->s->nstages; k++) {
        GraphStats s = graph_stats(x->exec[k]);
        if (k == 1) sum = s;
        else {
            sum.plans += s.plans, sum.plans_made += s.plans_made, sum.elaborated += s.elaborated, sum.launches += s.launches;
            sum.live = s.live > sum.live ? s.live : sum.live;
        }
    }
    return sum;
}
