# Completion of `service` for bash. Words have only characters that mean nothing to the shell. Descriptions are only listed,
# never inserted: COMP_TYPE 63 is the list that bash prints after a second tab.
_service() {
    local word description
    COMPREPLY=()
    while IFS=$'\t' read -r word description; do
        if [[ $COMP_TYPE == 63 && -n $description ]]; then
            COMPREPLY+=("$word  ($description)")
        else
            COMPREPLY+=("$word")
        fi
    done < <(command service __complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null </dev/null)
}
complete -F _service -o bashdefault -o default service
