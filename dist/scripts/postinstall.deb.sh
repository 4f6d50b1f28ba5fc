#!/bin/sh
# After installation: the user, first settings, the service. After an upgrade the
# new program takes the place of the one that runs, without dropping anything.
set -e

settings=/etc/shuultuur/shuultuur.yaml

if ! getent passwd shuultuur >/dev/null 2>&1; then
	adduser --quiet --system --group --home /var/lib/shuultuur --no-create-home --shell /usr/sbin/nologin shuultuur
fi

mkdir -p /etc/shuultuur /var/lib/shuultuur
chown shuultuur:shuultuur /etc/shuultuur /var/lib/shuultuur
chmod 750 /etc/shuultuur /var/lib/shuultuur
if [ ! -e "$settings" ]; then
	# As the user, so that no file is root's.
	su -s /bin/sh -c '/usr/bin/shuultuur init -data /var/lib/shuultuur /etc/shuultuur' shuultuur >/dev/null
fi

if [ -d /sys/kernel/security/apparmor ] && command -v apparmor_parser >/dev/null 2>&1; then
	apparmor_parser -r -W -T /etc/apparmor.d/usr.bin.shuultuur || true
fi

if command -v deb-systemd-helper >/dev/null 2>&1; then
	deb-systemd-helper unmask shuultuur.service >/dev/null || true
	if deb-systemd-helper --quiet was-enabled shuultuur.service; then
		deb-systemd-helper enable shuultuur.service >/dev/null || true
	else
		deb-systemd-helper update-state shuultuur.service >/dev/null || true
	fi
fi
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
if shuultuur upgrade -config "$settings" >/dev/null 2>&1; then
	: # it was running, and what it was doing goes on
elif [ -d /run/systemd/system ]; then
	deb-systemd-invoke restart shuultuur.service >/dev/null || true
fi
