#!/bin/sh
# Before the package is removed. `remove` is Debian's word for it, `0` is Red Hat's. During an upgrade the node keeps running.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
    # A unit that cannot be stopped does not keep the package from being removed.
    if [ -d /run/systemd/system ]; then systemctl disable --now serviced.service || true; fi
fi
