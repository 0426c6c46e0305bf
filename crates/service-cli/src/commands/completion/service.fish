# Completion of `service` for fish. Words have only characters that mean nothing to the shell. Descriptions are only shown.
function __service_complete
    set -l words (commandline -opc)
    command service __complete (count $words) $words (commandline -ct) 2>/dev/null </dev/null
end
complete -c service -f -a '(__service_complete)'
complete -c service -l input -r -F
complete -c service -l jwks -r -F
