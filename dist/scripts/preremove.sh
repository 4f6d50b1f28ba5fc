#!/bin/sh
# Before removal; not before an upgrade.
set -e

case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now shuultuur.service || true
	fi
	;;
esac
