// Products without a loop: each the only trip of a loop, which it has no more.
//
//     c[m, n] = dot(a[m, k], b[k, n])           ->          for once { acc += dot(a[m, k], b[k, n]) };  c[m, n] = acc
//
// Loads and product go into a loop again, so that walking blocks load ahead; and out of it, where there are no roles for it. So do those of several, and
// those beside loops (specialize/loop_sequence.c).
#include "lower/specialize/specialize.h"

// By loads of its own, none of them in a loop.
static bool lone(const Fn *f, const Op *dot) {
    if (dot->parent != &f->body) return false;
    for (int i = 0; i < 2; i++) {
        const Op *load = dot->in[i]->def;
        if (!load || load->code != OP_T_load || load->parent != &f->body || region_uses(&f->body, dot->in[i]) != 1)
            return false;
    }
    return true;
}

int ws_lone_products(Fn *f, Op **to) {
    int n = 0, loops = 0;
    for (Op *op = f->body.first; op; op = op->next) {
        bool inside = false;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (inside && op->code != OP_T_for) return 0;
        loops += inside;
        if (op->code != OP_T_dot) continue;
        if (!lone(f, op) || n == MAX_LOOPS) return 0;
        to[n++] = op;
    }
    return n + loops <= MAX_LOOPS ? n : 0;
}

// acc = 0; acc += dot(..): the sum has begun with 0 already, and a loop of products that follows can go on with it.
void ws_sum_begun(Fn *f, const Op *loop) {
    bool another = false;
    for (const Op *op = loop->next; op; op = op->next) another |= op->code == OP_T_for && has_products(op->reg[0]);
    for (Op *op = another ? loop->next : NULL, *next; op; op = next) {
        next = op->next;
        const Op *zero = op->code == OP_T_binary && op->sub == OP_add && op->in[0] == loop->out[0] ? op->in[1]->def : NULL;
        if (!zero || zero->code != OP_T_const || zero->imm != 0 || !type_equal(&op->out[0]->type, &loop->out[0]->type)) continue;
        replace_uses(&f->body, op->out[0], loop->out[0]);
        op_remove(op);
    }
}

Op *ws_into_loop(Fn *f, Op *dot) {
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
    ws_effect(&end, OP_T_yield, 1, &dot->out[0]);
    return loop;
}

void ws_out_of_loop(Fn *f, Op *loop) {
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
