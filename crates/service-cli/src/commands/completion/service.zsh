#compdef service
# Completion of `service` for zsh. Words have only characters that mean nothing to the shell. Descriptions are only shown.
_service() {
    local word description
    local -a found shown
    while IFS=$'\t' read -r word description; do
        found+=("$word")
        shown+=("$word${description:+  ($description)}")
    done < <(command service __complete "$((CURRENT - 1))" "${words[@]}" 2>/dev/null </dev/null)
    if (( $#found )); then
        compadd -l -d shown -a found
    else
        _files
    fi
}
if [[ ${funcstack[1]} == _service ]]; then
    _service "$@"
else
    compdef _service service
fi
