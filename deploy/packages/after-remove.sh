#!/bin/sh
# After the package was removed. Even Debian's purge keeps the files in /etc/serviced: without the root keys there, backups of the
# database cannot be used.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
