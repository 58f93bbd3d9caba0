// Is a candidate right? Its results beside those of the first that was launched, before it is timed.
//
// Of each `out` tensor the first elements are compared, so many that nobody waits for it. Sums in another order differ
// in their last digits: what is allowed is twice what `~` allows, at least 2e-3 of an element or of the tensor's scale.
// Tensors that are read and written (`inout`, memory behind pointers) change with each launch, and are not looked at.
#include "runtime/tune.h"

enum { MOST = 1 << 18 };

static bool looked_at(const LaunchInfo *info, int p) {
    return info->params[p].kind == PK_TENSOR && info->params[p].mode == PM_OUT;
}

void tune_check_free(TuneCheck *c) {
    for (int p = 0; p < MAX_PARAMS; p++) tensor_free(&c->first[p]);
    *c = (TuneCheck){0};
}

bool tune_check_begin(Device *d, const LaunchInfo *info, const BindArg *args, Buf *err) {
    for (int p = 0; p < info->nparams; p++)
        if (looked_at(info, p) && !d->ops->fill(d, args[p].address, bind_extent(&args[p]), FILL_ZERO, 0, err)) return false;
    return true;
}

bool tune_check_end(TuneCheck *c, Device *d, const LaunchInfo *info, const BindArg *args, Buf *why) {
    bool first = !c->have, same = true;
    for (int p = 0; p < info->nparams && same; p++) {
        uint64_t size = looked_at(info, p) ? (uint64_t)elem_bytes(args[p].elem) : 0,
                 n = size ? bind_extent(&args[p]) / size : 0;
        HostTensor now;
        if (!n) continue;
        if (!tensor_make(&now, args[p].elem, 1, (int64_t[]){(int64_t)(n < MOST ? n : MOST)}, why)) return false;
        same = d->ops->read(d, now.data, args[p].address, tensor_bytes(&now), why);
        if (same && !first) {
            double rel = 2 * default_rel(now.elem, now.elem);
            CompareSpec spec = {.op = OP_approx, .rel = rel > 0 && rel < 2e-3 ? 2e-3 : rel};
            CompareResult r = tensor_compare(&now, &c->first[p], &spec);
            same = r.ok;
            if (!same)
                buf_printf(why, "`%s` differs from that of the model's choice: %g, not %g, at element %lld",
                           info->params[p].name->s, r.got.f, r.expected.f, (long long)r.worst);
        }
        if (first && same) c->first[p] = now;
        else tensor_free(&now);
    }
    c->have = true;
    return same;
}
