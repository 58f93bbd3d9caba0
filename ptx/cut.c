// Blocks of very many instructions become several, so that the code generator's time stays in proportion to their number.
//
//     body:  %i = phi ..                 piece:   %i = phi ..
//            1st .. 90000th       =>              1st .. 1024th        br piece1
//            br next                     piece1:  1025th ..            br piece2
//                                        ..
//                                        body:    .. 90000th           br next
//
// LLVM works block by block, and two of its steps take time in the square of a block's length. The scheduler looks through
// a thousand ready instructions for each one that it takes. The register coalescer joins the copy that each operand of
// inline assembly has with the operand's own register, and rewrites all uses of that register each time: an address that
// 7000 loads have in common took 10 s. A constant is made anew in each block. An operand from another block gets a
// register of its own in each piece by a move, which ptxas drops.
//
// Kernels of usual size have no block that long, and stay as they are.
#include "ptx/emit.h"

#include <stdlib.h>
#include <string.h>

enum { LONG = 8192, PIECE = 1024 };      // instructions: of a block that is cut; of a piece
enum { SHARED = 4 };                     // inline assemblies of a piece with one operand: it gets a register of its own

typedef LLVMValueRef Value;

typedef struct Operand { Value v, own; int n; char constraint; } Operand;

typedef struct Cut {
    LLVMContextRef C;
    LLVMBuilderRef B;
    Operand  at[4 * PIECE];              // of a piece, by hash; v NULL: free
    Operand *met[2 * PIECE];             // in the order of their first use: a slot follows from an address
    int      used;
} Cut;

static int instructions(LLVMBasicBlockRef block, int most) {
    int n = 0;
    for (Value v = LLVMGetFirstInstruction(block); v != NULL && n <= most; v = LLVMGetNextInstruction(v)) n++;
    return n;
}

// Whoever went to the block goes to `head`.
static void redirect(LLVMBasicBlockRef block, LLVMBasicBlockRef head) {
    Value name = LLVMBasicBlockAsValue(block);
    for (LLVMUseRef u; (u = LLVMGetFirstUse(name)) != NULL;) {
        Value term = LLVMGetUser(u);
        for (unsigned k = 0; k < LLVMGetNumSuccessors(term); k++)
            if (LLVMGetSuccessor(term, k) == block) LLVMSetSuccessor(term, k, head);
    }
}

static void move_to_end(Cut *c, Value v) {
    LLVMInstructionRemoveFromParent(v);
    LLVMInsertIntoBuilder(c->B, v);
}

// All but the last piece stand before the block, which keeps its name, its end and so its place in phis.
static void cut_block(Cut *c, LLVMBasicBlockRef block, int n) {
    LLVMBasicBlockRef piece = LLVMInsertBasicBlockInContext(c->C, block, "piece");
    redirect(block, piece);
    LLVMPositionBuilderAtEnd(c->B, piece);
    int left = n, held = 0;
    for (Value v = LLVMGetFirstInstruction(block), next; left > PIECE || LLVMIsAPHINode(v) != NULL; v = next, left--) {
        next = LLVMGetNextInstruction(v);
        if (held >= PIECE && LLVMIsAPHINode(v) == NULL) {
            LLVMBasicBlockRef after = LLVMInsertBasicBlockInContext(c->C, block, "piece");
            LLVMBuildBr(c->B, after);
            LLVMPositionBuilderAtEnd(c->B, after);
            held = 0;
        }
        move_to_end(c, v);
        held++;
    }
    LLVMBuildBr(c->B, block);
}

// ---- operands of inline assembly ------------------------------------------------------------------

static Operand *operand_of(Cut *c, Value v) {
    enum { SLOTS = sizeof c->at / sizeof *c->at };
    uint32_t i = (uint32_t)((uintptr_t)v >> 4) * 2654435761u % SLOTS;
    while (c->at[i].v != NULL && c->at[i].v != v) i = (i + 1) % SLOTS;
    if (c->at[i].v == NULL) {
        if (c->used == sizeof c->met / sizeof *c->met) return NULL;
        c->met[c->used++] = &c->at[i];
        c->at[i].v = v;
    }
    return &c->at[i];
}

// The constraint of an operand that is one letter, as those of registers are; else 0.
static char constraint_of(const char *text, size_t n, int operand) {
    const char *end = text + n;
    for (const char *at = text; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma != NULL ? comma : end;
        if (*at != '=' && *at != '~' && operand-- == 0) return stop - at == 1 ? *at : 0;
        at = stop + 1;
    }
    return 0;
}

static Value assembly_of(Value v) {
    if (LLVMIsACallInst(v) == NULL) return NULL;
    Value callee = LLVMGetCalledValue(v);
    return LLVMIsAInlineAsm(callee) != NULL ? callee : NULL;
}

static bool from_elsewhere(Value v, LLVMBasicBlockRef block) {
    return !LLVMIsConstant(v) && (LLVMIsAInstruction(v) == NULL || LLVMGetInstructionParent(v) != block);
}

static Value moved(Cut *c, const Operand *x) {
    static const struct { char constraint; const char *text; } moves[] = {
        {'r', "mov.b32 $0, $1;"}, {'l', "mov.b64 $0, $1;"}, {'f', "mov.b32 $0, $1;"},
        {'d', "mov.b64 $0, $1;"}, {'h', "mov.b16 $0, $1;"}, {'b', "mov.pred $0, $1;"},
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (moves[i].constraint != x->constraint) continue;
        LLVMTypeRef t = LLVMTypeOf(x->v), ft = LLVMFunctionType(t, &t, 1, 0);
        char how[] = {'=', x->constraint, ',', x->constraint, 0};
        Value f = LLVMGetInlineAsm(ft, moves[i].text, strlen(moves[i].text), how, 4, 0, 0, LLVMInlineAsmDialectATT, 0), v = x->v;
        return LLVMBuildCall2(c->B, ft, f, &v, 1, "");
    }
    return NULL;
}

// The operands of the block's inline assemblies from `from` on: counted, or replaced by the block's own.
static void visit(Cut *c, LLVMBasicBlockRef block, Value from, bool replace) {
    for (Value v = from; v != NULL; v = LLVMGetNextInstruction(v)) {
        Value code = assembly_of(v);
        size_t n;
        const char *how = code != NULL ? LLVMGetInlineAsmConstraintString(code, &n) : NULL;
        for (unsigned i = 0; how != NULL && i < LLVMGetNumArgOperands(v); i++) {
            Value x = LLVMGetOperand(v, i);
            Operand *o = from_elsewhere(x, block) ? operand_of(c, x) : NULL;
            if (o == NULL) continue;
            if (replace && o->own != NULL) LLVMSetOperand(v, i, o->own);
            o->n++;
            o->constraint = constraint_of(how, n, (int)i);
        }
    }
}

static void own_operands(Cut *c, LLVMBasicBlockRef block) {
    memset(c->at, 0, sizeof c->at);
    c->used = 0;
    Value first = LLVMGetFirstInstruction(block);
    while (LLVMIsAPHINode(first) != NULL) first = LLVMGetNextInstruction(first);
    visit(c, block, first, false);
    LLVMPositionBuilderBefore(c->B, first);
    for (int i = 0; i < c->used; i++)
        if (c->met[i]->n >= SHARED) c->met[i]->own = moved(c, c->met[i]);
    visit(c, block, first, true);
}

void ptx_cut(LLVMModuleRef module) {
    Cut *c = NULL;
    for (Value f = LLVMGetFirstFunction(module); f != NULL; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f), next; b != NULL; b = next) {
            next = LLVMGetNextBasicBlock(b);
            int n = instructions(b, LONG);
            if (n <= LONG) continue;
            if (c == NULL) {
                c = heap_alloc(sizeof *c);
                c->C = LLVMGetModuleContext(module);
                c->B = ptx_builder(c->C);
            }
            LLVMBasicBlockRef first = LLVMGetPreviousBasicBlock(b);
            cut_block(c, b, instructions(b, INT32_MAX - 1));
            for (LLVMBasicBlockRef p = first != NULL ? LLVMGetNextBasicBlock(first) : LLVMGetFirstBasicBlock(f); p != next;
                 p = LLVMGetNextBasicBlock(p))
                own_operands(c, p);
        }
    }
    if (c != NULL) ptx_builder_end(c->B);
    heap_free(c);
}
