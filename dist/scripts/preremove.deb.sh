#!/bin/sh
# Before removal; not before an upgrade.
set -e

case "${1:-}" in
remove | deconfigure)
	if [ -d /run/systemd/system ]; then
		deb-systemd-invoke stop shuultuur.service || true
	fi
	;;
esac
