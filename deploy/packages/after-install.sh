#!/bin/sh
# After the package was installed or upgraded: the user, the configuration, the unit.
set -e
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers serviced.conf
fi
# At the first installation only: `$2` is Debian's version before, `2` is Red Hat's upgrade.
if [ ! -e /etc/serviced/serviced.toml ] && [ -z "${2:-}" ] && [ "$1" != 2 ]; then
    install -m 0640 /usr/share/serviced/serviced.example.toml /etc/serviced/serviced.toml
fi
if getent group serviced >/dev/null; then
    for path in /etc/serviced /etc/serviced/serviced.toml; do
        # A group that the operator chose stays.
        if [ -e "$path" ] && [ "$(stat -c %G "$path")" = root ]; then chgrp serviced "$path"; fi
    done
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # A node of the new version does not start before the schema is migrated, so a running one is left to the operator.
    if systemctl is-active --quiet serviced.service; then
        echo "serviced is still running the previous version. Migrate the database, then restart each node:"
        echo "    SERVICED_DATABASE_URL_FILE=/etc/serviced/owner-database-url \\"
        echo "        serviced --config /etc/serviced/serviced.toml migrate"
        echo "    systemctl restart serviced"
    fi
fi
