# Sourced by every bash of a check: leave a mark the moment a watched line is executed, and disturb nothing.
# What stands before this: the place, which files are watched by their last name, and their lines by number. It begins
# a group that ends here without a standard error, so that a bash which traces itself does not show any of this.

# A bash without tables is too old to be watched.
if [[ -n ${__resolvent_tables-} && ! -e $__resolvent_place/seen/bash.hit ]]; then
    __resolvent_seen() {
        if [[ -n $1 && -n ${__resolvent_names[${1##*/}]-} ]]; then
            __resolvent_look "$1" "$2" "${1##*/}"
        fi
        return 0
    }

    __resolvent_look() {
        local IFS=' ' file text copy number
        file=${__resolvent_known[$1]-}
        if [[ -z $file ]]; then
            file=other
            # By what is in it: the name may be relative to a directory that was left, or a copy's.
            builtin read -r -d '' text 2>/dev/null <"$1" || :
            for number in ${__resolvent_names[$3]}; do
                builtin read -r -d '' copy 2>/dev/null <"$__resolvent_place/bash/$number" || :
                if [[ -n $text && $text == "$copy" ]]; then
                    file=$number
                    : >|"$__resolvent_place/seen/bash.loaded.$number"
                fi
            done
            __resolvent_known[$1]=$file
            if [[ $file == other ]]; then
                : >|"$__resolvent_place/seen/bash.doubt"
            fi
        fi
        if [[ $file != other && ${__resolvent_lines[$file]} == *" $2 "* ]]; then
            : >|"$__resolvent_place/seen/bash.hit"
            builtin trap - DEBUG
        elif [[ $file != other && ${__resolvent_near[$file]} == *" $2 "* ]]; then
            : >|"$__resolvent_place/seen/bash.near.$file"
        fi
        return 0
    }

    set -o functrace
    # Without its standard error a script that traces itself does not show it, and the last word stays what it was.
    trap '{ __resolvent_seen "${BASH_SOURCE-}" "$LINENO" "$_"; } 2>/dev/null' DEBUG
fi
} 2>/dev/null
