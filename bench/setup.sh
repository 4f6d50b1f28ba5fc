#!/bin/sh
# Installs the peers that the benchmarks measure beside the gateway, on Debian's systems.
set -eu
missing=
need() { # program package
	command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"
}
need taskset util-linux
need nginx nginx-light
need e2guardian e2guardian
need privoxy privoxy
need haproxy haproxy
[ -x /usr/lib/squid/security_file_certgen ] || missing="$missing squid-openssl"
need c-icap c-icap
need clamd clamav-daemon
need traffic_server trafficserver
need varnishd varnish
need wrk wrk
need dnsperf dnsperf
need nsd nsd
need knotd knot
need unbound unbound
need dnsmasq dnsmasq-base
need dnsdist dnsdist
need redis-server redis-server
[ -n "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] || missing="$missing postgresql"
need chromium chromium
need cargo cargo
need cc gcc
[ -e /usr/include/hs/hs.h ] || missing="$missing libvectorscan-dev"
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	echo "make bench: please install:$missing" >&2
	exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "make bench: installing$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
