#!/bin/sh
# After installation: the user, first settings, the service. After an upgrade the
# new program takes the place of the one that runs, without dropping anything.
set -e

settings=/etc/shuultuur/shuultuur.yaml

# as_service runs a command of the program as the service does.
as_service() {
	su -s /bin/sh -c "/usr/bin/shuultuur $*" shuultuur
}

if ! getent passwd shuultuur >/dev/null 2>&1; then
	adduser --quiet --system --group --home /var/lib/shuultuur --no-create-home --shell /usr/sbin/nologin shuultuur
fi

mkdir -p /etc/shuultuur /var/lib/shuultuur
chown shuultuur:shuultuur /etc/shuultuur /var/lib/shuultuur
chmod 750 /etc/shuultuur /var/lib/shuultuur
if [ ! -e "$settings" ]; then
	# As the user, so that no file is root's.
	as_service init -data /var/lib/shuultuur /etc/shuultuur >/dev/null
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

# A filter that is stopped protects nobody: what runs goes on until the new program can take its
# place. If it cannot, that is said, and the package is installed all the same.
if ! why=$(as_service check -config "$settings" 2>&1); then
	echo "shuultuur: the new program refuses the settings; what runs goes on, and nothing is started:" >&2
	printf '%s\n' "$why" >&2
	echo "shuultuur: correct $settings, then: systemctl restart shuultuur" >&2
elif why=$(timeout 300 /usr/bin/shuultuur upgrade -config "$settings" 2>&1); then
	: # it was running, and what it was doing goes on
elif [ ! -d /run/systemd/system ]; then
	: # nothing that could be started
elif systemctl --quiet is-active shuultuur.service; then
	echo "shuultuur: the new program has not taken over; the old one goes on:" >&2
	printf '%s\n' "$why" >&2
else
	deb-systemd-invoke restart shuultuur.service >/dev/null || true
	# While nobody has an account, the link to the first steps.
	timeout 60 /usr/bin/shuultuur setup -wait 30s -config "$settings" 2>/dev/null || true
fi
