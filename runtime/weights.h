// Files of weights: tensors by name.
//
//     model.npz      NumPy's archive, not compressed: mapped, nothing is copied
//     model.onnx     the initializers of a model, and what its Constant nodes give
//     weights/       a folder, NAME.npy for each: mapped, too
#ifndef TK_RUNTIME_WEIGHTS_H
#define TK_RUNTIME_WEIGHTS_H

#include "runtime/tensor.h"

typedef struct WeightFile WeightFile;
struct OnnxModel;
typedef struct Weight {                // valid until weight_done
    Elem        elem;
    int         rank;
    int64_t     dim[MAX_RANK];
    const void *data;                  // C order, at any address; NULL: only asked for its shape
    size_t      period;                // the data are the same again after so many bytes; 0: they are not
    const char *missing;               // data were asked for, but stand in this file, which is not there
    HostTensor  own;                   // when it could not be used where it lies
} Weight;

// random: data are made up if the file with them is missing
typedef enum WeightWant { WEIGHT_shape, WEIGHT_data, WEIGHT_random } WeightWant;

WeightFile *weights_open(const char *path, Buf *err);
WeightFile *weights_of_model(struct OnnxModel *m);       // of one that is open already, and stays so
void        weights_close(WeightFile *f);                // NULL is fine
// 1: found, 0: there is no such weight, -1: it cannot be read (err).
int         weights_find(WeightFile *f, Str name, WeightWant want, Weight *out, Buf *err);
void        weight_done(Weight *w);
const char *weights_nearest(WeightFile *f, Str name);    // a name like it, or NULL

#endif
