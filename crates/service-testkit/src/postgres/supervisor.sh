# Runs one PostgreSQL cluster for as long as the process holding the other end of standard input lives.
#
# Commands, one a line: `start PORT` is answered by `ready PID` or `ended`, `stop SIGNAL` by `stopped`, `follow PORT`,
# before the first start, by `following` or `ended`: the cluster becomes a standby of the one at that port. At end of input,
# which also comes when the other process is killed, PostgreSQL is stopped and a throwaway directory is removed.
#
# Arguments: the directory, `throwaway` or `kept`, the directory of PostgreSQL's programs, the words before a command
# that make it run unprivileged (or nothing), then PostgreSQL's own arguments.

directory=$1
life=$2
programs=$3
unprivileged=$4
shift 4
data=$directory/data
postmaster=

# Only end of input may end this script, or else PostgreSQL and its directory would be left behind: not an interrupt or
# a closed terminal, which may reach everything in the session, nor an answer that nobody is left to read.
trap '' HUP INT TERM PIPE
umask 077
cd "$directory" || exit 1
exec 2>>log

# The rename comes last, so that an interrupted initdb is never taken for a cluster.
initialise() {
    [ -d "$data" ] && return
    rm -rf "$data.new"
    # A kept cluster has a port that other accounts of the machine know, so it asks for a password.
    options='--auth=scram-sha-256 --pwfile=password'
    [ "$life" = throwaway ] && options='--auth=trust --no-sync'
    $unprivileged "$programs/initdb" -D "$data.new" $options --no-instructions --username=service \
        --locale=C.UTF-8 --encoding=UTF8 </dev/null >>log 2>&1 && mv "$data.new" "$data"
}

# The pid is compared because a killed postmaster leaves its file behind, which still says `ready`.
accepts_connections() {
    case $(sed -n '1p;8p' "$data/postmaster.pid" 2>/dev/null | tr -d ' \n') in
    "${postmaster}ready" | "${postmaster}standby") return 0 ;;
    esac
    return 1
}

start() {
    port=$1
    shift
    initialise || { echo ended; return; }
    $unprivileged "$programs/postgres" -D "$data" -p "$port" "$@" </dev/null >>log 2>&1 &
    postmaster=$!
    until accepts_connections; do
        if ! kill -0 "$postmaster" 2>/dev/null; then
            stop KILL
            echo ended
            return
        fi
        sleep 0.02
    done
    echo "ready $postmaster"
}

follow() {
    $unprivileged "$programs/pg_basebackup" --pgdata="$data" --checkpoint=fast --wal-method=stream --write-recovery-conf \
        --no-sync --dbname="host=127.0.0.1 port=$1 user=service application_name=standby" </dev/null >>log 2>&1
}

stop() {
    [ -n "$postmaster" ] || return
    kill -s "$1" "$postmaster" 2>/dev/null
    wait "$postmaster"
    postmaster=
}

while read -r command argument; do
    case $command in
    start) start "$argument" "$@" ;;
    stop) stop "$argument"; echo stopped ;;
    follow) if follow "$argument"; then echo following; else echo ended; fi ;;
    esac
done

stop INT
[ "$life" = throwaway ] || exit 0
cd /
# Backends outlive a killed postmaster for a moment and may still write.
for attempt in 1 2 3 4 5; do
    rm -rf "$directory" && break
    sleep 1
done
