// The grammar. Actions only call the constructors of build.c; recovery is parse.c's work, so no rule
// here is about errors but those with BAD, the token that parse.c feeds in place of what it skipped.
//
// Binding, tightest first. Bits bind tighter than comparison, so that `a & 1 == 0` asks about a & 1;
// comparisons do not chain (make_binary says so).
//
//     postfix    f(x)  f<T>(x)  x[i]  x[i] else v  x.name  launch with (...)
//     unary      - ! ~
//     cast       e as T
//     *  /  %
//     +  -
//     << >>
//     &
//     ^
//     |
//     == != < <= > >=
//     &&
//     ||
//     c ? a : b                    to the right
//     |a, b| expr                  as far as it can reach; a range `lo .. hi by step` is no expression
//
// Words in %fallback are keywords only where the rules below name them, and names elsewhere. `<` and
// `>` around generics arrive as LGEN and RGEN (prepare.c); a `|` arrives as LBAR wherever it may open a
// domain (it falls back to BAR, the operator) and as RBAR where it closes one (parse.c).

%name TkParse
%token_prefix T_
%token_type {Token}
%default_type {Node *}
%extra_argument {Parser *p}
%stack_size 0

%include {
#define YYNOERRORRECOVERY 1
#include "parser/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define malloc  heap_room            // of the parser's stack, which grows
#define realloc heap_resize
#define free    heap_free
}

%token NAME INT FLOAT STRING TRUE FALSE.
%token IMPORT KERNEL FN TEST TUNE GRAPH WEIGHTS.
%token LET VAR FOR WHILE IF BREAK CONTINUE RETURN EXPECT.
%token ELSE IN BY AS OVER WITH WHERE GRID MERGE OR KEY WITHIN REL ABS OUT INOUT STRIDED.
%token LPAREN RPAREN LBRACKET RBRACKET LBRACE RBRACE LGEN RGEN LBAR RBAR.
%token COMMA SEMI COLON DOT DOTDOT ARROW QUESTION.
%token ASSIGN ADD_EQ SUB_EQ MUL_EQ DIV_EQ REM_EQ AND_EQ OR_EQ XOR_EQ SHL_EQ SHR_EQ.
%token LOR LAND EQ NE LT LE GT GE BAR CARET AMP SHL SHR PLUS MINUS STAR SLASH PERCENT BANG TILDE.
%token BAD.

%fallback NAME KERNEL TEST TUNE GRAPH WEIGHTS VAR BY OVER WITH WHERE GRID MERGE OR KEY WITHIN REL ABS OUT INOUT STRIDED.
%fallback BAR LBAR.

%left LOR.
%left LAND.
%left EQ NE LT LE GT GE.
%left BAR.
%left CARET.
%left AMP.
%left SHL SHR.
%left PLUS MINUS.
%left STAR SLASH PERCENT.

%type items    {Nodes}
%type params   {Nodes}
%type paramlist {Nodes}
%type genericlist {Nodes}
%type equations {Nodes}
%type clauses  {Nodes}
%type clauselist {Nodes}
%type types    {Nodes}
%type dims     {Nodes}
%type dimlist  {Nodes}
%type stmts    {Nodes}
%type names    {Nodes}
%type letnames {Nodes}
%type results  {Nodes}
%type exprs    {Nodes}
%type exprlist {Nodes}
%type tolerances {Nodes}
%type tuneitems {Nodes}
%type casenames {Nodes}
%type casevalues {Nodes}
%type domain   {Nodes}
%type genargs  {Nodes}
%type genarglist {Nodes}
%type arglist  {Nodes}
%type axes     {Nodes}
%type namedlist {Nodes}
%type args     {ArgList}
%type heads    {Heads}
%type modes    {int}
%type name     {Token}
%type dotted   {Token}
%type assignop {Token}
%type lbar     {Token}

%start_symbol file

///// Items ///////////////////////////////////////////////////////////////////////////////////////

file ::= items(L).                                  { p->root = make_list(p, N_file, nodes_span(L), L); }

items(A) ::= .                                      { A = (Nodes){0}; }
items(A) ::= items(A) item(B).                      { if (B) push(p, &A, B); }

item(A) ::= IMPORT(B) STRING(C) SEMI(D).            { A = make_string(p, N_import, span_join(B.span, D.span), C, 0); }
item(A) ::= KERNEL(B) name(C) generics(D) LPAREN params(E) RPAREN heads(F) block(G).
                                                    { A = make_kernel(p, B, C, D, make_list(p, N_list, nodes_span(E), E), F, make_body(p, G)); }
item(A) ::= FN(B) name(C) generics(D) LPAREN params(E) RPAREN result(F) block(G).
                                                    { A = make_fn(p, B, C, D, make_list(p, N_list, nodes_span(E), E), F, make_body(p, G), G->span); }
item(A) ::= FN(B) name(C) generics(D) LPAREN params(E) RPAREN result(F) ASSIGN exprs(G) SEMI(H).
                                                    { A = make_fn(p, B, C, D, make_list(p, N_list, nodes_span(E), E), F, make_values(p, G), H.span); }
item(A) ::= GRAPH(B) name(C) generics(D) LPAREN params(E) RPAREN results(F) heads(G) block(H).
                                                    { A = make_graph(p, B, C, D, E, F, G, make_body(p, H)); }
item(A) ::= TEST(B) STRING(C) cases(D) block(E).    { A = make_test(p, B, C, D, make_body(p, E)); }
item(A) ::= TUNE(B) name(C) LBRACE tuneitems(D) RBRACE(E).
                                                    { A = make_list(p, N_tune, span_join(B.span, E.span), D); A->sym = token_sym(p, C); A->name_span = C.span; }
item(A) ::= BAD(B).                                 { A = make_lost(p, B); }

name(A) ::= NAME(B).                                { A = B; }

///// Generics and parameters //////////////////////////////////////////////////////////////////////

generics(A) ::= .                                   { A = NULL; }
generics(A) ::= LGEN(B) genericlist(C) RGEN(D).     { A = make_list(p, N_list, span_join(B.span, D.span), C); }
generics(A) ::= LGEN(B) genericlist(C) COMMA RGEN(D). { A = make_list(p, N_list, span_join(B.span, D.span), C); }

genericlist(A) ::= generic(B).                      { A = (Nodes){0}; push(p, &A, B); }
genericlist(A) ::= genericlist(A) COMMA generic(B). { push(p, &A, B); }

generic(A) ::= name(B) constraint(C).               { A = make_named(p, N_generic, B.span, B, 3, C, NULL, NULL); }
generic(A) ::= name(B) constraint(C) ASSIGN expr(D). { A = make_named(p, N_generic, B.span, B, 3, C, D, NULL); }
generic(A) ::= name(B) constraint(C) ASSIGN expr(D) OR expr(E).
                                                    { A = make_named(p, N_generic, B.span, B, 3, C, D, E); }
constraint(A) ::= .                                 { A = NULL; }
constraint(A) ::= COLON typename(B).                { A = B; }

params(A) ::= .                                     { A = (Nodes){0}; }
params(A) ::= paramlist(B).                         { A = B; }
params(A) ::= paramlist(B) COMMA.                   { A = B; }
paramlist(A) ::= param(B).                          { A = (Nodes){0}; push(p, &A, B); }
paramlist(A) ::= paramlist(A) COMMA param(B).       { push(p, &A, B); }

param(A) ::= name(B).                               { A = make_param(p, B, 0, NULL); }
param(A) ::= name(B) COLON modes(C) type(D).        { A = make_param(p, B, C, D); }

modes(A) ::= .                                      { A = 0; }
modes(A) ::= modes(B) OUT(C).                       { A = add_mode(p, B, PARAM_OUT, C); }
modes(A) ::= modes(B) INOUT(C).                     { A = add_mode(p, B, PARAM_INOUT, C); }
modes(A) ::= modes(B) STRIDED(C).                   { A = add_mode(p, B, PARAM_STRIDED, C); }

results(A) ::= .                                    { A = (Nodes){0}; }
results(A) ::= ARROW LPAREN params(B) RPAREN.       { A = B; }

result(A) ::= .                                     { A = NULL; }
result(A) ::= ARROW type(B).                        { A = B; }

///// Kernel heads ////////////////////////////////////////////////////////////////////////////////

heads(A) ::= .                                      { A = (Heads){0}; }
heads(A) ::= heads(A) WHERE(B) equations(C).        { add_head(p, &A, make_list(p, N_list, span_join(B.span, nodes_span(C)), C), NULL); }
heads(A) ::= heads(A) GRID(B) LPAREN clauses(C) RPAREN(D).
                                                    { add_head(p, &A, NULL, make_list(p, N_list, span_join(B.span, D.span), C)); }

equations(A) ::= equation(B).                       { A = (Nodes){0}; push(p, &A, B); }
equations(A) ::= equations(A) COMMA equation(B).    { push(p, &A, B); }
equation(A) ::= expr(B).                            { A = B; }
equation(A) ::= expr(B) ASSIGN(C) expr(D).          { A = make_binary(p, B, C, D); }

clauses(A) ::= .                                    { A = (Nodes){0}; }
clauses(A) ::= clauselist(B).                       { A = B; }
clauses(A) ::= clauselist(B) COMMA.                 { A = B; }
clauselist(A) ::= clause(B).                        { A = (Nodes){0}; push(p, &A, B); }
clauselist(A) ::= clauselist(A) COMMA clause(B).    { push(p, &A, B); }
clause(A) ::= name(B) IN range(C).                  { A = make_named(p, N_clause, B.span, B, 1, C); }

range(A) ::= expr(B).                               { A = B; }
range(A) ::= expr(B) BY expr(C).                    { A = make_range(p, NULL, B, C); }
range(A) ::= expr(B) DOTDOT expr(C).                { A = make_range(p, B, C, NULL); }
range(A) ::= expr(B) DOTDOT expr(C) BY expr(D).     { A = make_range(p, B, C, D); }

///// Types ///////////////////////////////////////////////////////////////////////////////////////

typename(A) ::= name(B).                            { A = make_named(p, N_type_name, B.span, B, 0); }
typename(A) ::= FN(B).                              { A = make_named(p, N_type_name, B.span, B, 0); }

type(A) ::= typename(B).                            { A = B; }
type(A) ::= typename(B) LBRACKET dims(C) RBRACKET(D).
                                                    { Nodes all = {0}; push(p, &all, B);
                                                      for (uint32_t i = 0; i < C.n; i++) push(p, &all, C.at[i]);
                                                      A = make_list(p, N_type_tensor, span_join(B->span, D.span), all); }
type(A) ::= STAR(B) type(C).                        { A = make(p, N_type_ptr, span_join(B.span, C->span), 1, C); }
type(A) ::= LPAREN(B) types(C) RPAREN(D).           { A = make_list(p, N_type_tuple, span_join(B.span, D.span), C); }
type(A) ::= LPAREN(B) types(C) COMMA RPAREN(D).     { A = make_list(p, N_type_tuple, span_join(B.span, D.span), C); }
types(A) ::= type(B).                               { A = (Nodes){0}; push(p, &A, B); }
types(A) ::= types(A) COMMA type(B).                { push(p, &A, B); }

dims(A) ::= .                                       { A = (Nodes){0}; }
dims(A) ::= dimlist(B).                             { A = B; }
dims(A) ::= dimlist(B) COMMA.                       { A = B; }
dimlist(A) ::= dim(B).                              { A = (Nodes){0}; push(p, &A, B); }
dimlist(A) ::= dimlist(A) COMMA dim(B).             { push(p, &A, B); }
dim(A) ::= expr(B).                                 { A = B; }
dim(A) ::= COLON(B).                                { A = make(p, N_colon, B.span, 0); }

scalartype(A) ::= name(B).                          { A = make_named(p, N_type_name, B.span, B, 0); }
scalartype(A) ::= STAR(B) scalartype(C).            { A = make(p, N_type_ptr, span_join(B.span, C->span), 1, C); }

///// Tests and tuning ////////////////////////////////////////////////////////////////////////////

cases(A) ::= .                                      { A = NULL; }
cases(A) ::= FOR(B) casenames(C) IN LBRACKET casevalues(D) RBRACKET(E).
                                                    { A = make_cases(p, B, C, D, E); }
casevalues(A) ::= .                                 { A = (Nodes){0}; }
casevalues(A) ::= exprlist(B).                      { A = B; }
casenames(A) ::= name(B).                           { A = (Nodes){0}; push(p, &A, make_named(p, N_name, B.span, B, 0)); }
casenames(A) ::= LPAREN names(B) RPAREN.            { A = B; }

tuneitems(A) ::= .                                  { A = (Nodes){0}; }
tuneitems(A) ::= tuneitems(A) tuneitem(B).          { push(p, &A, B); }
tuneitem(A) ::= dotted(B) IN tunevalues(C) SEMI(D). { A = make_named(p, N_tune_choice, span_join(B.span, D.span), B, 1, C); }
tuneitem(A) ::= WHERE(B) expr(C) SEMI(D).           { A = make(p, N_where, span_join(B.span, D.span), 1, C); }
tuneitem(A) ::= KEY(B) names(C) SEMI(D).            { A = make_list(p, N_tune_key, span_join(B.span, D.span), C); }
tuneitem(A) ::= BAD(B).                             { A = make(p, N_error_stmt, B.span, 0); }

tunevalues(A) ::= LBRACKET(B) exprlist(C) RBRACKET(D). { A = make_list(p, N_list, span_join(B.span, D.span), C); }
tunevalues(A) ::= expr(B) DOTDOT expr(C).           { A = make_range(p, B, C, NULL); }
tunevalues(A) ::= expr(B) DOTDOT expr(C) BY expr(D). { A = make_range(p, B, C, D); }

dotted(A) ::= name(B).                              { A = B; }
dotted(A) ::= dotted(B) DOT name(C).                { A = B; A.span = span_join(B.span, C.span); }

///// Statements //////////////////////////////////////////////////////////////////////////////////

block(A) ::= LBRACE(B) stmts(C) RBRACE(D).          { A = make_block(p, B, C, NULL, D); }
block(A) ::= LBRACE(B) stmts(C) expr(D) RBRACE(E).  { A = make_block(p, B, C, D, E); }

stmts(A) ::= .                                      { A = (Nodes){0}; }
stmts(A) ::= stmts(A) stmt(B).                      { if (B) push(p, &A, B); }

stmt(A) ::= LET(B) letnames(C) ASSIGN range(D) SEMI(E). { A = make_let(p, N_let, B, C, D, E); }
stmt(A) ::= LET(B) letnames(C) ASSIGN several(D) SEMI(E). { A = make_let(p, N_let, B, C, D, E); }
stmt(A) ::= VAR(B) letnames(C) ASSIGN value(D) SEMI(E). { A = make_let(p, N_var, B, C, D, E); }
stmt(A) ::= exprs(B) assignop(C) value(D) SEMI(E).  { A = make_assign(p, B, C, D, E); }
stmt(A) ::= expr(B) SEMI(C).                        { A = make_effect(p, B, C); }
stmt(A) ::= for(B).                                 { A = B; }
stmt(A) ::= NAME(B) COLON for(C).                   { A = C; A->sym = token_sym(p, B); A->name_span = B.span; A->span.lo = B.span.lo; }
stmt(A) ::= while(B).                               { A = B; }
stmt(A) ::= NAME(B) COLON while(C).                 { A = C; A->sym = token_sym(p, B); A->name_span = B.span; A->span.lo = B.span.lo; }
stmt(A) ::= if(B).                                  { A = B; }
stmt(A) ::= BREAK(B) SEMI(C).                       { A = make(p, N_break, span_join(B.span, C.span), 0); }
stmt(A) ::= CONTINUE(B) SEMI(C).                    { A = make(p, N_continue, span_join(B.span, C.span), 0); }
stmt(A) ::= BREAK(B) NAME(C) SEMI(D).               { A = make(p, N_break, span_join(B.span, D.span), 0); A->sym = token_sym(p, C); A->name_span = C.span; }
stmt(A) ::= CONTINUE(B) NAME(C) SEMI(D).            { A = make(p, N_continue, span_join(B.span, D.span), 0); A->sym = token_sym(p, C); A->name_span = C.span; }
stmt(A) ::= RETURN(B) SEMI(C).                      { A = make(p, N_return, span_join(B.span, C.span), 0); }
stmt(A) ::= RETURN(B) exprs(C) SEMI(D).             { A = make_list(p, N_return, span_join(B.span, D.span), C); }
stmt(A) ::= EXPECT(B) expr(C) SEMI(D).              { A = make_expect(p, B, C, NULL, (Nodes){0}, D); }
stmt(A) ::= EXPECT(B) expr(C) TILDE expr(D) SEMI(E). { A = make_expect(p, B, C, D, (Nodes){0}, E); }
stmt(A) ::= EXPECT(B) expr(C) TILDE expr(D) WITHIN tolerances(F) SEMI(E).
                                                    { A = make_expect(p, B, C, D, F, E); }
stmt(A) ::= WEIGHTS(B) STRING(C) SEMI(D).           { A = make_string(p, N_weights, span_join(B.span, D.span), C, 0); }
stmt(A) ::= block(B).                               { A = make_body(p, B); }
stmt(A) ::= SEMI.                                   { A = NULL; }
stmt(A) ::= BAD(B).                                 { A = make(p, N_error_stmt, B.span, 0); }

names(A) ::= name(B).                               { A = (Nodes){0}; push(p, &A, make_named(p, N_name, B.span, B, 0)); }
names(A) ::= names(A) COMMA name(B).                { push(p, &A, make_named(p, N_name, B.span, B, 0)); }

letnames(A) ::= letname(B).                         { A = (Nodes){0}; push(p, &A, B); }
letnames(A) ::= letnames(A) COMMA letname(B).       { push(p, &A, B); }
letname(A) ::= name(B).                             { A = make_named(p, N_name, B.span, B, 0); }
letname(A) ::= name(B) COLON type(C).               { A = make_param(p, B, 0, C); }

value(A) ::= expr(B).                               { A = B; }
value(A) ::= several(B).                            { A = B; }
several(A) ::= exprs(B) COMMA expr(C).              { push(p, &B, C); A = make_list(p, N_tuple, nodes_span(B), B); }

assignop(A) ::= ASSIGN|ADD_EQ|SUB_EQ|MUL_EQ|DIV_EQ|REM_EQ|AND_EQ|OR_EQ|XOR_EQ|SHL_EQ|SHR_EQ(B). { A = B; }

while(A) ::= WHILE(B) expr(C) block(D).             { A = make(p, N_while, span_join(B.span, D->span), 2, C, make_body(p, D)); }

for(A) ::= FOR(B) clauselist(C) block(D).           { A = make_for(p, B, C, NULL, make_body(p, D)); }
for(A) ::= FOR(B) clauselist(C) MERGE lambda(D) block(E).
                                                    { A = make_for(p, B, C, D, make_body(p, E)); }

if(A) ::= IF(B) expr(C) block(D).                   { A = make(p, N_if, span_join(B.span, D->span), 3, C, make_body(p, D), NULL); }
if(A) ::= IF(B) expr(C) block(D) ELSE block(E).     { A = make(p, N_if, span_join(B.span, E->span), 3, C, make_body(p, D), make_body(p, E)); }
if(A) ::= IF(B) expr(C) block(D) ELSE if(E).        { A = make(p, N_if, span_join(B.span, E->span), 3, C, make_body(p, D), E); }

tolerances(A) ::= tolerance(B).                     { A = (Nodes){0}; push(p, &A, B); }
tolerances(A) ::= tolerances(A) COMMA tolerance(B). { push(p, &A, B); }
tolerance(A) ::= expr(B).                           { A = B; }
tolerance(A) ::= REL(B) expr(C).                    { A = make_named(p, N_named, span_join(B.span, C->span), B, 1, C); }
tolerance(A) ::= ABS(B) expr(C).                    { A = make_named(p, N_named, span_join(B.span, C->span), B, 1, C); }

///// Expressions /////////////////////////////////////////////////////////////////////////////////

exprs(A) ::= expr(B).                               { A = (Nodes){0}; push(p, &A, B); }
exprs(A) ::= exprs(A) COMMA expr(B).                { push(p, &A, B); }
exprlist(A) ::= exprs(B).                           { A = B; }
exprlist(A) ::= exprs(B) COMMA.                     { A = B; }

expr(A) ::= binary(B).                              { A = B; }
expr(A) ::= binary(B) QUESTION expr(C) COLON expr(D). { A = make(p, N_ternary, span_join(B->span, D->span), 3, B, C, D); }
expr(A) ::= lambda(B).                              { A = B; }

lambda(A) ::= lbar(B) domain(C) RBAR expr(D).       { A = make_lambda(p, B, C, D); }
lambda(A) ::= lbar(B) domain(C) RBAR block(D).      { A = make_lambda(p, B, C, D); }
lbar(A) ::= LBAR(B).                                { A = B; bar_opened(p); }
domain(A) ::= bound(B).                             { A = (Nodes){0}; push(p, &A, B); }
domain(A) ::= domain(A) COMMA bound(B).             { push(p, &A, B); }
bound(A) ::= name(B).                               { A = make_param(p, B, 0, NULL); }
bound(A) ::= clause(B).                             { A = B; }

binary(A) ::= binary(B) LOR(O) binary(C).           { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) LAND(O) binary(C).          { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) EQ|NE|LT|LE|GT|GE(O) binary(C). { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) BAR(O) binary(C).           { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) CARET(O) binary(C).         { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) AMP(O) binary(C).           { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) SHL|SHR(O) binary(C).       { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) PLUS|MINUS(O) binary(C).    { A = make_binary(p, B, O, C); }
binary(A) ::= binary(B) STAR|SLASH|PERCENT(O) binary(C). { A = make_binary(p, B, O, C); }
binary(A) ::= cast(B).                              { A = B; }

cast(A) ::= unary(B).                               { A = B; }
cast(A) ::= cast(B) AS scalartype(C).               { A = make(p, N_cast, span_join(B->span, C->span), 2, B, C); }

unary(A) ::= postfix(B).                            { A = B; }
unary(A) ::= MINUS|BANG|TILDE(O) unary(B).          { A = make_unary(p, O, B); }
unary(A) ::= postfix(B) LBRACKET dims(C) RBRACKET(D) ELSE unary(E).
                                                    { A = make_index(p, B, C, D, E); }

postfix(A) ::= primary(B).                          { A = B; }
postfix(A) ::= postfix(B) LBRACKET dims(C) RBRACKET(D). { A = make_index(p, B, C, D, NULL); }
postfix(A) ::= postfix(B) DOT name(C).              { A = make_named(p, N_field, span_join(B->span, C.span), C, 1, B); }
postfix(A) ::= postfix(B) LPAREN args(C) RPAREN(D). { A = make_call(p, B, NULL, C, D); }
postfix(A) ::= postfix(B) LGEN(G) genargs(C) RGEN(H) LPAREN args(D) RPAREN(E).
                                                    { A = make_call(p, B, make_list(p, N_list, span_join(G.span, H.span), C), D, E); }
postfix(A) ::= postfix(B) WITH LPAREN namedlist(C) RPAREN(D). { A = make_with(p, B, C, D); }
postfix(A) ::= postfix(B) WITH LPAREN namedlist(C) COMMA RPAREN(D). { A = make_with(p, B, C, D); }

primary(A) ::= NAME(B).                             { A = make_named(p, N_name, B.span, B, 0); }
primary(A) ::= INT(B).                              { A = make_int(p, B); }
primary(A) ::= FLOAT(B).                            { A = make_float(p, B); }
primary(A) ::= TRUE|FALSE(B).                       { A = make_bool(p, B); }
primary(A) ::= STRING(B).                           { A = make_string(p, N_string, B.span, B, 0); }
primary(A) ::= COLON(B) name(C).                    { A = make_named(p, N_colon_dim, span_join(B.span, C.span), C, 0); }
primary(A) ::= LPAREN(B) expr(C) RPAREN(D).         { A = make_paren(p, B, C, D); }
primary(A) ::= LPAREN(B) exprs(C) COMMA RPAREN(E).  { A = make_list(p, N_tuple, span_join(B.span, E.span), C); }
primary(A) ::= LPAREN(B) exprs(C) COMMA expr(D) RPAREN(E).
                                                    { push(p, &C, D); A = make_list(p, N_tuple, span_join(B.span, E.span), C); }

genargs(A) ::= genarglist(B).                       { A = B; }
genargs(A) ::= genarglist(B) COMMA.                 { A = B; }
genarglist(A) ::= genarg(B).                        { A = (Nodes){0}; push(p, &A, B); }
genarglist(A) ::= genarglist(A) COMMA genarg(B).    { push(p, &A, B); }
genarg(A) ::= genvalue(B).                          { A = B; }
genarg(A) ::= NAME(B) ASSIGN genvalue(C).           { A = make_named(p, N_named, span_join(B.span, C->span), B, 1, C); }
genvalue(A) ::= expr(B).                            { A = B; }
genvalue(A) ::= STAR(B) scalartype(C).              { A = make(p, N_type_ptr, span_join(B.span, C->span), 1, C); }

args(A) ::= .                                       { A = (ArgList){0}; }
args(A) ::= arglist(B).                             { A = (ArgList){B, NULL}; }
args(A) ::= arglist(B) COMMA.                       { A = (ArgList){B, NULL}; }
args(A) ::= arglist(B) OVER(C) axes(D).             { A = (ArgList){B, NULL}; add_named_after_over(p, &A, D); if (A.over) A.over->span.lo = C.span.lo; }
arglist(A) ::= arg(B).                              { A = (Nodes){0}; push(p, &A, B); }
arglist(A) ::= arglist(A) COMMA arg(B).             { push(p, &A, B); }
arg(A) ::= expr(B).                                 { A = B; }
arg(A) ::= NAME(B) ASSIGN expr(C).                  { A = make_named(p, N_named, span_join(B.span, C->span), B, 1, C); }

axes(A) ::= axis(B).                                { A = (Nodes){0}; push(p, &A, B); }
axes(A) ::= axes(A) COMMA axis(B).                  { push(p, &A, B); }
axis(A) ::= NAME(B).                                { A = make_named(p, N_name, B.span, B, 0); }
axis(A) ::= COLON(B) name(C).                       { A = make_named(p, N_colon_dim, span_join(B.span, C.span), C, 0); }
axis(A) ::= NAME(B) ASSIGN expr(C).                 { A = make_named(p, N_named, span_join(B.span, C->span), B, 1, C); }

namedlist(A) ::= nameditem(B).                      { A = (Nodes){0}; push(p, &A, B); }
namedlist(A) ::= namedlist(A) COMMA nameditem(B).   { push(p, &A, B); }
nameditem(A) ::= dotted(B) ASSIGN expr(C).          { A = make_named(p, N_named, span_join(B.span, C->span), B, 1, C); }

///// What parse.c asks of the tables /////////////////////////////////////////////////////////////

%code {
// Would the parser shift all of these tokens from where it stands? The automaton is run on states
// alone: those on the stack below `base`, and above it those in `made`.
static bool accepts(const void *parser, const int *kinds, int n)
{
    enum { DEEPEST = 64 };               // states made here and not yet reduced: few, whatever the input
    const yyParser *y = parser;
    YYACTIONTYPE made[DEEPEST];
    int made_n = 0;
    const yyStackEntry *base = y->yytos;
    YYACTIONTYPE top = base->stateno;
    for (int i = 0; i < n; i++) {
        for (;;) {
            YYACTIONTYPE act = yy_find_shift_action((YYCODETYPE)kinds[i], top);
            if (act == YY_ERROR_ACTION) return false;
            if (act == YY_ACCEPT_ACTION) return true;
            if (made_n == DEEPEST) return true;
            if (act <= YY_MAX_SHIFTREDUCE) {
                made[made_n++] = top = act > YY_MAX_SHIFT ? (YYACTIONTYPE)(act + YY_MIN_REDUCE - YY_MIN_SHIFTREDUCE) : act;
                break;
            }
            int rule = act - YY_MIN_REDUCE;
            for (int pop = -yyRuleInfoNRhs[rule]; pop > 0; pop--) {
                if (made_n > 0) made_n--;
                else base--;
            }
            YYACTIONTYPE under = made_n > 0 ? made[made_n - 1] : base->stateno;
            made[made_n++] = top = yy_find_reduce_action(under, yyRuleInfoLhs[rule]);
        }
    }
    return true;
}

#ifdef YYCOVERAGE
// The coverage build counts what is read, not what is tried here.
bool grammar_accepts(const void *parser, const int *kinds, int n)
{
    static unsigned char kept[YYNSTATE][YYNTOKEN];
    memcpy(kept, yycoverage, sizeof kept);
    bool yes = accepts(parser, kinds, n);
    memcpy(yycoverage, kept, sizeof kept);
    return yes;
}

// A line for each state of the automaton that nothing read so far has been in, with a token that leads on
// from it. Gives their number; TkParseCoverage does the same for pairs of a state and a token.
int grammar_coverage(FILE *missed, int *states)
{
    int none = 0;
    for (int state = 0; state < YYNSTATE; state++) {
        if (memchr(yycoverage[state], 1, YYNTOKEN)) continue;
        none++;
        for (int k = 0; k < YYNTOKEN; k++) {
            if (yy_lookahead[yy_shift_ofst[state] + k] != k) continue;
            fprintf(missed, "state %d, before %s\n", state, yyTokenName[k]);
            break;
        }
    }
    *states = YYNSTATE;
    return none;
}
#else
bool grammar_accepts(const void *parser, const int *kinds, int n) { return accepts(parser, kinds, n); }
#endif

bool grammar_is_soft(int kind)
{
    return kind < (int)(sizeof yyFallback / sizeof yyFallback[0]) && yyFallback[kind] == T_NAME;
}

// A block that is closed but not yet reduced goes as a whole: without its `}` it would seem open.
bool grammar_drop(void *parser)
{
    yyParser *y = parser;
    bool block = y->yytos->major == T_RBRACE;
    do {
        if (y->yytos <= y->yystack) return false;
        block = block && y->yytos->major != T_LBRACE;
        yy_pop_parser_stack(y);
    } while (block);
    return true;
}
}
