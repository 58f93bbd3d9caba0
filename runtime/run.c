// `tkc run`: a kernel on arguments that the command line gave.
//
//     specs -> what they say of dimensions and types -> instance -> launch -> results printed or saved

#include "runtime/internal.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = MAX_GRAPH_DIMS + 64 };
// set by the user; from the arguments
// A call: what was given, and what that is as parameters of the item.
typedef struct Call { RunArg *args; int nargs; KernelArg *list; } Call;

static const RunArg *find_arg(const RunArg *args, int n, const char *name) {
    for (int i = 0; i < n; i++) if (strcmp(args[i].name, name) == 0) return &args[i];
    return NULL;
}

static const Node *kernel_params(const Node *kernel) { return kernel->kid[1]; }

static const char *nearest_param(const Node *kernel, const char *name) {
    const Node *params = kernel_params(kernel), *best = NULL;
    int least = 3;
    for (uint32_t i = 0; i < params->nkid; i++) {
        int d = edit_distance(params->kid[i]->sym->s, name);
        if (d < least && d < (int)strlen(name)) { least = d; best = params->kid[i]; }
    }
    return best ? best->sym->s : NULL;
}

static bool known_names(const Node *kernel, const RunArg *args, int nargs, Buf *err) {
    const Node *params = kernel_params(kernel);
    for (int i = 0; i < nargs; i++) {
        bool found = false;
        for (uint32_t p = 0; p < params->nkid; p++) found |= strcmp(params->kid[p]->sym->s, args[i].name) == 0;
        for (int j = 0; j < i; j++)
            if (strcmp(args[j].name, args[i].name) == 0) {
                buf_printf(err, "argument `%s` is given twice", args[i].name);
                return false;
            }
        if (found) continue;
        const char *near = nearest_param(kernel, args[i].name);
        buf_printf(err, "`%s` has no parameter `%s`", kernel->sym->s, args[i].name);
        if (near) { buf_printf(err, "; did you mean `%s`?", near); return false; }
        for (uint32_t p = 0; p < params->nkid; p++) buf_printf(err, "%s `%s`", p ? "," : "; it has", params->kid[p]->sym->s);
        return false;
    }
    return true;
}

static int add_value(SemaValue v, SemaValue *out, int n, int max) {
    for (int i = 0; i < n; i++) if (strcmp(out[i].name, v.name) == 0) return n;      // the first stands; binding compares
    if (n < max) out[n++] = v;
    return n;
}

// The file's 16-bit words may be bf16 and its bytes f8: then it says nothing of the type.
static bool says_elem(const RunArg *a) {
    return a->as != EL_none || !a->is_path || (a->tensor.elem != EL_u16 && a->tensor.elem != EL_u8);
}

// The elements of `x: T[M, N]` are of a type that the kernel is given.
static bool generic(const Node *type) {
    const Node *elem = type && type->kind == N_type_tensor ? type->kid[0] : NULL;
    return elem && elem->sym && elem_by_name((Str){elem->sym->s, elem->sym->n}) == EL_none;
}

int infer_values(const Node *kernel, const RunArg *args, int nargs, SemaValue *out, int max, Buf *err) {
    const Node *params = kernel_params(kernel);
    int n = 0;
    if (!known_names(kernel, args, nargs, err)) return -1;
    for (uint32_t p = 0; p < params->nkid; p++) {
        const Node   *param = params->kid[p], *type = param->nkid ? param->kid[0] : NULL;
        const RunArg *a = find_arg(args, nargs, param->sym->s);
        if (!a || !a->tensor.data || !type || type->kind != N_type_tensor) continue;
        if (generic(type) && says_elem(a))
            n = add_value((SemaValue){.name = type->kid[0]->sym->s, .is_type = true, .elem = a->tensor.elem}, out, n, max);
        if ((int)type->nkid - 1 != a->tensor.rank) {
            buf_printf(err, "`%s` (%s) has %d dimension%s; the kernel takes %d", a->name, a->spec, a->tensor.rank,
                       a->tensor.rank == 1 ? "" : "s", (int)type->nkid - 1);
            return -1;
        }
        for (int d = 0; d < a->tensor.rank; d++) {
            const Node *dim = type->kid[1 + d];
            if (dim && dim->kind == N_name)
                n = add_value((SemaValue){.name = dim->sym->s, .ival = a->tensor.dim[d]}, out, n, max);
        }
    }
    return n;
}

bool tensor_convert(HostTensor *t, Elem to, Buf *err) {
    HostTensor other;
    if (t->elem == to || tensor_reinterpret(t, to)) return true;
    if (!tensor_make(&other, to, t->rank, t->dim, err)) return false;
    for (int64_t i = 0, n = tensor_count(t); i < n; i++) {
        if (elem_is_float(t->elem) || elem_is_float(to)) elem_set(to, other.data, i, elem_get(t->elem, t->data, i));
        else elem_set_int(to, other.data, i, elem_get_int(t->elem, t->data, i));
    }
    tensor_free(t);
    *t = other;
    return true;
}

bool arg_load(RunArg *a, Buf *err) {
    if (!a->is_path || a->tensor.data) return true;
    return npy_read(a->spec, &a->tensor, err) && (a->as == EL_none || tensor_convert(&a->tensor, a->as, err));
}

bool args_load(const Node *kernel, RunArg *args, int nargs, Buf *err) {
    const Node *params = kernel_params(kernel);
    for (uint32_t p = 0; p < params->nkid; p++) {
        RunArg *a = (RunArg *)(uintptr_t)find_arg(args, nargs, params->kid[p]->sym->s);
        const Node *type = params->kid[p]->kid[0];
        bool number = type && type->kind == N_type_name;       // a file is none: args_bind says so
        if (a && !number && !(params->kid[p]->flags & PARAM_OUT) && !arg_load(a, err)) return false;
    }
    return true;
}

static const Node *type_written(const TKernel *k, int p) { return k->decl->kid[1]->kid[p]->kid[0]; }

// `f32[M, N]`, a dimension that is computed as `...`
static void say_type(const TKernel *k, int p, const LaunchParam *want, Buf *out) {
    const Node *type = k ? type_written(k, p) : NULL;
    buf_printf(out, "%s[", elem_name(want->elem));
    for (int i = 0; !type && i < want->rank; i++) buf_puts(out, i ? ", ..." : "...");
    for (uint32_t i = 1; type && i < type->nkid; i++) {
        const Node *d = type->kid[i];
        if (i > 1) buf_puts(out, ", ");
        if (d->kind == N_int) buf_printf(out, "%lld", (long long)d->ival);
        else buf_puts(out, d->kind == N_name ? d->sym->s : "...");
    }
    buf_putc(out, ']');
}

// `s=2` for `s: f32[]` is `s=full(2):f32[]`.
static bool number_as_tensor(RunArg *a, Elem e, Buf *err) {
    Buf spec = {0};
    RunArg made;
    buf_printf(&spec, "%s=full(%s):%s[]", a->name, a->spec, elem_name(e));
    bool ok = arg_parse(spec.p, 0, 0, &made, err);
    buf_free(&spec);
    if (!ok) return false;
    made.save = a->save;
    arg_free(a);
    *a = made;
    return true;
}

bool args_bind(Sym kernel, const LaunchParam *params, int nparams, const TKernel *k, RunArg *const *by, KernelArg *out, RunResult *result,
               Buf *err) {
    for (int p = 0; p < nparams; p++) {
        const LaunchParam *want = &params[p];
        RunArg *a = by[p];
        bool    made = want->kind == PK_TENSOR && want->mode == PM_OUT;
        if (!a && !made) {
            buf_printf(err, "`%s` needs an argument for `%s` (", kernel->s, want->name->s);
            if (want->kind == PK_TENSOR) say_type(k, p, want, err);
            else
                buf_printf(err, "%s%s", elem_name(want->elem),
                           want->kind == PK_SCALAR ? ", a number" : ", a tensor whose memory it points to");
            buf_putc(err, ')');
            return false;
        }
        bool rank0 = want->kind == PK_TENSOR && !want->rank && want->mode != PM_OUT;
        if (a && a->scalar && rank0 && (!a->is_float || elem_is_float(want->elem)) && !number_as_tensor(a, want->elem, err)) return false;
        out[p].origin = a ? a->spec : NULL;
        if (a && a->scalar) {
            out[p].scalar = true;
            out[p].is_float = a->is_float;
            out[p].is_u64 = a->is_u64;
            out[p].ival = a->ival;
            out[p].fval = a->fval;
            continue;
        }
        if (want->kind == PK_SCALAR) {
            buf_printf(err, "`%s` is a number (%s), not `%s`", want->name->s, elem_name(want->elem), a->spec);
            return false;
        }
        if (a && a->is_path && a->tensor.data && !tensor_reinterpret(&a->tensor, want->elem) && !says_elem(a) &&
            k && generic(type_written(k, p))) {
            const char *own = elem_name(a->tensor.elem), *other = a->tensor.elem == EL_u16 ? "bf16" : "f8e4m3";
            buf_printf(err, "`%s` (%s) holds %s, or the bits of %s: say which, %s=%s:%s or %s=%s:%s", want->name->s, a->spec,
                       own, a->tensor.elem == EL_u16 ? "bf16" : "an f8", want->name->s, other, a->spec, want->name->s, own,
                       a->spec);
            return false;
        }
        if (!param_written(want)) {
            if (a->save) { buf_printf(err, "`%s` is only read: there is nothing to save", want->name->s); return false; }
            out[p].tensor = &a->tensor;
            continue;
        }
        HostTensor *t = &result->out[result->n].tensor;
        result->out[result->n].name = want->name;
        result->out[result->n].mode = want->mode;
        const char *saved = a && a->save ? a->save : a && made && a->is_path ? a->spec : NULL;
        if (saved && !npy_named(saved, err)) return false;
        result->out[result->n].saved = saved;
        if (a && a->tensor.data && !tensor_copy(t, &a->tensor, err)) return false;
        out[p].tensor = t;
        result->n++;
    }
    return true;
}

static bool bind_specs(const TKernel *k, RunArg *args, int nargs, KernelArg *out, RunResult *result, Buf *err) {
    RunArg *by[MAX_GRAPH_PARAMS];
    for (int p = 0; p < k->nparams; p++) by[p] = (RunArg *)(uintptr_t)find_arg(args, nargs, k->params[p].name->s);
    return args_bind(k->name, k->params, k->nparams, k, by, out, result, err);
}

// A dimension that --set gives, which no argument need have; -1: none.
static int64_t said(InstanceOf of, Sym name) {
    for (int i = 0; i < of.nset; i++)
        if (strcmp(of.set[i].name, name->s) == 0 && !of.set[i].is_type && !of.set[i].fn) return of.set[i].ival;
    return -1;
}

static bool run_instance(Runtime *rt, InstanceOf of, Call c, RunResult *result, Buf *err) {
    Choice choice;
    if (!runtime_choose(rt, of, &runtime_options(rt)->compile, &choice)) return false;
    TKernel *k = choice.kernel;
    int64_t    dims[MAX_DIMS];
    RunControl ctl = {.notes = &result->notes, .schedule = &choice.schedule, .dims = dims,
                      .junk_seed = runtime_options(rt)->junk_seed,
                      .verify_values = runtime_options(rt)->verify_values};
    for (int d = 0; d < k->ndims; d++) dims[d] = said(of, k->dims[d].name);
    return bind_specs(k, c.args, c.nargs, c.list, result, err) && kernel_launch(rt, k, c.list, k->nparams, &ctl, err);
}

static bool run_graph(Runtime *rt, InstanceOf of, Call c, RunResult *result, Buf *err) {
    GraphExec *x = graph_open(rt, of);
    bool ok = x && bind_specs(graph_head(x), c.args, c.nargs, c.list, result, err) &&
              graph_run(x, c.list, graph_head(x)->nparams,
                        &(RunControl){.notes = &result->notes,
                                      .junk_seed = runtime_options(rt)->junk_seed,
                                      .profile = runtime_options(rt)->profile ? &result->profile : NULL},
                        err);
    graph_close(x);
    return ok;
}

bool run_item(Runtime *rt, InstanceOf of, RunArg *args, int nargs, RunResult *result, Buf *err) {
    SemaValue known[MAX_VALUES];
    const Call c = {args, nargs, heap_alloc(sizeof *c.list * MAX_GRAPH_PARAMS)};
    *result = (RunResult){0};
    of.known = known;
    of.nknown = args_load(of.item, args, nargs, err) ? infer_values(of.item, args, nargs, known, MAX_VALUES, err) : -1;
    bool ok = of.nknown >= 0 && (of.item->kind == N_graph ? run_graph : run_instance)(rt, of, c, result, err);
    for (int i = 0; ok && i < result->n; i++)
        if (result->out[i].saved) ok = npy_write(result->out[i].saved, &result->out[i].tensor, err);
    heap_free(c.list);
    return ok;
}

void run_print(const RunResult *r, FILE *to) {
    Buf text = {0};
    for (int i = 0; i < r->n; i++) {
        buf_printf(&text, "%s: ", r->out[i].name->s);
        tensor_type_text(&r->out[i].tensor, &text);
        if (r->out[i].saved) buf_printf(&text, " saved as %s\n", r->out[i].saved);
        else {
            buf_putc(&text, '\n');
            tensor_print(&r->out[i].tensor, 0, &text);
            buf_putc(&text, '\n');
        }
    }
    if (text.n) fwrite(text.p, 1, text.n, to);
    if (r->notes.n) put_shown(stderr, r->notes.p, r->notes.n);
    buf_free(&text);
}

void run_result_free(RunResult *r) {
    for (int i = 0; i < r->n; i++) tensor_free(&r->out[i].tensor);
    buf_free(&r->notes);
    profile_free(&r->profile);
    *r = (RunResult){0};
}
