# What a file of kernels says in its comments of how to run it, as words for `tkc run`. Files are anybody's: their text is
# never evaluated, and a word that would name a file, or an option that writes one, is not taken.
#
#     //     tkc run examples/x.tk --kernel=k 'x=randint(0,10):i64[3]' scale=0.25     ->  --kernel=k  x=randint(0,10):i64[3]  scale=0.25

# Text without what a terminal would take for a command.
printable() { LC_ALL=C tr -d '\000-\010\013-\037\177' | LC_ALL=C sed 's/\xc2[\x80-\x9f]/?/g'; }

# run_words LIST FILE: LIST is the words behind the file's name in its first such line; none where one of them is not taken.
run_words() {
    local -n run_words_out=$1
    local line word value=0
    run_words_out=()
    line=$(printable <"$2" | sed -n 's|^// *\(\$ *\)\{0,1\}tkc run \+[^ ]\+||p' | head -1)
    # xargs knows quotes and backslashes, and nothing else of a shell's
    mapfile -d '' -t run_words_out < <(printf '%s' "$line" | xargs printf '%s\0' 2>/dev/null)
    [ "${run_words_out[*]:-}" ] || run_words_out=()
    for word in "${run_words_out[@]}"; do
        if [ $value = 1 ]; then value=0; [[ $word =~ ^[A-Za-z_][A-Za-z_0-9]*=[A-Za-z_0-9.+-]+$ ]] && continue; fi
        [ "$word" = --set ] && value=1 && continue
        [[ $word =~ ^--(kernel|graph)=[A-Za-z_][A-Za-z_0-9]*$ || $word = --random-weights ]] && continue
        [[ $word =~ ^[A-Za-z_][A-Za-z_0-9]*=[a-z]+(\([0-9.,e+-]*\))?:[a-z0-9]+\[[0-9,]*\]$ ]] && continue
        [[ $word =~ ^[A-Za-z_][A-Za-z_0-9]*=[+-]?[0-9.]+(e[+-]?[0-9]+)?$ ]] && continue
        printf '%s: its `tkc run` line is not run: a word of it is neither data that are made nor a number\n' "$2" | printable >&2
        run_words_out=()
        return
    done
}
