// Classical models (ai.onnx.ml) as far as they are arithmetic of tensors: what scalers, encoders and linear models of
// scikit-learn become.
//
//     features      Scaler, Normalizer, Binarizer, Imputer, FeatureVectorizer, ArrayFeatureExtractor
//     classes       LabelEncoder, OneHotEncoder, of numbers
//     models        LinearRegressor, LinearClassifier, SVMRegressor
//
// A value is a row of features, or a matrix of such rows. Where the specification leaves something open (what a
// classifier of one row of coefficients scores, rows whose norm is 0), the answer is ONNX Runtime's. Trees, voting
// machines, and what needs texts or maps are refused by what they belong to.
#include "graph/op/op.h"

#include <math.h>
#include <string.h>

// Any number as a float: rows of features.
static Node *features(Op *op, int i) {
    Node *x = op_in(op, i);
    return x != NULL ? g_cast(op->g, x, x->elem == EL_f64 ? EL_f64 : EL_f32) : NULL;
}

static Node *as_rows(Graph *g, Node *x) { return x != NULL && x->rank == 1 ? g_unsqueeze(g, x, 1) : x; }

// A list of floats as a constant of x's type; a message unless it has one number or one for each of x's features.
static Node *per_feature(Op *op, const Node *x, const char *name, const float *v, int n) {
    Graph *g = op->g;
    if (x == NULL || x->rank < 1) return op_error(op, "needs rows of features, not a single number");
    if (n < 1) return op_error(op, "attribute `%s` has no numbers", name);
    if (n > 1) g_require(g, x->shape[x->rank - 1], ix(g, n));
    return g_cast(g, g_const(g, EL_f32, 1, (int64_t[]){n}, v), (Elem)x->elem);
}

// ---- features ----------------------------------------------------------------------------------------

// (x - offset) * scale
static Node *lower_scaler(Op *op) {
    Graph *g = op->g;
    Node *x = features(op, 0);
    int noffset = 0, nscale = 0;
    const float *offset = op_floats(op, "offset", &noffset), *scale = op_floats(op, "scale", &nscale);
    if (x == NULL || g_failed(g) != NULL) return NULL;
    if (offset != NULL) x = g_ew2(g, EW_sub, x, per_feature(op, x, "offset", offset, noffset));
    if (scale != NULL && x != NULL) x = g_ew2(g, EW_mul, x, per_feature(op, x, "scale", scale, nscale));
    return g_cast(g, x, EL_f32);
}

// Each row over its largest element, its sum of absolute values, or its length; rows where that is 0 stay.
static Node *lower_normalizer(Op *op) {
    Graph *g = op->g;
    Node *x = features(op, 0), *norm = NULL;
    const char *by = op_text(op, "norm", "MAX");
    if (x == NULL) return NULL;
    if (x->rank < 1) return op_error(op, "needs rows of features, not a single number");
    uint32_t last = 1u << (x->rank - 1);
    if (strcmp(by, "MAX") == 0) norm = g_reduce(g, GR_max, x, last, true);
    else if (strcmp(by, "L1") == 0) norm = g_reduce(g, GR_sum, g_ew1(g, EW_abs, x), last, true);
    else if (strcmp(by, "L2") == 0) norm = g_ew1(g, EW_sqrt, g_reduce(g, GR_sum, g_ew2(g, EW_mul, x, x), last, true));
    else return op_error(op, "attribute `norm` must be MAX, L1 or L2, not `%s`", by);
    Node *one = g_f(g, (Elem)x->elem, 1);
    return g_cast(g, g_ew2(g, EW_div, x, g_where(g, g_ew2f(g, EW_eq, norm, 0), one, norm)), EL_f32);
}

static Node *lower_binarizer(Op *op) {
    Node *x = op_in(op, 0);
    if (x == NULL) return NULL;
    bool whole = elem_is_int((Elem)x->elem);
    Node *above = g_ew2f(op->g, EW_gt, whole ? g_cast(op->g, x, EL_f64) : x, op_float(op, "threshold", 0));
    return g_cast(op->g, above, (Elem)x->elem);
}

// One value for what is missing (a number, or NaN), or one for each feature.
static Node *lower_imputer(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *by = NULL, *missing = NULL;
    int n = 0;
    if (x == NULL) return NULL;
    if (x->rank < 1) return op_error(op, "needs rows of features, not a single number");
    if (elem_is_int((Elem)x->elem)) {
        const int64_t *v = op_ints(op, "imputed_value_int64s", &n);
        if (v == NULL || n < 1) return op_error(op, "attribute `imputed_value_int64s` is missing");
        by = g_cast(g, g_vec_i64(g, n, v), (Elem)x->elem);
        missing = g_ew2(g, EW_eq, x, g_i(g, (Elem)x->elem, op_int(op, "replaced_value_int64", 0)));
    } else {
        const float *v = op_floats(op, "imputed_value_floats", &n);
        double replaced = op_float(op, "replaced_value_float", 0);
        if (v == NULL || n < 1) return op_error(op, "attribute `imputed_value_floats` is missing");
        by = g_cast(g, g_const(g, EL_f32, 1, (int64_t[]){n}, v), (Elem)x->elem);
        missing = isnan(replaced) ? g_ew1(g, EW_isnan, x) : g_ew2f(g, EW_eq, x, replaced);
    }
    if (n > 1) g_require(g, x->shape[x->rank - 1], ix(g, n));
    return g_where(g, missing, by, x);
}

// Rows side by side, each cut or filled up with zeros to the features that the model says it has.
static Node *lower_vectorizer(Op *op) {
    Graph *g = op->g;
    int n = 0;
    const int64_t *sizes = op_ints(op, "inputdimensions", &n);
    Node **part = NEW_N(g->arena, Node *, op->nin + 1);
    if (sizes != NULL && n != op->nin) return op_error(op, "attribute `inputdimensions` has %d numbers for %d inputs", n, op->nin);
    for (int i = 0; i < op->nin; i++) {
        Node *x = as_rows(g, features(op, i));
        if (x == NULL) return NULL;
        if (x->rank != 2) return op_error(op, "needs rows of features, not a value of %d dimensions", x->rank);
        if (sizes != NULL && (sizes[i] < 0 || sizes[i] > 1 << 24)) return op_error(op, "attribute `inputdimensions` has %lld among its numbers", (long long)sizes[i]);
        Ix none = ix(g, 0), before[2] = {none, none};
        Ix after[2] = {none, sizes != NULL ? ix_sub(g, ix(g, sizes[i]), x->shape[1]) : none};
        part[i] = g_cast(g, g_pad(g, x, before, after, GP_constant, g_int(0)), EL_f32);
    }
    return op->nin > 0 ? g_concat(g, 1, part, op->nin) : op_error(op, "its inputs are missing");
}

// Columns of the last axis, by their numbers; of a list a row.
static Node *lower_extractor(Op *op) {
    Graph *g = op->g;
    Node *x = as_rows(g, op_in(op, 0)), *at = op_in(op, 1);
    if (x == NULL || at == NULL) return NULL;
    if (x->rank < 1) return op_error(op, "needs rows of features, not a single number");
    return g_gather_axis(g, x, g_reshape(g, at, 1, (Ix[]){ix(g, -1)}), x->rank - 1);
}

// ---- classes -----------------------------------------------------------------------------------------

// A list of numbers that is an attribute by one of these names, or (from version 4 on) a tensor; NULL: there is none.
static Node *listed(Op *op, const char *ints, const char *floats, const char *texts, const char *tensor) {
    Graph *g = op->g;
    int n = 0;
    if (op_given(op, texts)) return op_out_of_scope(op, "strings");
    const int64_t *i = op_ints(op, ints, &n);
    if (i != NULL) return g_vec_i64(g, n, i);
    const float *f = op_floats(op, floats, &n);
    if (f != NULL) return g_const(g, EL_f32, 1, (int64_t[]){n}, f);
    Node *t = tensor != NULL && op_given(op, tensor) ? op_tensor(op, tensor) : NULL;
    return t != NULL ? g_reshape(g, t, 1, (Ix[]){ix(g, -1)}) : NULL;
}

// [.., keys] bool: is the element this key? NaN is itself here.
static Node *is_key(Graph *g, Node *x, Node *keys) {
    Node *each = g_unsqueeze(g, x, 1u << x->rank), *same = g_ew2(g, EW_eq, each, keys);
    if (!elem_is_float((Elem)keys->elem)) return same;
    return g_ew2(g, EW_or, same, g_ew2(g, EW_and, g_ew1(g, EW_isnan, each), g_ew1(g, EW_isnan, keys)));
}

// The value that stands where the key does (the first, if it stands there twice), or the default.
static Node *lower_label_encoder(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    Node *keys = listed(op, "keys_int64s", "keys_floats", "keys_strings", "keys_tensor");
    Node *values = listed(op, "values_int64s", "values_floats", "values_strings", "values_tensor");
    if (x == NULL || g_failed(g) != NULL) return NULL;
    if (op_given(op, "classes_strings")) return op_out_of_scope(op, "strings");
    if (keys == NULL || values == NULL) return op_error(op, "needs keys and values that are numbers");
    g_require(g, keys->shape[0], values->shape[0]);
    if (g_failed(g) != NULL || ix_is(keys->shape[0], 0)) return op_error(op, "has no keys");
    Node *otherwise = op_given(op, "default_tensor") ? op_tensor(op, "default_tensor")
                      : elem_is_float((Elem)values->elem) ? g_f(g, (Elem)values->elem, op_float(op, "default_float", -0.0))
                                                     : g_i(g, (Elem)values->elem, op_int(op, "default_int64", -1));
    if (otherwise != NULL) otherwise = g_reshape(g, g_cast(g, otherwise, (Elem)values->elem), 0, NULL);
    Node *is = is_key(g, x, g_cast(g, keys, (Elem)x->elem)), *number = g_cast(g, is, EL_i32);
    Node *at = g_arg_reduce(g, GR_argmax, number, x->rank, false, false), *any = g_reduce(g, GR_any, is, 1u << x->rank, false);
    return g_where(g, any, g_gather_axis(g, values, at, 0), otherwise);
}

// One more axis: 1 where the category is this one. With `zeros` 0 an unknown one is an error, which is not looked for.
static Node *lower_one_hot(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *cats = listed(op, "cats_int64s", "", "cats_strings", NULL);
    if (x == NULL || g_failed(g) != NULL) return NULL;
    if (cats == NULL) return op_error(op, "attribute `cats_int64s` is missing");
    return g_cast(g, is_key(g, g_cast(g, x, EL_i64), cats), EL_f32);
}

// ---- models ------------------------------------------------------------------------------------------

// [n, features] of a flat list of n rows.
static Node *matrix(Op *op, const char *name, Node *x, int rows) {
    Graph *g = op->g;
    int n = 0;
    const float *v = op_floats(op, name, &n);
    if (v == NULL || rows < 1 || n % rows != 0) return op_error(op, "attribute `%s` should have %d rows of numbers", name, rows);
    if (x->rank != 2) return op_error(op, "needs rows of features, not a value of %d dimensions", x->rank);
    g_require(g, x->shape[1], ix(g, n / rows));
    return g_const(g, EL_f32, 2, (int64_t[]){rows, n / rows}, v);
}

// What becomes of scores: one score a row is left alone by a softmax.
static Node *transformed(Op *op, Node *scores, bool several) {
    Graph *g = op->g;
    const char *by = op_text(op, "post_transform", "NONE");
    if (scores == NULL || strcmp(by, "NONE") == 0) return scores;
    if (strcmp(by, "LOGISTIC") == 0) return g_ew1(g, EW_sigmoid, scores);
    bool zero = strcmp(by, "SOFTMAX_ZERO") == 0;
    if (!zero && strcmp(by, "SOFTMAX") != 0) return op_error(op, "`post_transform` %s is not supported", by);
    if (!several) return scores;
    if (!zero) return g_softmax(g, scores, 2);
    Node *is = g_ew2f(g, EW_eq, scores, 0), *none = g_f(g, EL_f32, 0);     // a score of 0 stays 0, and counts for nothing
    Node *top = g_reduce(g, GR_max, scores, 2, true), *e = g_where(g, is, none, g_ew1(g, EW_exp, g_ew2(g, EW_sub, scores, top)));
    Node *sum = g_reduce(g, GR_sum, e, 2, true);
    return g_where(g, is, none, g_ew2(g, EW_div, e, sum));
}

// x * coefficients' + intercepts
static Node *linear(Op *op, Node *x, int rows, Node **intercepts) {
    Graph *g = op->g;
    int n = 0;
    Node *w = matrix(op, "coefficients", x, rows);
    const float *b = op_floats(op, "intercepts", &n);
    if (w == NULL) return NULL;
    if (b != NULL && n != rows) return op_error(op, "attribute `intercepts` has %d numbers for %d rows of coefficients", n, rows);
    Node *y = g_einsum(g, "mk,nk->mn", g_cast(g, x, EL_f32), w);
    if (b == NULL) return y;
    *intercepts = g_const(g, EL_f32, 1, (int64_t[]){n}, b);
    return g_ew2(g, EW_add, y, *intercepts);
}

static Node *lower_linear_regressor(Op *op) {
    Node *x = as_rows(op->g, features(op, 0)), *b = NULL;
    int64_t targets = op_int(op, "targets", 1);
    if (x == NULL || g_failed(op->g) != NULL) return NULL;
    if (targets < 1 || targets > 1 << 24) return op_error(op, "attribute `targets` is %lld", (long long)targets);
    return transformed(op, linear(op, x, (int)targets, &b), targets > 1);
}

// Labels and scores. One row of coefficients for two classes: the second wins where its score is above 0, and the
// first's is what that leaves of 1.
static Node *lower_linear_classifier(Op *op) {
    Graph *g = op->g;
    Node *x = as_rows(g, features(op, 0)), *b = NULL;
    int nlabels = 0, rows = 0;
    if (op_given(op, "classlabels_strings")) return op_out_of_scope(op, "strings");
    const int64_t *labels = op_ints(op, "classlabels_ints", &nlabels);
    op_floats(op, "intercepts", &rows);
    if (x == NULL || g_failed(g) != NULL) return NULL;
    if (rows < 1) rows = nlabels;
    bool single = rows == 1 && nlabels == 2;
    if (labels == NULL || (rows != nlabels && !single))
        return op_error(op, "has %d labels for %d rows of coefficients", nlabels, rows);
    Node *scores = linear(op, x, rows, &b), *names = g_vec_i64(g, nlabels, labels), *best = NULL;
    if (scores == NULL) return NULL;
    if (!single) {
        best = g_arg_reduce(g, GR_argmax, scores, 1, false, false);
    } else {
        best = g_cast(g, g_squeeze(g, g_ew2f(g, EW_gt, scores, 0), 2), EL_i64);
    }
    scores = transformed(op, scores, !single);
    if (single && scores != NULL) scores = g_concat(g, 1, (Node *[]){g_ew2(g, EW_sub, g_f(g, EL_f32, 1), scores), scores}, 2);
    op_out(op, 1, scores);
    return g_gather_axis(g, names, best, 0);
}

// Sum over supports of coefficient * kernel(x, support), plus rho. Without supports: linear.
static Node *lower_svm_regressor(Op *op) {
    Graph *g = op->g;
    Node *x = as_rows(g, features(op, 0)), *w = NULL, *k = NULL;
    int nparams = 0, nrho = 0;
    int64_t supports = op_int(op, "n_supports", 0);
    const float *p = op_floats(op, "kernel_params", &nparams), *rho = op_floats(op, "rho", &nrho);
    const char *kernel = op_text(op, "kernel_type", "LINEAR");
    double gamma = nparams == 3 ? (double)p[0] : 0, more = nparams == 3 ? (double)p[1] : 0, degree = nparams == 3 ? (double)p[2] : 0;
    if (x == NULL || g_failed(g) != NULL) return NULL;
    if (nrho != 1 || supports < 0 || supports > 1 << 24) return op_error(op, "needs one number as `rho` and its supports counted");
    x = g_cast(g, x, EL_f32);
    if (supports == 0) {
        w = matrix(op, "coefficients", x, 1);
        k = x;
    } else {
        Node *v = matrix(op, "support_vectors", x, (int)supports);
        int n = 0;
        const float *c = op_floats(op, "coefficients", &n);
        if (v == NULL) return NULL;
        if (c == NULL || n != supports) return op_error(op, "attribute `coefficients` should have %lld numbers", (long long)supports);
        w = g_const(g, EL_f32, 2, (int64_t[]){1, n}, c);
        if (strcmp(kernel, "RBF") == 0) {
            Node *d = g_ew2(g, EW_sub, g_unsqueeze(g, x, 2), g_unsqueeze(g, v, 1));
            k = g_ew1(g, EW_exp, g_ew2f(g, EW_mul, g_reduce(g, GR_sum, g_ew2(g, EW_mul, d, d), 4, false), -gamma));
        } else {
            k = g_einsum(g, "mk,nk->mn", x, v);
            bool poly = strcmp(kernel, "POLY") == 0, sigmoid = strcmp(kernel, "SIGMOID") == 0;
            if (!poly && !sigmoid && strcmp(kernel, "LINEAR") != 0) return op_error(op, "attribute `kernel_type` is `%s`", kernel);
            if (poly || sigmoid) k = g_ew2f(g, EW_add, g_ew2f(g, EW_mul, k, gamma), more);
            if (poly) k = g_ew2f(g, EW_pow, k, degree);
            if (sigmoid) k = g_ew1(g, EW_tanh, k);
        }
    }
    if (w == NULL || k == NULL) return NULL;
    Node *y = g_ew2f(g, EW_add, g_einsum(g, "mk,nk->mn", k, w), (double)rho[0]);
    if (op_int(op, "one_class", 0) != 0)
        return g_where(g, g_ew2f(g, EW_gt, y, 0), g_f(g, EL_f32, 1), g_f(g, EL_f32, -1));
    return transformed(op, y, false);
}

#define ML(type, lower)     {type, 1, lower, 0, NULL, "ai.onnx.ml"}
#define ML_NOT(type, words) {type, 1, NULL, 0, words, "ai.onnx.ml"}
const OpRow ops_ml[] = {
    ML("ArrayFeatureExtractor", lower_extractor),
    ML("Binarizer", lower_binarizer),
    ML("FeatureVectorizer", lower_vectorizer),
    ML("Imputer", lower_imputer),
    ML("LabelEncoder", lower_label_encoder),
    ML("LinearClassifier", lower_linear_classifier),
    ML("LinearRegressor", lower_linear_regressor),
    ML("Normalizer", lower_normalizer),
    ML("OneHotEncoder", lower_one_hot),
    ML("SVMRegressor", lower_svm_regressor),
    ML("Scaler", lower_scaler),
    ML_NOT("TreeEnsemble", "classical models: decision trees"),
    ML_NOT("TreeEnsembleClassifier", "classical models: decision trees"),
    ML_NOT("TreeEnsembleRegressor", "classical models: decision trees"),
    ML_NOT("SVMClassifier", "classical models: support vectors that vote"),
    ML_NOT("CastMap", "maps"),
    ML_NOT("CategoryMapper", "strings"),
    ML_NOT("DictVectorizer", "maps"),
    ML_NOT("ZipMap", "maps"),
    {0},
};
