#!/usr/bin/env bash
# Prints the names of all projects that SERVICE_TOKEN gives access to, at the service SERVICE_API_URL.
set -euo pipefail
: "${SERVICE_API_URL:?is the address of the service}" "${SERVICE_TOKEN:?is a CLI token}"

# Prints the body of GET $1. The token goes through standard input: other users can see arguments.
get() {
    printf 'Authorization: Bearer %s\n' "$SERVICE_TOKEN" |
        curl --silent --show-error --fail-with-body --retry 3 --max-time 30 --header @- "$SERVICE_API_URL$1"
}

cursor=
while :; do
    page=$(get "/v1/projects?limit=100${cursor:+&cursor=$cursor}") || {
        # The description says what to do; the request id finds the request in the log of the service.
        jq -r '"\(.error_description) (request \(.request_id))"' <<<"$page" >&2
        exit 1
    }
    # A name must not begin a line: GitHub would take `::error::` there as a command.
    jq -r '.data[] | "\(.id)  \(.name)"' <<<"$page"
    cursor=$(jq -r '.nextCursor // "" | @uri' <<<"$page")
    [ -n "$cursor" ] || break
done
