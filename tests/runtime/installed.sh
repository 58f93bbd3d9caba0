#!/bin/sh
# The installed tree as people use it: the example for hosts built by make with pkg-config, by cmake, and against the
# archive, the program of docs/api.md, each run on emu.
#
#     installed.sh CMAKE BUILD SOURCE WORK
set -eu
cmake=$1 build=$2 source=$3 work=$4
command -v pkg-config > /dev/null || { echo "skipped: there is no pkg-config"; exit 0; }
command -v make > /dev/null || { echo "skipped: there is no make"; exit 0; }
rm -rf "$work"
mkdir -p "$work/example"
"$cmake" --install "$build" --prefix "$work/prefix" > "$work/install.log"
lib=$(dirname "$(find "$work/prefix" -name libtkc.so)")
export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"

echo "exported: $(nm -D --defined-only "$lib/libtkc.so" | grep -c ' T tkc_') functions, $(nm -D --defined-only "$lib/libtkc.so" | grep -vc ' T tkc_') other"
nm -D --defined-only "$lib/libtkc.so" | grep -v ' T tkc_' && { echo "libtkc.so exports more than tkc.h"; exit 1; }
nm -g --defined-only "$lib/libtkc.a" 2> /dev/null | grep ' [A-Z] ' | grep -v ' T tkc_' && { echo "libtkc.a shows more than tkc.h"; exit 1; }
readelf -d "$lib/libtkc.so" | grep -q 'SONAME.*libtkc\.so\.[0-9]'

cp "$source"/examples/host/* "$work/example"
make -s -C "$work/example"
"$work/example/step" "$source/examples/models/step/model.onnx" emu 4
"$work/example/softmax" emu
"$work/example/softmax" eval
"$cmake" -S "$work/example" -B "$work/example/build" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/cmake.log"
"$cmake" --build "$work/example/build" >> "$work/cmake.log"
"$work/example/build/softmax" emu
"$work/example/build/step" "$source/examples/models/step/model.onnx" eval 4
cc -std=c99 -o "$work/example/whole" "$work/example/softmax.c" $(pkg-config --cflags --libs tkc-static)
readelf -d "$work/example/whole" | grep 'NEEDED.*libtkc' && { echo "tkc-static links the shared library"; exit 1; }
LD_LIBRARY_PATH= "$work/example/whole" emu
sed -n '/^```c$/,/^```$/p' "$source/docs/api.md" | sed '/^```/d' > "$work/page.c"
cc -std=c99 -Wall -Werror $(pkg-config --cflags tkc) -o "$work/page" "$work/page.c" $(pkg-config --libs tkc)
"$work/page" emu
"$work/page" eval
"$work/example/softmax" nowhere 2>&1 && exit 1
echo "fine"
