#!/bin/sh
# After removal. A purge of the deb takes settings, data and the user with it.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "${1:-}" = purge ]; then
	rm -rf /etc/shuultuur /var/lib/shuultuur /var/log/shuultuur
	if command -v userdel >/dev/null 2>&1 && getent passwd shuultuur >/dev/null 2>&1; then
		userdel shuultuur || true
	fi
fi
