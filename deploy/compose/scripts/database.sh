#!/bin/sh
# Starts PostgreSQL with TLS; at the first start, makes the database and its two roles.
set -eu
umask 077
data=/var/lib/postgresql/service

until [ -e /run/service/database.key ]; do sleep 0.2; done

if [ ! -d "$data" ]; then
    # What a first start that was interrupted has left.
    rm -rf "$data.new"
    initdb --pgdata "$data.new" --username postgres --auth peer --encoding UTF8 --locale C.UTF-8 --data-checksums >/dev/null
    pg_ctl --pgdata "$data.new" --silent --wait --options "-c listen_addresses=''" start
    psql --username postgres --no-psqlrc --quiet --set ON_ERROR_STOP=1 --file /scripts/roles.sql postgres
    pg_ctl --pgdata "$data.new" --silent --wait --mode fast stop
    mv "$data.new" "$data"
fi

exec postgres -D "$data" -c listen_addresses='*' -c hba_file=/scripts/pg_hba.conf -c wal_compression=lz4 -c checkpoint_timeout=15min \
    -c ssl=on -c ssl_min_protocol_version=TLSv1.3 -c ssl_cert_file=/run/service/database.pem -c ssl_key_file=/run/service/database.key
