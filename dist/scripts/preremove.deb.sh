#!/bin/sh
# Before removal; not before an upgrade.
set -e

case "${1:-}" in
remove | deconfigure)
	if [ -d /run/systemd/system ]; then
		deb-systemd-invoke stop shuultuur.service || true
	fi
	if [ -d /sys/kernel/security/apparmor ] && command -v apparmor_parser >/dev/null 2>&1; then
		apparmor_parser -R /etc/apparmor.d/usr.bin.shuultuur >/dev/null 2>&1 || true
	fi
	;;
esac
