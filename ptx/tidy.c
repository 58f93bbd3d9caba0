// Equal values computed once, arithmetic that does nothing removed: the middle end.
//
//     %5 = add i32 %x, 0                                        (gone)
//     %6 = mul i32 %5, 48                    %6 = mul i32 %x, 48
//   a:                                     a:
//     %7 = mul i32 %x, 48                                       (%6, which dominates)
//     %8 = add i32 %7, 16                    %8 = add i32 %6, 16
//
// The tile IR has done the thinking, and what is left to do on LLVM IR is what emitting it op by op
// repeats. One walk over the blocks in reverse post-order simplifies each instruction, then looks for an
// equal one in a block that dominates; one walk back removes what nobody uses. LLVM's early-cse does the
// same in three times the time, and pulls in the pass builder with every pass of LLVM: a third of the
// program's size and of its start.
//
// Equal is: same opcode, type, operands, flags. An instruction takes part if it is a function of its
// operands; calls take part if the function (or the call, for inline assembly) is declared to be one:
// memory(none), not convergent.
//
// Last, index arithmetic that many instructions of a block share gets a block of its own before it. LLVM's
// instruction selection works block by block, and for every `x + 4` walks through all that it knows of x's
// bits; a value of another block is a register to it. This halves the time of a matrix product.
//
//     b:  %x = ...  %y = f(%x)  %z = g(%y)              b': %x = ...  %y = f(%x)  %z = g(%y)
//         %p0 = %z + 4  store, p0                =>     b:  %p0 = %z + 4  store, p0
//         %p1 = %z + 8  store, p1 ...                       %p1 = %z + 8  store, p1 ...
#include "ptx/emit.h"

#include <string.h>

typedef LLVMValueRef Value;

typedef struct Block {
    LLVMBasicBlockRef at;
    int idom;                    // index of the immediate dominator
    int in, out;                 // when a walk over the dominator tree enters and leaves it
    int child, sibling;
} Block;

typedef struct Entry { uint64_t hash; Value v; int block; } Entry;

typedef struct Tidy {
    LLVMModuleRef  module;
    LLVMTargetDataRef layout;
    LLVMBuilderRef B;
    Arena   *arena;
    Block   *block;              // in reverse post-order
    int      nblocks, nfunctions;
    struct { void *key; int value; } *map;      // blocks to their places; functions to whether they are pure
    uint32_t map_cap;
    Entry   *table;
    uint32_t cap, used;
    unsigned memory, convergent; // attribute kinds
} Tidy;

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}
static uint64_t mix_ptr(uint64_t h, const void *p) { return mix(h, (uint64_t)(uintptr_t)p); }

// ---- the order of blocks, and who dominates whom -------------------------------------------------

static int *place(Tidy *t, const void *key) {
    uint32_t i = (uint32_t)mix_ptr(0, key) & (t->map_cap - 1);
    while (t->map[i].key != NULL && t->map[i].key != key) i = (i + 1) & (t->map_cap - 1);
    if (t->map[i].key == NULL) {
        t->map[i].key = (void *)key;
        t->map[i].value = -1;
    }
    return &t->map[i].value;
}

static void order(Tidy *t, Value fn) {
    typedef struct Frame { LLVMBasicBlockRef b; Value term; unsigned next; } Frame;
    int n = (int)LLVMCountBasicBlocks(fn), at = n, depth = 0;
    for (t->map_cap = 64; t->map_cap < (uint32_t)(n + t->nfunctions) * 2; t->map_cap *= 2) {}
    t->map = arena_alloc(t->arena, t->map_cap * sizeof *t->map);
    Block *block = NEW_N(t->arena, Block, n);
    Frame *stack = NEW_N(t->arena, Frame, n);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(fn);
    stack[depth++] = (Frame){entry, LLVMGetBasicBlockTerminator(entry), 0};
    *place(t, entry) = 0;
    while (depth > 0) {
        Frame *f = &stack[depth - 1];
        if (f->term != NULL && f->next < LLVMGetNumSuccessors(f->term)) {
            LLVMBasicBlockRef s = LLVMGetSuccessor(f->term, f->next++);
            int *seen = place(t, s);
            if (*seen >= 0) continue;
            *seen = 0;
            stack[depth++] = (Frame){s, LLVMGetBasicBlockTerminator(s), 0};
        } else {
            block[--at].at = f->b;
            depth--;
        }
    }
    t->block = block + at;
    t->nblocks = n - at;
    for (int i = 0; i < t->nblocks; i++) *place(t, t->block[i].at) = i;
}

// Cooper, Harvey, Kennedy: two steps up to a common ancestor, until nothing changes.
static void dominators(Tidy *t) {
    for (int i = 0; i < t->nblocks; i++) t->block[i].idom = -1;
    t->block[0].idom = 0;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < t->nblocks; i++) {
            if (t->block[i].idom < 0) continue;
            Value term = LLVMGetBasicBlockTerminator(t->block[i].at);
            unsigned n = term != NULL ? LLVMGetNumSuccessors(term) : 0;
            for (unsigned k = 0; k < n; k++) {
                int s = *place(t, LLVMGetSuccessor(term, k)), a = i, b = t->block[s].idom;
                if (s == 0) continue;
                if (b >= 0)
                    while (a != b) {
                        while (a > b) a = t->block[a].idom;
                        while (b > a) b = t->block[b].idom;
                    }
                if (t->block[s].idom == a) continue;
                t->block[s].idom = a;
                again = true;
            }
        }
    }
    for (int i = 0; i < t->nblocks; i++) t->block[i].child = t->block[i].sibling = -1;
    for (int i = t->nblocks - 1; i > 0; i--) {
        Block *up = &t->block[t->block[i].idom];
        t->block[i].sibling = up->child;
        up->child = i;
    }
    for (int i = 0, clock = 0; i >= 0;) {                    // down by children, over by siblings, up by idom
        t->block[i].in = clock++;
        if (t->block[i].child >= 0) { i = t->block[i].child; continue; }
        for (;;) {
            t->block[i].out = clock++;
            if (i == 0) { i = -1; break; }
            if (t->block[i].sibling >= 0) { i = t->block[i].sibling; break; }
            i = t->block[i].idom;
        }
    }
}

static bool dominates(const Tidy *t, int a, int b) {
    return t->block[a].in <= t->block[b].in && t->block[b].out <= t->block[a].out;
}

// ---- what takes part -----------------------------------------------------------------------------

static bool reads_nothing(LLVMAttributeRef memory, LLVMAttributeRef convergent) {
    return memory != NULL && LLVMGetEnumAttributeValue(memory) == 0 && convergent == NULL;
}

static bool declared_pure(Tidy *t, Value call) {
    LLVMAttributeIndex at = LLVMAttributeFunctionIndex;
    Value f = LLVMGetCalledValue(call);
    if (LLVMIsAInlineAsm(f) != NULL)
        return !LLVMGetInlineAsmHasSideEffects(f) && reads_nothing(LLVMGetCallSiteEnumAttribute(call, at, t->memory),
                                                                   LLVMGetCallSiteEnumAttribute(call, at, t->convergent));
    if (LLVMIsAFunction(f) == NULL) return false;
    int *known = place(t, f);
    if (*known < 0)
        *known = LLVMGetIntrinsicID(f) != 0 && reads_nothing(LLVMGetEnumAttributeAtIndex(f, at, t->memory),
                                                             LLVMGetEnumAttributeAtIndex(f, at, t->convergent));
    return *known;
}

static bool pure(Tidy *t, Value v, LLVMOpcode op) {
    switch (op) {
    case LLVMAdd: case LLVMSub: case LLVMMul: case LLVMUDiv: case LLVMSDiv: case LLVMURem: case LLVMSRem:
    case LLVMShl: case LLVMLShr: case LLVMAShr: case LLVMAnd: case LLVMOr: case LLVMXor:
    case LLVMFAdd: case LLVMFSub: case LLVMFMul: case LLVMFDiv: case LLVMFRem: case LLVMFNeg:
    case LLVMTrunc: case LLVMZExt: case LLVMSExt: case LLVMFPToUI: case LLVMFPToSI: case LLVMUIToFP: case LLVMSIToFP:
    case LLVMFPTrunc: case LLVMFPExt: case LLVMPtrToInt: case LLVMIntToPtr: case LLVMBitCast: case LLVMAddrSpaceCast:
    case LLVMICmp: case LLVMFCmp: case LLVMSelect: case LLVMGetElementPtr:
    case LLVMExtractElement: case LLVMInsertElement: case LLVMShuffleVector: case LLVMExtractValue: case LLVMInsertValue:
        return true;
    case LLVMCall:
        return declared_pure(t, v);
    default:
        return false;
    }
}

// What an instruction is beside its opcode, type and operands.
static uint64_t details(Value v, LLVMOpcode op) {
    uint64_t h = 0;
    switch (op) {
    case LLVMAdd: case LLVMSub: case LLVMMul: case LLVMShl:
        return (uint64_t)LLVMGetNUW(v) << 1 | (uint64_t)LLVMGetNSW(v);
    case LLVMUDiv: case LLVMSDiv: case LLVMLShr: case LLVMAShr:
        return (uint64_t)LLVMGetExact(v);
    case LLVMOr:   return (uint64_t)LLVMGetIsDisjoint(v);
    case LLVMZExt: return (uint64_t)LLVMGetNNeg(v);
    case LLVMICmp: return (uint64_t)LLVMGetICmpPredicate(v) << 1 | (uint64_t)LLVMGetICmpSameSign(v);
    case LLVMFCmp: return (uint64_t)LLVMGetFCmpPredicate(v) << 16 | (uint64_t)LLVMGetFastMathFlags(v);
    case LLVMFAdd: case LLVMFSub: case LLVMFMul: case LLVMFDiv: case LLVMFRem: case LLVMFNeg:
        return (uint64_t)LLVMGetFastMathFlags(v);
    case LLVMSelect: case LLVMCall:
        return LLVMCanValueUseFastMathFlags(v) ? (uint64_t)LLVMGetFastMathFlags(v) : 0;
    case LLVMGetElementPtr:
        return mix_ptr((uint64_t)LLVMGEPGetNoWrapFlags(v), LLVMGetGEPSourceElementType(v));
    case LLVMShuffleVector:
        for (unsigned i = 0; i < LLVMGetNumMaskElements(v); i++) h = mix(h, (uint64_t)(int64_t)LLVMGetMaskValue(v, i));
        return h;
    case LLVMExtractValue: case LLVMInsertValue:
        for (unsigned i = 0; i < LLVMGetNumIndices(v); i++) h = mix(h, LLVMGetIndices(v)[i]);
        return h;
    default:
        return 0;
    }
}

static uint64_t hash_of(Value v, LLVMOpcode op) {
    uint64_t h = mix_ptr(mix((uint64_t)op, details(v, op)), LLVMTypeOf(v));
    int n = LLVMGetNumOperands(v);
    for (int i = 0; i < n; i++) h = mix_ptr(h, LLVMGetOperand(v, (unsigned)i));
    return h;
}

static bool equal(Value a, Value b, LLVMOpcode op) {
    int n = LLVMGetNumOperands(a);
    if (LLVMGetInstructionOpcode(b) != op || LLVMGetNumOperands(b) != n || LLVMTypeOf(a) != LLVMTypeOf(b)) return false;
    for (int i = 0; i < n; i++)
        if (LLVMGetOperand(a, (unsigned)i) != LLVMGetOperand(b, (unsigned)i)) return false;
    return details(a, op) == details(b, op);
}

static void grow(Tidy *t) {
    Entry *old = t->table;
    uint32_t n = t->cap;
    t->cap = n > 0 ? n * 2 : 1024;
    t->table = NEW_N(t->arena, Entry, t->cap);
    for (uint32_t i = 0; i < n; i++) {
        if (old[i].v == NULL) continue;
        uint32_t k = (uint32_t)old[i].hash & (t->cap - 1);
        while (t->table[k].v != NULL) k = (k + 1) & (t->cap - 1);
        t->table[k] = old[i];
    }
}

// The equal of v in a block that dominates, or NULL; then v itself is remembered.
static Value equal_before(Tidy *t, Value v, LLVMOpcode op, int block) {
    if (t->used * 2 >= t->cap) grow(t);
    uint64_t h = hash_of(v, op);
    uint32_t i = (uint32_t)h & (t->cap - 1);
    for (; t->table[i].v != NULL; i = (i + 1) & (t->cap - 1)) {
        Entry *e = &t->table[i];
        if (e->hash == h && dominates(t, e->block, block) && equal(e->v, v, op)) return e->v;
    }
    t->table[i] = (Entry){h, v, block};
    t->used++;
    return NULL;
}

// ---- arithmetic that does nothing ----------------------------------------------------------------

// All ones is -1 at any width.
static bool is_number(Value v, int64_t k) {
    return LLVMIsAConstantInt(v) != NULL && LLVMGetIntTypeWidth(LLVMTypeOf(v)) <= 64 && LLVMConstIntGetSExtValue(v) == k;
}

static Value binary(LLVMOpcode op, Value a, Value b) {
    Value zero = LLVMConstNull(LLVMTypeOf(a));
    bool commutes = op == LLVMAdd || op == LLVMMul || op == LLVMAnd || op == LLVMOr || op == LLVMXor;
    if (commutes && LLVMIsAConstantInt(a) != NULL) { Value x = a; a = b; b = x; }
    switch (op) {
    case LLVMAdd: return is_number(b, 0) ? a : NULL;
    case LLVMSub: return is_number(b, 0) ? a : a == b ? zero : NULL;
    case LLVMMul: return is_number(b, 1) ? a : is_number(b, 0) ? zero : NULL;
    case LLVMAnd: return is_number(b, -1) || a == b ? a : is_number(b, 0) ? zero : NULL;
    case LLVMOr:  return is_number(b, 0) || a == b ? a : is_number(b, -1) ? b : NULL;
    case LLVMXor: return is_number(b, 0) ? a : a == b ? zero : NULL;
    case LLVMShl: case LLVMLShr: case LLVMAShr: return is_number(b, 0) || is_number(a, 0) ? a : NULL;
    case LLVMUDiv: case LLVMSDiv: return is_number(b, 1) ? a : NULL;
    case LLVMURem: case LLVMSRem: return is_number(b, 1) ? zero : NULL;
    default: return NULL;
    }
}

// The one value that all edges bring, beside the phi itself: it dominates the blocks they come from, hence this one.
static Value one_value(Value phi) {
    Value v = NULL;
    for (unsigned i = 0, n = LLVMCountIncoming(phi); i < n; i++) {
        Value x = LLVMGetIncomingValue(phi, i);
        if (x == phi || x == v) continue;
        if (v != NULL) return NULL;
        v = x;
    }
    return v;
}

static bool constants(Value v, int n) {
    for (int i = 0; i < n; i++)
        if (!LLVMIsConstant(LLVMGetOperand(v, (unsigned)i))) return false;
    return true;
}

// The builder folds constants; what comes back is then a constant.
static Value folded(Tidy *t, Value v, LLVMOpcode op) {
    Value a = LLVMGetOperand(v, 0), r;
    LLVMPositionBuilderBefore(t->B, v);
    if (LLVMIsACastInst(v) != NULL) r = LLVMBuildCast(t->B, op, a, LLVMTypeOf(v), "");
    else if (op == LLVMICmp) r = LLVMBuildICmp(t->B, LLVMGetICmpPredicate(v), a, LLVMGetOperand(v, 1), "");
    else if (LLVMIsABinaryOperator(v) != NULL) r = LLVMBuildBinOp(t->B, op, a, LLVMGetOperand(v, 1), "");
    else return NULL;
    if (LLVMIsConstant(r)) return r;
    LLVMInstructionEraseFromParent(r);
    return NULL;
}

static Value same_compared(Value v) {
    LLVMIntPredicate p = LLVMGetICmpPredicate(v);
    bool holds = p == LLVMIntEQ || p == LLVMIntUGE || p == LLVMIntULE || p == LLVMIntSGE || p == LLVMIntSLE;
    return holds ? LLVMConstAllOnes(LLVMTypeOf(v)) : LLVMConstNull(LLVMTypeOf(v));
}

static Value simpler(Tidy *t, Value v, LLVMOpcode op) {
    if (op == LLVMPHI) return one_value(v);
    if (op == LLVMCall || op == LLVMGetElementPtr) return NULL;
    int n = LLVMGetNumOperands(v);
    Value a = n > 0 ? LLVMGetOperand(v, 0) : NULL, b = n > 1 ? LLVMGetOperand(v, 1) : NULL;
    if (n > 0 && n < 3 && constants(v, n)) {
        Value r = folded(t, v, op);
        if (r != NULL) return r;
    }
    if (op == LLVMSelect) {
        Value c = LLVMGetOperand(v, 2);
        return b == c || is_number(a, -1) ? b : is_number(a, 0) ? c : NULL;
    }
    if (op == LLVMICmp && a == b) return same_compared(v);
    bool widened = op == LLVMTrunc && (LLVMIsAZExtInst(a) != NULL || LLVMIsASExtInst(a) != NULL);
    if (widened || (op == LLVMBitCast && LLVMIsABitCastInst(a) != NULL)) {
        Value inner = LLVMGetOperand(a, 0);
        return LLVMTypeOf(inner) == LLVMTypeOf(v) ? inner : NULL;
    }
    return n == 2 && LLVMIsABinaryOperator(v) != NULL ? binary(op, a, b) : NULL;
}

static bool as_wide(const Tidy *t, LLVMTypeRef number, LLVMTypeRef pointer) {
    return LLVMGetTypeKind(number) == LLVMIntegerTypeKind && LLVMGetTypeKind(pointer) == LLVMPointerTypeKind &&
           LLVMSizeOfTypeInBits(t->layout, pointer) == LLVMGetIntTypeWidth(number);
}

// p + (x + 4) as (p + x) + 4: neighbours have p + x in common, and the number becomes part of their instructions.
static Value constant_last(Tidy *t, Value v, int block) {
    if (LLVMGetNumOperands(v) != 2) return NULL;
    Value at = LLVMGetOperand(v, 1), p = LLVMGetOperand(v, 0);
    if (LLVMIsAInstruction(at) == NULL || LLVMGetInstructionOpcode(at) != LLVMAdd) return NULL;
    Value k = LLVMGetOperand(at, 1), x = LLVMGetOperand(at, 0);
    if (LLVMIsAConstantInt(k) == NULL) { k = x; x = LLVMGetOperand(at, 1); }
    if (LLVMIsAConstantInt(k) == NULL || !as_wide(t, LLVMTypeOf(at), LLVMTypeOf(v))) return NULL;
    LLVMTypeRef element = LLVMGetGEPSourceElementType(v);
    LLVMPositionBuilderBefore(t->B, v);
    Value base = LLVMBuildGEP2(t->B, element, p, &x, 1, ""), known = NULL;
    if (LLVMIsAInstruction(base) != NULL) known = equal_before(t, base, LLVMGetElementPtr, block);
    if (known != NULL) {
        LLVMInstructionEraseFromParent(base);
        base = known;
    }
    return LLVMBuildGEP2(t->B, element, base, &k, 1, "");
}

// ---- the walks -----------------------------------------------------------------------------------

static void replace(Value v, Value by) {
    LLVMReplaceAllUsesWith(v, by);
    LLVMInstructionEraseFromParent(v);
}

static void forward(Tidy *t, int block) {
    for (Value v = LLVMGetFirstInstruction(t->block[block].at), next; v != NULL; v = next) {
        next = LLVMGetNextInstruction(v);
        LLVMOpcode op = LLVMGetInstructionOpcode(v);
        if (op != LLVMPHI && !pure(t, v, op)) continue;
        Value by = op == LLVMGetElementPtr ? constant_last(t, v, block) : simpler(t, v, op);
        if (by != NULL && op == LLVMGetElementPtr) {
            replace(v, by);
            v = by;
            by = NULL;
        }
        if (by == NULL && op != LLVMPHI) by = equal_before(t, v, op, block);
        if (by != NULL) replace(v, by);
    }
}

static void backward(Tidy *t, int block) {
    for (Value v = LLVMGetLastInstruction(t->block[block].at), before; v != NULL; v = before) {
        before = LLVMGetPreviousInstruction(v);
        if (LLVMGetFirstUse(v) != NULL) continue;
        LLVMOpcode op = LLVMGetInstructionOpcode(v);
        bool plain_load = op == LLVMLoad && !LLVMGetVolatile(v) && LLVMGetOrdering(v) == LLVMAtomicOrderingNotAtomic;
        if (op == LLVMPHI || plain_load || pure(t, v, op)) LLVMInstructionEraseFromParent(v);
    }
}

// ---- index arithmetic apart ----------------------------------------------------------------------

enum { MANY_USES = 8 };

static bool many_uses(Value v) {
    int n = 0;
    for (LLVMUseRef u = LLVMGetFirstUse(v); u != NULL && n < MANY_USES; u = LLVMGetNextUse(u)) n++;
    return n == MANY_USES;
}

static bool index_arithmetic(Tidy *t, Value v, LLVMOpcode op) {
    switch (op) {
    case LLVMAdd: case LLVMSub: case LLVMMul: case LLVMUDiv: case LLVMURem: case LLVMSDiv: case LLVMSRem:
    case LLVMShl: case LLVMLShr: case LLVMAShr: case LLVMAnd: case LLVMOr: case LLVMXor: case LLVMICmp:
    case LLVMSelect: case LLVMTrunc: case LLVMZExt: case LLVMSExt:
    case LLVMGetElementPtr: case LLVMAddrSpaceCast: case LLVMPtrToInt: case LLVMIntToPtr: {
        LLVMTypeKind k = LLVMGetTypeKind(LLVMTypeOf(v));
        return k == LLVMIntegerTypeKind || k == LLVMPointerTypeKind;
    }
    case LLVMCall:
        return LLVMGetNumOperands(v) == 1 && declared_pure(t, v);             // a special register
    default:
        return false;
    }
}

static bool plus_constant(Value v, LLVMOpcode op) {
    bool plus = op == LLVMAdd || op == LLVMSub || op == LLVMGetElementPtr;
    return plus && LLVMGetNumOperands(v) == 2 && LLVMIsAConstantInt(LLVMGetOperand(v, 1)) != NULL;
}

typedef struct Node { Value v; LLVMOpcode op; int depth; bool apart; } Node;      // a phi, or index arithmetic on such

typedef struct Nodes { Node *at; int n; int *slot; uint32_t cap; } Nodes;

static Node *node_of(const Nodes *all, Value v) {
    uint32_t i = (uint32_t)mix_ptr(0, v) & (all->cap - 1);
    for (; all->slot[i] > 0; i = (i + 1) & (all->cap - 1))
        if (all->at[all->slot[i] - 1].v == v) return &all->at[all->slot[i] - 1];
    return NULL;
}

static void node_add(Nodes *all, Value v, LLVMOpcode op, int depth) {
    uint32_t i = (uint32_t)mix_ptr(0, v) & (all->cap - 1);
    while (all->slot[i] > 0) i = (i + 1) & (all->cap - 1);
    all->at[all->n++] = (Node){v, op, depth, op == LLVMPHI};
    all->slot[i] = all->n;
}

// How deep the arithmetic above v is within its block; 0: no index arithmetic, or on something that is none.
static int depth_of(Tidy *t, const Nodes *all, Value v, LLVMOpcode op, LLVMBasicBlockRef block) {
    if (!index_arithmetic(t, v, op)) return 0;
    int depth = 1, n = LLVMGetNumOperands(v);
    for (int i = 0; i < n; i++) {
        Value x = LLVMGetOperand(v, (unsigned)i);
        if (LLVMIsAInstruction(x) == NULL || LLVMGetInstructionParent(x) != block) continue;
        const Node *above = node_of(all, x);
        if (above == NULL) return 0;
        if (above->depth >= depth) depth = above->depth + 1;
    }
    return depth;
}

// Marks what is shared and all above it; whether there is any.
static bool choose(Nodes *all) {
    bool any = false;
    for (int i = all->n - 1; i >= 0; i--) {
        Node *x = &all->at[i];
        if (!x->apart && x->depth > 1 && x->op != LLVMICmp && !plus_constant(x->v, x->op) && many_uses(x->v)) {
            x->apart = any = true;
        }
        if (!x->apart || x->op == LLVMPHI) continue;
        int n = LLVMGetNumOperands(x->v);
        for (int k = 0; k < n; k++) {
            Node *above = node_of(all, LLVMGetOperand(x->v, (unsigned)k));
            if (above != NULL) above->apart = true;
        }
    }
    return any;
}

static void split(Tidy *t, const Nodes *all, LLVMBasicBlockRef block) {
    LLVMBasicBlockRef head = LLVMInsertBasicBlockInContext(LLVMGetModuleContext(t->module), block, "index");
    Value name = LLVMBasicBlockAsValue(block), term;
    VEC(Value) from = {0};
    for (LLVMUseRef u = LLVMGetFirstUse(name); u != NULL; u = LLVMGetNextUse(u)) vec_push(t->arena, &from, LLVMGetUser(u));
    for (uint32_t i = 0; i < from.n; i++) {
        term = from.at[i];
        for (unsigned k = 0; k < LLVMGetNumSuccessors(term); k++)
            if (LLVMGetSuccessor(term, k) == block) LLVMSetSuccessor(term, k, head);
    }
    LLVMPositionBuilderAtEnd(t->B, head);
    for (int i = 0; i < all->n; i++) {
        if (!all->at[i].apart) continue;
        Value v = all->at[i].v;
        size_t n;
        const char *was = LLVMGetValueName2(v, &n);          // the builder would take it away
        was = n > 0 ? arena_printf(t->arena, "%.*s", (int)n, was) : "";
        LLVMInstructionRemoveFromParent(v);
        LLVMInsertIntoBuilderWithName(t->B, v, was);
    }
    LLVMBuildBr(t->B, block);
}

static void index_apart(Tidy *t, LLVMBasicBlockRef block) {
    int n = 0;
    for (Value v = LLVMGetFirstInstruction(block); v != NULL; v = LLVMGetNextInstruction(v)) n++;
    if (n < 2 * MANY_USES) return;
    ArenaMark mark = arena_mark(t->arena);
    Nodes all = {.at = NEW_N(t->arena, Node, n)};
    for (all.cap = 64; all.cap < (uint32_t)n * 2; all.cap *= 2) {}
    all.slot = NEW_N(t->arena, int, all.cap);
    for (Value v = LLVMGetFirstInstruction(block); v != NULL; v = LLVMGetNextInstruction(v)) {
        LLVMOpcode op = LLVMGetInstructionOpcode(v);
        int depth = op == LLVMPHI ? 0 : depth_of(t, &all, v, op, block);
        if (op == LLVMPHI || depth > 0) node_add(&all, v, op, depth);
    }
    if (choose(&all)) split(t, &all, block);
    arena_reset(t->arena, mark);
}

void ptx_tidy(LLVMModuleRef module) {
    Tidy t = {.module = module,
              .memory = LLVMGetEnumAttributeKindForName("memory", 6),
              .convergent = LLVMGetEnumAttributeKindForName("convergent", 10)};
    t.arena = arena_new();
    t.layout = LLVMGetModuleDataLayout(module);
    t.B = ptx_builder(LLVMGetModuleContext(module));
    for (Value f = LLVMGetFirstFunction(module); f != NULL; f = LLVMGetNextFunction(f)) t.nfunctions++;
    for (Value f = LLVMGetFirstFunction(module); f != NULL; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f)) continue;
        t.table = NULL;
        t.cap = t.used = 0;
        order(&t, f);
        dominators(&t);
        for (int i = 0; i < t.nblocks; i++) forward(&t, i);
        for (int i = t.nblocks - 1; i >= 0; i--) backward(&t, i);
        for (int i = 0; i < t.nblocks; i++) index_apart(&t, t.block[i].at);
    }
    ptx_builder_end(t.B);
    arena_free(t.arena);
}
