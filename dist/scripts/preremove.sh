#!/bin/sh
# Before removal; not before an upgrade.
set -e

case "${1:-}" in
remove | 0 | deconfigure)
	if [ -d /run/systemd/system ]; then
		if command -v deb-systemd-invoke >/dev/null 2>&1; then
			deb-systemd-invoke stop shuultuur.service || true
		else
			systemctl disable --now shuultuur.service || true
		fi
	fi
	;;
esac
