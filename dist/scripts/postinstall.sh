#!/bin/sh
# After installation: the user, first settings, the service. After an upgrade the
# new program takes the place of the one that runs, without dropping anything.
set -e

settings=/etc/shuultuur/shuultuur.yaml

if ! getent passwd shuultuur >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --home-dir /var/lib/shuultuur --no-create-home --shell /usr/sbin/nologin shuultuur
	else
		addgroup -S shuultuur
		adduser -S -D -H -h /var/lib/shuultuur -s /sbin/nologin -G shuultuur shuultuur
	fi
fi

mkdir -p /etc/shuultuur /var/lib/shuultuur
chown shuultuur:shuultuur /etc/shuultuur /var/lib/shuultuur
chmod 750 /etc/shuultuur /var/lib/shuultuur
if [ ! -e "$settings" ]; then
	# As the user, so that no file is root's.
	su -s /bin/sh -c '/usr/bin/shuultuur init -data /var/lib/shuultuur /etc/shuultuur' shuultuur >/dev/null
fi

if shuultuur upgrade -config "$settings" >/dev/null 2>&1; then
	upgraded=yes # it was running, and what it was doing goes on
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ "${1:-1}" = 1 ]; then # rpm counts the versions that are installed
		systemctl enable --now shuultuur.service
	elif [ -z "${upgraded:-}" ]; then
		systemctl try-restart shuultuur.service
	fi
fi
