// A product without a loop: the only trip of a loop, which it has no more.
//
//     c[m, n] = dot(a[m, k], b[k, n])           ->          for once { acc += dot(a[m, k], b[k, n]) };  c[m, n] = acc
//
// Loads and product go into a loop again, so that walking blocks load ahead; and out of it, where there are no roles for it.
#include "lower/hopper/hopper.h"

Op *hop_lone_product(Fn *f) {
    Op *dot = NULL;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code != OP_T_dot) continue;
        if (dot || op->parent != &f->body) return NULL;
        dot = op;
    }
    for (int i = 0; dot && i < 2; i++) {
        const Op *load = dot->in[i]->def;
        if (!load || load->code != OP_T_load || load->parent != &f->body || region_uses(&f->body, dot->in[i]) != 1)
            return NULL;
    }
    return dot;
}

Op *hop_into_loop(Fn *f, Op *dot) {
    Builder b = {f, NULL, dot, dot->span};
    Val *out = dot->out[0], *acc = op_acc(dot);
    if (!acc) {
        Elem e = (Elem)out->type.elem;
        Val *zero = elem_is_float(e) ? b_float(&b, e, 0) : b_const(&b, e, 0);
        acc = b_op(&b, OP_T_splat, 0, out->type, 1, &zero);
    }
    Op *loop = op_new(f, OP_T_for, dot->span, 4,
                      (Val *[]){b_const(&b, EL_index, 0), b_const(&b, EL_index, 1), b_const(&b, EL_index, 1), acc}, 1);
    loop->out[0]->type = out->type;
    loop->out[0]->name = out->name;
    b_insert(&b, loop);
    Region *r = loop->reg[0];
    region_arg(f, r, type_scalar(EL_index));
    Val *arg = region_arg(f, r, out->type);
    replace_uses(&f->body, out, loop->out[0]);
    Op *ops[] = {dot->in[0]->def, dot->in[1]->def, dot};
    for (int i = 0; i < 3; i++) { op_remove(ops[i]); op_append(r, ops[i]); }
    if (dot->flags & HAS_ACC) dot->in[2] = arg;
    else op_insert_operand(f, dot, 2, arg);
    dot->flags |= HAS_ACC;
    Builder end = {f, r, NULL, dot->span};
    hop_effect(&end, OP_T_yield, 1, &dot->out[0]);
    return loop;
}

void hop_out_of_loop(Fn *f, Op *loop) {
    Region *r = loop->reg[0];
    Val *sum = r->last->in[0], *arg = r->args.at[1];
    for (Op *op = r->first, *next; op != r->last; op = next) {
        next = op->next;
        op_remove(op);
        op_before(loop, op);
    }
    for (int i = 0; i < sum->def->nin; i++) if (sum->def->in[i] == arg) sum->def->in[i] = loop->in[3];
    replace_uses(&f->body, loop->out[0], sum);
    op_remove(loop);
}
