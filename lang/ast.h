// The syntax tree. One node type; what a kind's children are is said in its row, and dump and walk
// read that row. An absent optional child is NULL; a trailing `xs...` takes all children that remain.
//
//     matmul(x, w, m, n) + bias[n]
//     binary +                              op = OP_add
//       call                                kids: callee, generics(list), over(list), args...
//         name matmul
//         list / list / name x, name w, name m, name n
//       index                               kids: base, else, indices...
#ifndef TK_LANG_AST_H
#define TK_LANG_AST_H

#include "lang/lang.h"

// clang-format off
//    kind       children                                     meaning
#define NODES(X) \
    /* items */ \
    X(file,      "items...",                                  "a source file") \
    X(import,    "",                                          "import \"path\": str") \
    X(kernel,    "generics,params,where,grid,body", \
      "kernel name<generics>(params) where ... grid (...) { }: generics, params, where, grid are lists (where: " \
      "list of conditions, `P = H + 2` is a binary ==; grid: list of clause); all but params may be NULL") \
    X(fn,        "generics,params,result,body", \
      "fn name<generics>(params) -> result { }: result is a type, tuple_type or NULL; generics may be NULL; flag " \
      "FN_EXPR: body is an expression") \
    X(graph,     "generics,params,where,grid,body", \
      "graph name<generics>(params) -> (results) where ... { }: laid out as a kernel; results are params with " \
      "PARAM_OUT, grid is NULL") \
    X(test,      "cases,body", \
      "test \"name\" for (A, B) in [(1, 2), ...] { }: str; cases is a test_cases or NULL") \
    X(test_cases,"names,rows", \
      "names: list of name; rows: list of list of expressions, each as long as names") \
    X(tune,      "items...", \
      "tune name { X in [..]; where ..; key ..; }: sym; items are tune_choice, where, tune_key") \
    X(tune_choice,"values", \
      "NAME in [a, b, c] or a .. b: sym, with a dot for a loop's (keys.stages); a list or a range") \
    X(tune_key,  "names...",                                  "key M, N") \
    X(where,     "cond",                                      "where, as an item inside tune") \
    X(list,      "items...",                                  "any sequence") \
    /* parameters */ \
    X(generic,   "constraint,default,fallback", \
      "NAME: constraint = default or fallback; constraint is a type_name (float, int, bool, type, axis, fn ...) " \
      "or NULL") \
    X(param,     "type", \
      "name: type; flags PARAM_OUT, PARAM_INOUT, PARAM_STRIDED; type NULL if not given (always in lambdas)") \
    X(clause,    "range", \
      "name in range (grid, for, view domain): sym; range or expression N meaning 0 .. N") \
    /* types */ \
    X(type_name, "",                                          "f32, T, axis, index, type, fn: sym") \
    X(type_tensor,"elem,dims...", \
      "T[M, K] (parameter) or f32[m, n] (tile), f32[] without dims: a dim is an expression or colon") \
    X(type_ptr,  "elem",                                      "*T") \
    X(type_tuple,"types...",                                  "(A, B)") \
    /* statements */ \
    X(block,     "stmts...", \
      "{ ... }; flag BLOCK_VALUE, only in lambdas: the last kid is an expression, the block's value") \
    X(let,       "value,names...", \
      "let a = value; let a, b: T = value: value may be a range; names are name nodes, or params where a type is " \
      "given") \
    X(var,       "value,names...",                            "var a = value; var a, b: T = value: names as for let") \
    X(assign,    "target,value", \
      "target op= value: op = OP_none for plain =; target is a name, an index, or (plain = only) a list of those") \
    X(for,       "clauses,merge,body", \
      "label: for a in A by B, c in C merge |..| {..} { }: clauses is a list; merge is a lambda or NULL; sym = " \
      "label or NULL") \
    X(while,     "cond,body",                                 "label: while cond { }: sym = label or NULL") \
    X(if,        "cond,then,else",                            "if cond { } else { }: else is a block, an if or NULL") \
    X(break,     "",                                          "break label: sym = label or NULL") \
    X(continue,  "",                                          "continue label: as break") \
    X(return,    "values...",                                 "return a, b") \
    X(expr_stmt, "value",                                     "a call for its effect") \
    X(weights,   "",                                          "weights \"path\", in a graph: str") \
    X(expect,    "left,right,tolerance,abs", \
      "expect left ~ right within rel 1e-5, abs 1e-6: op = OP_approx | OP_eq | ..; sym = rel | abs | NULL says " \
      "what tolerance is; abs: only beside a rel; also expect cond (right NULL, OP_none)") \
    X(error_stmt,"", \
      "what could not be parsed, already reported; among statements and tune items") \
    /* expressions */ \
    X(name,      "",                                          "a name: sym") \
    X(int,       "",                                          "integer literal: ival") \
    X(float,     "",                                          "float literal: fval") \
    X(bool,      "",                                          "true, false: ival") \
    X(string,    "",                                          "string literal: str") \
    X(unary,     "operand",                                   "op: OP_neg OP_not OP_bnot") \
    X(binary,    "left,right",                                "op: arithmetic, comparison, logic, bits") \
    X(ternary,   "cond,then,else",                            "c ? a : b") \
    X(cast,      "operand,type",                              "x as T") \
    X(call,      "callee,generics,over,args...", \
      "f<T, BK = 32>(a, b, name = c over k): generics is a list of expressions/type_ptr/named or NULL, where a " \
      "bare type is a name or index expression; over is a list of name and colon_dim or NULL; callee is any " \
      "expression") \
    X(named,     "value",                                     "name = value, in calls: sym") \
    X(index,     "base,else,indices...", \
      "x[i, :, m + 1] else v: an index is an expression or colon; else may be NULL") \
    X(colon,     "",                                          "`:` as an index") \
    X(colon_dim, "",                                          "`:D`, the axis of a compile-time dimension: sym") \
    X(range,     "lo,hi,by", \
      "lo .. hi by B; lo NULL: 0 (after `in`, or `let n = N by B`); by NULL: none") \
    X(lambda,    "domain,body", \
      "|m in M, k in K| expr, |a, b| { ... }: domain is a list of clause or param; body an expression or a block " \
      "(BLOCK_VALUE or return)") \
    X(field,     "base",                                      "x.top: sym") \
    X(tuple,     "items...",                                  "(a, b)") \
    X(with,      "call,items...", \
      "launch with (warps = 4, keys.stages = 5): items are named, their sym may have a dot")

#define OPS(X) \
    X(none, "")   X(add, "+")   X(sub, "-")   X(mul, "*")   X(div, "/")   X(rem, "%") \
    X(shl, "<<")  X(shr, ">>")  X(and, "&")   X(or, "|")    X(xor, "^") \
    X(eq, "==")   X(ne, "!=")   X(lt, "<")    X(le, "<=")   X(gt, ">")    X(ge, ">=") \
    X(land, "&&") X(lor, "||")  X(neg, "-")   X(not, "!")   X(bnot, "~")  X(approx, "~")
// clang-format on

typedef enum NodeKind {
#define X(kind, kids, meaning) N_##kind,
    NODES(X)
#undef X
    N_COUNT
} NodeKind;

typedef enum AstOp {
#define X(name, spelling) OP_##name,
    OPS(X)
#undef X
    OP_COUNT
} AstOp;

// NODE_PAREN: written in parentheses, which the span includes.
enum { PARAM_OUT = 1, PARAM_INOUT = 2, PARAM_STRIDED = 4, FN_EXPR = 8, NODE_PAREN = 16, BLOCK_VALUE = 32 };

typedef struct Node Node;
struct Node {
    uint8_t  kind;          // NodeKind
    uint8_t  op;            // AstOp
    uint8_t  flags;
    uint16_t depth;         // 1 + the deepest kid's; the parser accepts none above the limit `nesting`, so that walks may recurse
    uint32_t nkid;
    Span     span;          // the whole construct
    Span     name_span;     // of sym, where it has one; of the operator of unary, binary, assign; of str
    Sym      sym;
    union {
        int64_t  ival;      // literals above INT64_MAX wrap (u64)
        double   fval;
        Str      str;
    };
    Node    *kid[];
};

extern const char *const node_names[N_COUNT];
extern const char *const op_spellings[OP_COUNT];

Node *node_new(Session *s, NodeKind kind, Span span, int nkid, ...);      // kids as Node *
Node *node_list(Session *s, NodeKind kind, Span span, Node **kids, int n);
void  ast_print(Session *s, const Node *root, Buf *out);                  // --emit=ast: an indented tree with spans

// ---- parser/parse.c ------------------------------------------------------------------------------

Node *parse_file(Session *s, const Source *src);       // never NULL; errors are in the session
void  tokens_print(Session *s, const Source *src, Buf *out);

#endif
