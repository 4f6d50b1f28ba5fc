#!/bin/sh
# After removal. A purge takes settings, data and the user with it.
set -e

case "${1:-}" in
remove)
	if command -v deb-systemd-helper >/dev/null 2>&1; then
		deb-systemd-helper mask shuultuur.service >/dev/null || true
	fi
	;;
purge)
	if command -v deb-systemd-helper >/dev/null 2>&1; then
		deb-systemd-helper purge shuultuur.service >/dev/null || true
		deb-systemd-helper unmask shuultuur.service >/dev/null || true
	fi
	rm -rf /etc/shuultuur /var/lib/shuultuur /var/log/shuultuur
	if command -v userdel >/dev/null 2>&1 && getent passwd shuultuur >/dev/null 2>&1; then
		userdel shuultuur || true
	fi
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
