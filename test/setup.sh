#!/bin/sh
# Installs what the tests need beyond Go: a C compiler for the race detector,
# a browser with its driver for the story tests, a Redis server for what a
# fleet shares, name servers and their tools to agree with, Squid, e2guardian,
# PostgreSQL, and an emulator of other processors. On systems other than Debian's it says
# what is missing and goes on: the tests that need it are skipped and say so.
set -eu

missing=
command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v chromedriver >/dev/null 2>&1 || missing="$missing chromium-driver"
command -v certutil >/dev/null 2>&1 || missing="$missing libnss3-tools"
command -v curl >/dev/null 2>&1 || missing="$missing curl"
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
command -v delv >/dev/null 2>&1 || missing="$missing bind9-dnsutils"
command -v dnssec-verify >/dev/null 2>&1 || missing="$missing bind9-utils"
command -v ldns-verify-zone >/dev/null 2>&1 || missing="$missing ldnsutils"
command -v unbound >/dev/null 2>&1 || [ -x /usr/sbin/unbound ] || missing="$missing unbound"
command -v nsd >/dev/null 2>&1 || [ -x /usr/sbin/nsd ] || missing="$missing nsd"
command -v named >/dev/null 2>&1 || [ -x /usr/sbin/named ] || missing="$missing bind9"
command -v dnsmasq >/dev/null 2>&1 || [ -x /usr/sbin/dnsmasq ] || missing="$missing dnsmasq-base"
command -v knotd >/dev/null 2>&1 || [ -x /usr/sbin/knotd ] || missing="$missing knot"
command -v kdig >/dev/null 2>&1 || missing="$missing knot-dnsutils"
command -v kzonecheck >/dev/null 2>&1 || missing="$missing knot-dnssecutils"
command -v iptables >/dev/null 2>&1 || missing="$missing iptables"
command -v e2guardian >/dev/null 2>&1 || [ -x /usr/sbin/e2guardian ] || missing="$missing e2guardian"
command -v squidGuard >/dev/null 2>&1 || missing="$missing squidguard"
command -v haproxy >/dev/null 2>&1 || [ -x /usr/sbin/haproxy ] || missing="$missing haproxy"
command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
command -v privoxy >/dev/null 2>&1 || [ -x /usr/sbin/privoxy ] || missing="$missing privoxy"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] || missing="$missing postgresql"
command -v nats-server >/dev/null 2>&1 || [ -x /usr/sbin/nats-server ] || missing="$missing nats-server"
[ -x /usr/lib/squid/security_file_certgen ] || missing="$missing squid-openssl"
command -v c-icap >/dev/null 2>&1 || missing="$missing c-icap"
[ -n "$(ls /usr/lib/*/c_icap/virus_scan.so 2>/dev/null)" ] || missing="$missing libc-icap-mod-virus-scan"
command -v clamd >/dev/null 2>&1 || [ -x /usr/sbin/clamd ] || missing="$missing clamav-daemon"
command -v slapd >/dev/null 2>&1 || [ -x /usr/sbin/slapd ] || missing="$missing slapd ldap-utils"
command -v freeradius >/dev/null 2>&1 || [ -x /usr/sbin/freeradius ] || missing="$missing freeradius"
command -v radclient >/dev/null 2>&1 || missing="$missing freeradius-utils"
command -v krb5kdc >/dev/null 2>&1 || [ -x /usr/sbin/krb5kdc ] || missing="$missing krb5-kdc krb5-admin-server krb5-user"
[ -e /usr/lib/apache2/modules/mod_auth_gssapi.so ] || missing="$missing apache2-bin libapache2-mod-auth-gssapi"
{ [ -x /usr/sbin/samba ] && [ -d /usr/share/samba/setup ]; } || missing="$missing samba samba-ad-provision winbind"
command -v rsyslogd >/dev/null 2>&1 || [ -x /usr/sbin/rsyslogd ] || missing="$missing rsyslog"
command -v redis-server >/dev/null 2>&1 || command -v valkey-server >/dev/null 2>&1 || missing="$missing redis-server"
# An authority of certificates, and a server of objects.
for built in pebble=github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3 versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0; do
	[ -x "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test/bin/${built%%=*}" ] ||
		GOFLAGS='' GOBIN="${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test/bin" go install "${built#*=}" || echo "make test: ${built%%=*} is not installed" >&2
done
# An OpenID provider, where npm is.
if command -v npm >/dev/null 2>&1 && [ ! -d "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test/node_modules/oidc-provider" ]; then
	mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test"
	npm install --silent --prefix "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test" oidc-provider@9 || echo "make test: the npm package oidc-provider is not installed" >&2
fi
# A framework that hydrates documents.
if command -v npm >/dev/null 2>&1 && [ ! -d "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test/node_modules/react-dom" ]; then
	mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test"
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test" react@18.3.1 react-dom@18.3.1 || echo "make test: the npm package react-dom is not installed" >&2
fi
# Unblockers, whose protocols the lab of ways around speaks.
if command -v npm >/dev/null 2>&1 && [ ! -d "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test/node_modules/cors-anywhere" ]; then
	mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test"
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix "${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test" @tomphttp/bare-server-node@2.0.6 @mercuryworkshop/wisp-js@0.5.0 wisp-server-node@1.1.8 @rubynetwork/rammerhead@1.3.6 corrosion@1.0.0 alloyproxy@1.1.0 unblocker@2.3.1 wstunnel@1.4.0 @nebula-services/bare-server-node@2.0.4 wsproxy@1.2.32 allorigins@2.0.2 cors-anywhere@0.4.4 || echo "make test: npm packages of unblockers are not installed" >&2
fi
# What reads Parquet files, decodes and hashes pictures, runs neural networks as
# others do, and the engine of ClickHouse, where Python is.
python="${XDG_CACHE_HOME:-$HOME/.cache}/shuultuur-test/python"
if command -v python3 >/dev/null 2>&1 && ! "$python/bin/python3" -c 'import pyarrow, numpy, PIL, pdqhash, onnx, onnxruntime, chdb' 2>/dev/null; then
	{ python3 -m venv "$python" && "$python/bin/pip" install -q pyarrow numpy pillow pdqhash onnx onnxruntime chdb-core; } || echo "make test: Python packages are not installed" >&2
fi
command -v qemu-aarch64-static >/dev/null 2>&1 || missing="$missing qemu-user-static"
command -v lintian >/dev/null 2>&1 || missing="$missing lintian"
command -v promtool >/dev/null 2>&1 || missing="$missing prometheus"
command -v mandoc >/dev/null 2>&1 || missing="$missing mandoc"
command -v shellcheck >/dev/null 2>&1 || missing="$missing shellcheck"
command -v mmdebstrap >/dev/null 2>&1 || missing="$missing mmdebstrap"
command -v apparmor_parser >/dev/null 2>&1 || [ -x /usr/sbin/apparmor_parser ] || missing="$missing apparmor"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "make test: please install:$missing" >&2
	exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "make test: installing$missing"
$sudo apt-get update -qq
# Debian has Valkey since 13. The tools hold the server too, and start none.
if ! command -v valkey-server >/dev/null 2>&1 && apt-cache show valkey-tools >/dev/null 2>&1; then
	missing="$missing valkey-tools"
	$sudo ln -sf /usr/bin/valkey-check-rdb /usr/local/bin/valkey-server
fi
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
