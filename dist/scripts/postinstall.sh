#!/bin/sh
# After installation: the user, first settings, the service.
set -e

if ! getent group shuultuur >/dev/null 2>&1; then
	if command -v groupadd >/dev/null 2>&1; then
		groupadd --system shuultuur
	else
		addgroup -S shuultuur
	fi
fi
if ! getent passwd shuultuur >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --gid shuultuur --home-dir /var/lib/shuultuur --no-create-home --shell /usr/sbin/nologin shuultuur
	else
		adduser -S -D -H -h /var/lib/shuultuur -s /sbin/nologin -G shuultuur shuultuur
	fi
fi

if [ ! -e /etc/shuultuur/shuultuur.yaml ]; then
	/usr/bin/shuultuur init -data /var/lib/shuultuur /etc/shuultuur >/dev/null
fi
mkdir -p /var/lib/shuultuur
chown -R shuultuur:shuultuur /etc/shuultuur /var/lib/shuultuur
chmod 750 /etc/shuultuur /var/lib/shuultuur

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if systemctl is-enabled --quiet shuultuur.service 2>/dev/null; then
		systemctl try-restart shuultuur.service
	else
		systemctl enable --now shuultuur.service
	fi
fi
