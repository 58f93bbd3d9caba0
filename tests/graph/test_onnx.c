// The importer: models that become what they should, and models that are wrong, each with its message.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/onnx/onnx.h"
#include "graph/op/op.h"
#include "tests/graph/onnx_text.h"

#include <sys/stat.h>
#include <unistd.h>

static uint8_t *packed(const char *text, size_t *n) {
    Onnx__ModelProto *m = onnx_from_text(text);
    *n = onnx__model_proto__get_packed_size(m);
    uint8_t *bytes = malloc(*n);
    onnx__model_proto__pack(m, bytes);
    onnx__model_proto__free_unpacked(m, NULL);
    return bytes;
}

// The graph as text, or the message.
static char *import_at(const char *path, const char *text, OnnxImport *how) {
    size_t n;
    uint8_t *bytes = packed(text, &n);
    Buf out = {0};
    OnnxModel *m = onnx_parse(path, bytes, n, &out);
    free(bytes);
    Graph *g = m != NULL ? onnx_import(m, how, &out) : NULL;
    if (g != NULL) graph_print(&out, g);
    graph_free(g);
    onnx_free(m);
    return out.p;
}

static char *import(const char *text) { return import_at("m.onnx", text, &(OnnxImport){0}); }

static void holds(const char *text, const char *part) {
    char *got = import(text);
    if (strstr(got, part) == NULL) print_error("model:\n%s\ngot:\n%s\nwhich lacks: %s\n", text, got, part);
    assert_non_null(strstr(got, part));
    heap_free(got);
}

// ---- what becomes of models ----------------------------------------------------------------------------

static void names_and_symbolic_sizes_stay(void **state) {
    (void)state;
    holds("opset 13\ninput x f32 B 4\nRelu x -> y name=\"act\"\noutput y f32 B 4", "f32[B, 4]");
    holds("opset 13\ninput x f32 B 4\nShape x -> s\nGather s k -> b axis=0\nconst k i64 1 : 0\nUnsqueeze b z -> "
          "u\nconst z i64 1 : 0\n"
          "Squeeze u z -> v\nConcat v m -> t axis=0\nconst m i64 1 : -1\nReshape x t -> y\noutput y f32",
          "f32[B, 4]");
}

// Converters add nodes at the end; a body's values come from around it, too.
static void nodes_stand_in_any_order(void **state) {
    (void)state;
    const char *model = "opset 13\ninput x f32 2\ninput c bool\nAdd d e -> y\nMul x b -> d\nRelu b -> e\nSqrt a -> b\nAbs x -> a\noutput y f32";
    holds(model, "%2 : f32[2] = abs %0");
    holds("opset 13\ninput x f32 2\ninput c bool\nIf c -> y then_branch={Relu a -> t; output t f32} else_branch={output b f32}\n"
          "Sqrt a -> b\nAbs x -> a\noutput y f32",
          "if %1 {%5} {%3}");
    Buf long_chain = {0};                                        // from its end to its beginning
    buf_puts(&long_chain, "opset 13\ninput x f32 2\noutput y3000 f32\n");
    for (int i = 3000; i > 1; i--) buf_printf(&long_chain, "Sin y%d -> y%d\n", i - 1, i);
    buf_puts(&long_chain, "Sin x -> y1");
    holds(long_chain.p, "%3000 : f32[2] = sin %2999");
    buf_free(&long_chain);
}

// Sizes without names, or with one for each input, that must be equal are one; those that must be a number are that.
static void sizes_that_must_be_equal_are_one(void **state) {
    (void)state;
    const char *model = "opset 13\ninput a f32 ? D 8\ninput b f32 batch ? 8\ninput k f32 batch ? M\n"
                        "Concat a b -> c axis=1\nMatMul c w -> d\nconst w f32 8 2 : 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
                        "MatMul k w -> e\noutput d f32\noutput e f32";
    holds(model, "f32[batch, D, 8]");
    holds(model, "f32[batch, k_1, 8] = input");
    holds("opset 13\ninput x f32 A B\ninput y f32 B C\nMatMul x y -> p\nMatMul y x -> q\noutput p f32\noutput q f32",
          "f32[A, B]");
}

static void functions_are_inlined(void **state) {
    (void)state;
    const char *model = "opset 13\nopset 1 my\nfunction my F a b -> r { Add a b -> t; LeakyRelu t -> r alpha=@slope }\n"
                        "input x f32 2\ninput y f32 2\nmy.F x y -> z slope=0.5\noutput z f32";
    holds(model, "add");
    holds(model, "0.5");
    holds("opset 13\nopset 1 my\nfunction my F a -> r { my.F a -> r }\ninput x f32 2\nmy.F x -> y\noutput y f32",
          "the function F calls itself");
    holds("opset 13\nopset 1 my\nfunction my F a -> r { Relu a -> s }\ninput x f32 2\nmy.F x -> y\noutput y f32",
          "does not make its output `r`");
}

static void inputs_that_decide_shapes_are_bound(void **state) {
    (void)state;
    const char *model = "opset 13\ninput x f32 2 3\ninput s i64 2\nReshape x s -> y\noutput y f32";
    holds(model, "depends on `s`, for which no value is given (--arg s=..)");
    holds("opset 13\ninput x f32 N\nShape x -> n\nCast n -> f to=1\nconst h f32 : 0.7\nMul f h -> g\nCast g -> s to=7\n"
          "ConstantOfShape s -> y\noutput y f32", "its input 0 must be known when the model is loaded, and depends on `N`, for which no value is given (--arg INPUT=..)");
    holds("opset 13\ninput x f32 1 1 H 4\nconst s f32 4 : 1 1 1.3 1\nResize x _ s -> y\noutput y f32",
          "the dimension `H` must be known when the model is loaded: an input's shape settles it (--arg INPUT=zeros:f32[..])");
    int64_t values[2] = {3, 2};
    GTensor s = {.elem = EL_i64, .rank = 1, .shape = {2}, .bytes = 16, .data = values};
    OnnxImport how = {.given = (OnnxGiven[]){{"s", &s}}, .ngiven = 1};
    char *got = import_at("m.onnx", model, &how);
    assert_non_null(strstr(got, "f32[3, 2]"));
    assert_int_equal(how.bound, 1);
    heap_free(got);
}

// ---- what is wrong ------------------------------------------------------------------------------------

// Each: a model, and part of what is said of it.
static const char *const wrong[][2] = {
    {"opset 13\ninput x f32 2\nRelu q -> y\noutput y f32",
     "m.onnx: Relu (the one that makes `y`): nothing makes its input `q`"},
    {"opset 13\ninput x f32 2\nRelu y -> z name=\"first\"\nRelu z -> y\noutput y f32",
     "Relu first: its input `y` is made by a later node"},
    {"opset 13\ninput x f32 2\nRelu x -> y\nRelu x -> y\noutput y f32", "`y` is made twice"},
    {"opset 13\ninput x f32 2\nRelu x -> x\noutput x f32", "`x` is made twice"},
    {"opset 13\ninput x f32 2\nRelu x -> y\noutput z f32", "output `z`: no node makes it"},
    {"opset 13\ninput x f32 2\nRelu x -> y\noutput y i64",
     "output `y`: is declared with elements of type int64, but what is computed has f32"},
    {"opset 13\ninput x f32 2 3\nconst i i64 2 : 0 7\nGather x i -> y name=\"pick\"\noutput y f32", "Gather pick: index 7 is out of range for a dimension of 2"},
    {"opset 13\ninput x f32 2 3\nconst i i64 1 3 : 0 -3 1\nGatherElements x i -> y\noutput y f32", "index -3 is out of range for a dimension of 2"},
    {"opset 13\ninput x f32 2 3\nconst i i64 2 2 : 0 0 1 3\nGatherND x i -> y\noutput y f32", "index 3 is out of range for a dimension of 3"},
    {"opset 16\ninput x f32 2\nconst i i64 1 : 2\nScatterElements x i u -> y\ninput u f32 1\noutput y f32", "index 2 is out of range for a dimension of 2"},
    {"opset 16\ninput x f32 2\nconst i i64 1 1 : -3\nScatterND x i u -> y\ninput u f32 1\noutput y f32", "index -3 is out of range for a dimension of 2"},
    {"opset 13\ninput x f32 2\nFoo x -> y\noutput y f32", "Foo (the one that makes `y`): there is no operator Foo"},
    {"opset 13\ninput x f32 2\nGelu x -> y\noutput y f32", "opset 13 has no such operator"},
    {"opset 13\ninput x f32 2\nSofmax x -> y\noutput y f32", "there is no operator Sofmax; did you mean `Softmax`?"},
    {"opset 13\ninput x f32 2 3\nSoftmax x -> y axes=1\noutput y f32", "Softmax has no attribute `axes`; did you mean `axis`?"},
    {"opset 13\ninput x f32 2 3\nRelu x -> y alpha=1\noutput y f32", "Relu has no attribute"},
    {"opset 13\ninput x f32 2 3\nGemm x x -> y gain=1\noutput y f32", "Gemm has no attribute `gain`"},
    {"opset 13\ninput x f32 2\nRelu x x -> y\noutput y f32", "Relu has 1 input at most, 2 are given"},
    {"opset 13\ninput x f32 2\nRelu x -> y z\noutput y f32", "Relu has 1 output at most, 2 are given"},
    {"opset 13\ninput x f32 2\nRel\xa1\xc3\xbc x -> y\noutput y f32", "there is no operator Rel?\xc3\xbc"},
    {"opset 99\ninput x f32 2\nRelu x -> y\noutput y f32", "imports opset 99 of ONNX; 28 is the newest one that is known here"},
    {"opset 13\ninput x f32 2\nmy.Gelu x -> y\noutput y f32", "there is no operator my.Gelu"},
    {"input x f32 2\nRelu x -> y\noutput y f32", "imports no opset"},
    {"ir 2\ninput x f32 2 3\nGelu x -> y\noutput y f32", "opset 1 has no such operator"},
    {"opset 5\ninput x f32 2\nCast x -> y to=\"FLOTE\"\noutput y f32", "attribute `to` is `FLOTE`, which is no element type"},
    {"opset 5\ninput x f32 2\nCast x -> y to=\"STRING\"\noutput y f32", "strings are not supported"},
    {"opset 1\ninput x f32 1 1 4 4\nCrop x -> y border=[3,0,2,0]\noutput y f32", "its border leaves nothing of axis 3"},
    {"opset 1\ninput x f32 1 1 4 4\nCrop x -> y border=[1,1,0,0] scale=[4,2]\noutput y f32", "its border leaves nothing of axis 2"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.TreeEnsembleRegressor x -> y\noutput y f32",
     "TreeEnsembleRegressor (the one that makes `y`): classical models: decision trees are not supported"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.SVMClassifier x -> y z\noutput y i64",
     "classical models: support vectors that vote are not supported"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.Forest x -> y\noutput y f32", "classical models (operators of ai.onnx.ml) are not supported"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.LinearClassifier x -> y z coefficients=[0.5,0.5,0.5] "
     "intercepts=[0.5] classlabels_strings=[\"a\",\"b\"]\noutput y i64", "strings are not supported"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.LinearClassifier x -> y z coefficients=[0.5,0.5,0.5] "
     "intercepts=[0.5] classlabels_ints=[1,2,3]\noutput y i64", "has 3 labels for 1 rows of coefficients"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.LinearRegressor x -> y coefficients=[0.5,0.5,0.5] "
     "post_transform=\"PROBIT\"\noutput y f32", "`post_transform` PROBIT is not supported"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.LabelEncoder x -> y keys_floats=[0.5]\noutput y f32", "needs keys and values that are numbers"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32 2 3\nai.onnx.ml.Scaler x -> y offset=[0.5,0.5]\noutput y f32", "Scaler (the one that makes `y`)"},
    {"opset 13\nopset 1 ai.onnx.ml\ninput x f32\nai.onnx.ml.Normalizer x -> y\noutput y f32", "needs rows of features, not a single number"},
    {"opset 13\ninput x f32 2\nRelu x -> y", "has no outputs"},
    {"opset 13\ninput x f32 2\nRelu -> y\noutput y f32", "its input 0 is missing"},
    {"opset 13\ninput x string 2\nIdentity x -> y\noutput y string", "has strings among its inputs or outputs"},
    {"opset 13\ninput x c64 2\nIdentity x -> y\noutput y c64", "has complex numbers among its inputs or outputs"},
    {"opset 13\ninput x f32 2\nSequenceAt x x -> y\noutput y f32", "its input 0 is no sequence"},
    {"opset 13\ninput x f32 2\nSequenceConstruct x -> s\nRelu s -> y\noutput y f32", "its input 0 is a sequence of tensors"},
    {"opset 13\ninput x f32 2\nSequenceConstruct x -> y\noutput y f32", "sequences are not supported as results"},
    {"opset 13\ninput x f32 2\nconst i i64 : 1\nSequenceConstruct x -> s\nSequenceAt s i -> y\noutput y f32", "position 1 is out of range: there are 1"},
    {"opset 13\nSequenceEmpty -> s\nConcatFromSequence s -> y axis=0\noutput y f32", "the sequence is empty"},
    {"opset 13\nSequenceEmpty -> s\nSequenceErase s -> t\nSequenceLength t -> y\noutput y i64", "the sequence is empty"},
    {"opset 13\ninput x f32 2\ninput n i32 2\nSequenceConstruct x n -> s\nSequenceLength s -> y\noutput y i64", "item 1 of the sequence has another element type"},
    {"opset 13\ninput x f32 2\nSequenceConstruct x -> s\nConcatFromSequence s -> y axis=1\noutput y f32", "axis 1 is out of range: there are 1 dimensions"},
    {"opset 13\ninput x f32 4\nconst i i64 2 : 3 2\nSplitToSequence x i -> s\nSequenceLength s -> y\noutput y i64", "its sizes are more than the 4"},
    {"opset 13\ninput x f32 4\nconst i i64 : 0\nSplitToSequence x i -> s\nSequenceLength s -> y\noutput y i64", "a size is 0"},
    {"opset 17\nopset 1 com.microsoft\ninput x f32 2 2 2 4\ninput w f32 1 1 1 4\ninput b f32 4\ncom.microsoft.GroupNorm x w b -> y groups=2\noutput y f32",
     "its scale should have 1 dimension, not 4"},
    {"opset 17\nopset 1 com.microsoft\ninput x f32 2 2 2 4\ninput w f32 4\ninput s f32 2 1 2 2 2 4\ncom.microsoft.SkipGroupNorm x w w s -> y groups=2\noutput y f32",
     "the sum of its images should have 4 dimensions, not 6"},
    {"opset 13\ninput x f32 4\nconst i i64 0 2 :\nSplitToSequence x i -> s\nSequenceLength s -> y\noutput y i64", "its sizes should be a number or a list, not 2 dimensions"},
    {"opset 17\nopset 1 com.microsoft\ninput x f32 2 3 16\ninput w f32 16 48\ninput b f32 47\ncom.microsoft.Attention x w b -> y num_heads=2\noutput y f32",
     "Attention (the one that makes `y`): cannot broadcast shapes that differ: [2, 3, 48] to [47]"},
    {"opset 13\ninput x f32 any\nRelu x -> y\noutput y f32", "input `x`: has no shape in the model"},
    {"opset 13\ninput x f32 1 2 4 4\ninput w f32 3 3 2 2\nConv x w -> y name=\"c\"\noutput y f32", "Conv c: sizes"},
    {"opset 13\ninput x f32 1 2 4 4\nMaxPool x -> y kernel_shape=[2,9]\noutput y f32", "its window is larger than axis 3"},
    {"opset 13\ninput x f32 1 2 4 4\nMaxPool x -> y kernel_shape=[2,2] strides=[1,0]\noutput y f32",
     "attribute `strides` has 0 among its numbers"},
    {"opset 13\ninput x f32 2 3\nEinsum x -> y equation=\"ij,jk->ik\"\noutput y f32", "more terms than there are operands"},
    {"opset 13\ninput v f32 2\ninput k f32\nLoop _ k v -> w body={ input i i64; input c bool; input u f32 2; Identity c -> d; "
     "Neg u -> r; output d bool; output r f32 }\noutput w f32", "its condition should be one bool"},
    {"opset 13\ninput v f32 2\nLoop _ _ v -> w body={ input i i64; input c bool; input u f32 2; Identity c -> d; "
     "Neg u -> r; output d bool; output r f32 }\noutput w f32", "Loop (the one that makes `w`): never ends"},
    {"opset 13\nconst w f32 2 3 : 1 2\nRelu w -> y\noutput y f32",
     "initializer `w`: has 2 elements of data, but its dimensions need 6"},
    {"opset 13\nconst w f32 -2 : 1 2\nRelu w -> y\noutput y f32", "initializer `w`: has a negative dimension, -2"},
    {"opset 13\nconst w f32 4611686018427387904 4611686018427387904 : 1\nRelu w -> y\noutput y f32",
     "whose product is beyond any memory"},
    {"opset 13\nconst w f32 1 1 1 1 1 1 1 1 1 : 1\nRelu w -> y\noutput y f32", "has 9 dimensions; 8 are supported"},
    {"opset 13\nconst w f32 1 : 1\nconst w f32 1 : 1\nRelu w -> y\noutput y f32", "`w` is made twice"},
    {"opset 13\ninput x f32 2 3\nTranspose x -> y perm=[0,0]\noutput y f32", "no permutation of the 2 axes"},
    {"opset 13\ninput x f32 2 3\nTranspose x -> y perm=3\noutput y f32",
     "attribute `perm` is an integer, not integers"},
    {"opset 13\ninput x f32 2 3\nSoftmax x -> y axis=7\noutput y f32", "Softmax"},
    {"opset 13\ninput x f32 2 3\nCast x -> y\noutput y f32", "attribute `to` is missing"},
    {"opset 13\ninput x f32 2 3\nCast x -> y to=99\noutput y f32", "casts to undefined are not supported"},
    {"opset 13\ninput x f32 2 3\nconst s i64 2 : 4 -1\nReshape x s -> y\noutput y f32",
     "6 elements do not divide into 4"},
    {"opset 13\ninput x f32 2 3\nconst s i64 2 : -1 -1\nReshape x s -> y\noutput y f32",
     "two dimensions of the new shape are -1"},
    {"opset 13\ninput a f32 2 3\ninput b f32 4 5\nMatMul a b -> y\noutput y f32", "MatMul"},
    {"opset 13\ninput a f32 2\ninput b i64 2\nAdd a b -> y\noutput y f32", "Add"},
};

static void what_is_wrong_is_said(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) holds(wrong[i][0], wrong[i][1]);
}

static void every_truncation_is_said(void **state) {
    (void)state;
    size_t n;
    uint8_t *bytes = packed("opset 13\ninput x f32 2 3\nconst s i64 2 : 3 2\nReshape x s -> y\noutput y f32 3 2", &n);
    for (size_t i = 0; i < n; i++) {
        Buf err = {0};
        uint8_t *some = malloc(i + 1); // so that a read past the end is found
        memcpy(some, bytes, i);
        OnnxModel *m = onnx_parse("m.onnx", some, i, &err);
        free(some);
        if (m != NULL) {
            Graph *g = onnx_import(m, &(OnnxImport){0}, &err);
            assert_null(g);
        }
        assert_true(err.n > 0 && strncmp(err.p, "m.onnx: ", 8) == 0 && strchr(err.p, '\n') == NULL);
        onnx_free(m);
        buf_free(&err);
    }
    free(bytes);
}

// ---- external data ------------------------------------------------------------------------------------

// A model whose weights [4] are bytes of a file beside it, by these entries.
static char *external(const char *folder, const char *location, const char *offset, const char *length, bool random) {
    Onnx__ModelProto *m = onnx_from_text("opset 13\ninput x f32 4\nconst w f32 4 :\nAdd x w -> y\noutput y f32 4");
    Onnx__TensorProto *w = m->graph->initializer[0];
    const char *const pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    w->has_data_location = true, w->data_location = 1;
    for (int i = 0; i < 3; i++) {
        if (pairs[i][1] == NULL) continue;
        Onnx__StringStringEntryProto *e = MAKE(Onnx__StringStringEntryProto, ONNX__STRING_STRING_ENTRY_PROTO__INIT);
        e->key = strdup(pairs[i][0]), e->value = strdup(pairs[i][1]);
        PUSH(w->external_data, w->n_external_data, e);
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    size_t n = onnx__model_proto__get_packed_size(m);
    uint8_t *bytes = malloc(n);
    onnx__model_proto__pack(m, bytes);
    onnx__model_proto__free_unpacked(m, NULL);
    Buf out = {0};
    OnnxModel *model = onnx_parse(path, bytes, n, &out);
    free(bytes);
    Graph *g = model != NULL ? onnx_import(model, &(OnnxImport){.random_weights = random}, &out) : NULL;
    if (g != NULL) graph_print(&out, g);
    graph_free(g);
    onnx_free(model);
    return out.p;
}

static void external_holds(const char *folder, const char *location, const char *offset, const char *length,
                           const char *part) {
    char *got = external(folder, location, offset, length, false);
    if (strstr(got, part) == NULL) print_error("%s %s %s: %s\nlacks: %s\n", location, offset, length, got, part);
    assert_non_null(strstr(got, part));
    heap_free(got);
}

static void external_data_stay_in_their_folder(void **state) {
    (void)state;
    char root[] = "/tmp/tk_onnx_XXXXXX", in[64], weights[80], outside[80], link[80];
    assert_non_null(mkdtemp(root));
    snprintf(in, sizeof in, "%s/model", root);
    snprintf(weights, sizeof weights, "%s/w.bin", in);
    snprintf(outside, sizeof outside, "%s/secret", root);
    snprintf(link, sizeof link, "%s/link", in);
    assert_int_equal(mkdir(in, 0700), 0);
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(i == 0 ? weights : outside, "wb");
        const float data[5] = {1, 2, 3, 4, 5};
        assert_int_equal(fwrite(data, 4, 5, f), 5);
        fclose(f);
    }
    assert_int_equal(symlink(outside, link), 0);
    external_holds(in, "w.bin", "4", "16", "/model/w.bin\" at 4 {2, 3, 4, 5}");
    external_holds(in, "w.bin", NULL, NULL, "add");
    external_holds(in, "./w.bin", "0", "16", "add");
    external_holds(in, "w.bin", "2", "16", "add"); // at an odd place: copied
    external_holds(in, "w.bin", "8", "16", "its external data are bytes 8 to 24 of w.bin, which has 20");
    external_holds(in, "w.bin", "18446744073709551615", "16", "initializer `w`: its external data are bytes");
    external_holds(in, "w.bin", "-4", "16", "the offset of its external data is no number: \"-4\"");
    external_holds(in, "w.bin", "0", "12", "have 12 bytes, but its type and dimensions need 16");
    external_holds(in, "../secret", "0", "16", "must be a file below the model's folder");
    external_holds(in, "x/../../secret", "0", "16", "must be a file below the model's folder");
    external_holds(in, outside, "0", "16", "must be a file below the model's folder");
    external_holds(in, "link", "0", "16", "lead out of the model's folder");
    external_holds(in, ".", "0", "16", "initializer `w`");
    external_holds(in, NULL, "0", "16", "its external data name no file");
    external_holds(in, "gone", "0", "16", "its file of external data, gone, is not there");
    char *got = external(in, "gone", "0", "16", true);
    assert_non_null(strstr(got, "/model/gone\""));
    heap_free(got);
    unlink(link), unlink(weights), unlink(outside), rmdir(in), rmdir(root);
}

// A tensor's own file belongs to no model, whatever it says of other files.
static void tensor_files_stand_alone(void **state) {
    (void)state;
    static const char *const offsets[] = {"0", "-4", NULL};
    for (int i = 0; i < 3; i++) {
        Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
        Onnx__StringStringEntryProto file = ONNX__STRING_STRING_ENTRY_PROTO__INIT,
                                     offset = ONNX__STRING_STRING_ENTRY_PROTO__INIT;
        Onnx__StringStringEntryProto *both[] = {&file, &offset};
        int64_t dims[] = {2};
        file.key = (char *)"location", file.value = (char *)"w.bin";
        offset.key = (char *)"offset", offset.value = (char *)offsets[i];
        p.dims = dims, p.n_dims = 1, p.has_data_type = true, p.data_type = 1;
        p.external_data = both, p.n_external_data = 2;
        p.has_data_location = true, p.data_location = 1;            // external
        uint8_t bytes[256];
        assert_true(onnx__tensor_proto__get_packed_size(&p) <= sizeof bytes);
        size_t size = onnx__tensor_proto__pack(&p, bytes);
        GTensor t;
        Buf err = {0};
        assert_false(onnx_tensor_parse(bytes, size, &t, &err));
        assert_non_null(strstr(err.p, "its data stand in another file"));
        buf_free(&err);
    }
}

// ---- tensors --------------------------------------------------------------------------------------------

static void tensor_is(const char *text, const void *raw, size_t nraw, const double *want, int n, Elem elem) {
    Onnx__TensorProto *p = text_tensor(&(OnnxText){text});
    if (raw != NULL) {
        p->has_raw_data = true;
        p->raw_data = (ProtobufCBinaryData){nraw, memcpy(malloc(nraw), raw, nraw)};
    }
    size_t size = onnx__tensor_proto__get_packed_size(p);
    uint8_t *bytes = malloc(size);
    onnx__tensor_proto__pack(p, bytes);
    onnx__tensor_proto__free_unpacked(p, NULL);
    GTensor t;
    Buf err = {0};
    bool ok = onnx_tensor_parse(bytes, size, &t, &err);
    if (!ok) print_error("%s: %s\n", text, err.p);
    assert_true(ok);
    assert_int_equal(t.elem, elem);
    for (int i = 0; i < n; i++) {
        double got = elem == EL_f32   ? (double)((float *)t.data)[i]
                     : elem == EL_i8  ? (double)((int8_t *)t.data)[i]
                     : elem == EL_u8  ? (double)((uint8_t *)t.data)[i]
                     : elem == EL_u32 ? (double)((uint32_t *)t.data)[i]
                     : elem == EL_i16 ? (double)((int16_t *)t.data)[i]
                                      : (double)((uint16_t *)t.data)[i];
        assert_true(got == want[i]);
    }
    g_tensor_free(&t);
    buf_free(&err);
    free(bytes);
}

static void every_form_of_tensor_is_read(void **state) {
    (void)state;
    tensor_is("t f32 3 : 1 2.5 -3", NULL, 0, (double[]){1, 2.5, -3}, 3, EL_f32);
    tensor_is("t f32 2 :", (float[]){1, 2}, 8, (double[]){1, 2}, 2, EL_f32);
    tensor_is("t i16 2 : -5 7", NULL, 0, (double[]){-5, 7}, 2, EL_i16);
    tensor_is("t u32 2 : 4294967295 7", NULL, 0, (double[]){4294967295.0, 7}, 2, EL_u32);
    tensor_is("t f16 2 : 0x3c00 0xc000", NULL, 0, (double[]){0x3c00, 0xc000}, 2, EL_f16); // bits
    tensor_is("t bf16 1 : 0x3f80", NULL, 0, (double[]){0x3f80}, 1, EL_bf16);
    tensor_is("t i4 3 :", (uint8_t[]){0x7f, 0x08}, 2, (double[]){-1, 7, -8}, 3, EL_i8);
    tensor_is("t i4 3 : 0x7f 0x08", NULL, 0, (double[]){-1, 7, -8}, 3, EL_i8);
    tensor_is("t u4 3 :", (uint8_t[]){0x7f, 0x08}, 2, (double[]){15, 7, 8}, 3, EL_u8);
    tensor_is("t i2 5 :", (uint8_t[]){0xe4, 0x01}, 2, (double[]){0, 1, -2, -1, 1}, 5, EL_i8);
    tensor_is("t f4e2m1 2 :", (uint8_t[]){0xf2}, 1, NULL, 0, EL_f8e4m3);
    tensor_is("t f8e8m0 2 :", (uint8_t[]){127, 130}, 2, (double[]){1, 8}, 2, EL_f32);
    tensor_is("t f8e4m3uz 2 :", (uint8_t[]){0x40, 0xc0}, 2, (double[]){0x3c00, 0xbc00}, 2, EL_f16);
    tensor_is("t f8e5m2uz 1 :", (uint8_t[]){0x40}, 1, (double[]){0x3c00}, 1, EL_f16);
    tensor_is("t bool 2 : 1 0", NULL, 0, NULL, 0, EL_bool);
    tensor_is("t f32 0 3 :", NULL, 0, NULL, 0, EL_f32);
}

// ---- the format -----------------------------------------------------------------------------------------

// Lines `Message.Field LABEL TYPE NUMBER` of a .proto file.
static char *fields_of(const char *path) {
    FILE *f = fopen(path, "r");
    char line[1024], at[256] = "";
    Buf out = {0};
    for (int depth = 0; f != NULL && fgets(line, sizeof line, f) != NULL;) {
        char label[32], type[64], name[64];
        int number;
        if (sscanf(line, " message %63s", name) == 1) {
            snprintf(at + strlen(at), sizeof at - strlen(at), "%s.", name);
            depth++;
        } else if (sscanf(line, " oneof %63s", name) == 1 || sscanf(line, " enum %63s", name) == 1) {
            snprintf(at + strlen(at), sizeof at - strlen(at), "-.");
            depth++;
        } else if (strspn(line, " ") < strlen(line) && line[strspn(line, " ")] == '}' && depth > 0) {
            char *dot = at + strlen(at) - 1;
            *dot = '\0';
            dot = strrchr(at, '.');
            *(dot != NULL ? dot + 1 : at) = '\0';
            depth--;
        } else if (sscanf(line, " %31s %63s %63s = %d", label, type, name, &number) == 4 && strcmp(label, "//") != 0) {
            buf_printf(&out, "%s%s %s %s %d\n", at, name, label,
                       strstr(type, "Type") != NULL && strstr(type, "Proto") == NULL ? "int32"
                       : strstr(type, "Location") != NULL                            ? "int32"
                                                                                     : type,
                       number);
        } else if (strstr(at, "-.") != NULL && sscanf(line, " %63s %63s = %d", type, name, &number) == 3) {
            buf_printf(&out, "%s%s %s %d\n", at, name, type, number);
        }
    }
    if (f != NULL) fclose(f);
    return out.p;
}

static void the_format_is_that_of_onnx(void **state) {
    (void)state;
    static const char *const newer[] = {"NodeProto.overload", "FunctionProto.attribute_proto",
                                        "FunctionProto.overload"};
    char *ours = fields_of(ONNX_PROTO), *theirs = fields_of("/usr/include/onnx/onnx.proto");
    assert_non_null(ours);
    if (theirs == NULL) {
        heap_free(ours);
        puts("skipped: /usr/include/onnx/onnx.proto is not there");
        return;
    }
    int found = 0;
    for (char *line = strtok(ours, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool known = strstr(theirs, line) != NULL;
        for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
            known |= strncmp(line, newer[i], strlen(newer[i])) == 0;
        if (!known) print_error("not in ONNX's format: %s\n", line);
        assert_true(known);
        found++;
    }
    assert_true(found > 70);
    heap_free(ours);
    heap_free(theirs);
}

// docs/onnx.md lists the operators.
static void every_operator_is_in_the_documents(void **state) {
    (void)state;
    FILE *f = fopen(ONNX_MD, "rb");
    assert_non_null(f);
    static char page[1 << 16];
    size_t n = fread(page, 1, sizeof page - 1, f);
    fclose(f);
    page[n] = '\0';
    for (char *p = page; *p != '\0'; p++)
        if (*p == '\n') *p = ' ';
    char *list = strstr(page, "## Operators");
    assert_non_null(list);
    for (const OpRow *const *table = op_tables; *table != NULL; table++)
        for (const OpRow *row = *table; row->type != NULL; row++) {
            char word[128];
            snprintf(word, sizeof word, " %s ", row->type);
            if (row->lower != NULL && strstr(list, word) == NULL) print_error("%s is not in docs/onnx.md\n", row->type);
            assert_true(row->lower == NULL || strstr(list, word) != NULL);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_symbolic_sizes_stay),
        cmocka_unit_test(nodes_stand_in_any_order),
        cmocka_unit_test(sizes_that_must_be_equal_are_one),
        cmocka_unit_test(functions_are_inlined),
        cmocka_unit_test(inputs_that_decide_shapes_are_bound),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(every_truncation_is_said),
        cmocka_unit_test(external_data_stay_in_their_folder),
        cmocka_unit_test(tensor_files_stand_alone),
        cmocka_unit_test(every_form_of_tensor_is_read),
        cmocka_unit_test(the_format_is_that_of_onnx),
        cmocka_unit_test(every_operator_is_in_the_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
