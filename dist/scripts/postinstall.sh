#!/bin/sh
# After installation: the user, first settings, the service. After an upgrade the
# new program takes the place of the one that runs, without dropping anything.
set -e

settings=/etc/shuultuur/shuultuur.yaml

if ! getent passwd shuultuur >/dev/null 2>&1; then
	if command -v adduser >/dev/null 2>&1 && [ -e /etc/debian_version ]; then
		adduser --quiet --system --group --home /var/lib/shuultuur --no-create-home --shell /usr/sbin/nologin shuultuur
	elif command -v useradd >/dev/null 2>&1; then
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
takeover() {
	/usr/bin/shuultuur upgrade -config "$settings" >/dev/null 2>&1
}
if [ -d /run/systemd/system ] && command -v deb-systemd-invoke >/dev/null 2>&1; then
	deb-systemd-invoke daemon-reload >/dev/null || true
	takeover || deb-systemd-invoke restart shuultuur.service >/dev/null || true
elif [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if systemctl is-enabled --quiet shuultuur.service 2>/dev/null; then
		takeover || systemctl try-restart shuultuur.service
	else
		systemctl enable --now shuultuur.service
	fi
else
	takeover || true # one that was started by hand
fi
