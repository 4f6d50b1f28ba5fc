#!/bin/sh
# After removal. Settings, data and the user stay.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
