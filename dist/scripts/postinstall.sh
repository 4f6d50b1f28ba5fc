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
	as_service init -data /var/lib/shuultuur /etc/shuultuur >/dev/null
fi

# A filter that is stopped protects nobody: what runs goes on until the new program can take its
# place. If it cannot, that is said, and the package is installed all the same.
if ! why=$(as_service check -config "$settings" 2>&1); then
	echo "shuultuur: the new program refuses the settings; what runs goes on, and nothing is started:" >&2
	printf '%s\n' "$why" >&2
	echo "shuultuur: correct $settings, then restart the service" >&2
	start=
elif why=$(timeout 300 /usr/bin/shuultuur upgrade -config "$settings" 2>&1); then
	start= # it was running, and what it was doing goes on
else
	start=--now
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if [ "${1:-1}" = 1 ]; then # rpm counts the versions that are installed
		# shellcheck disable=SC2086 # nothing, or an option
		systemctl enable $start shuultuur.service
	elif [ -n "$start" ] && systemctl --quiet is-active shuultuur.service; then
		echo "shuultuur: the new program has not taken over; the old one goes on:" >&2
		printf '%s\n' "$why" >&2
	fi
fi
# While nobody has an account, the link to the first steps.
if [ -n "$start" ] && [ -d /run/systemd/system ] && [ "${1:-1}" = 1 ]; then
	timeout 60 /usr/bin/shuultuur setup -wait 30s -config "$settings" 2>/dev/null || true
fi
