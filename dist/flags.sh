#!/bin/sh
# The flags of "go build" for the program that people get: optimised by the
# profile, and without inlining in packages that no request or query waits for,
# which makes the program 3 % smaller. What is measured stays as it is: the
# proxy, names, lists, phrases, content, cache, signatures, identities, the log.
#
# "flags.sh small" prints those of the small build, for devices with little
# storage: no profile, and nothing is inlined in what others wrote and in packages
# that requests use little.
set -eu
if [ "${1:-}" = small ]; then
	printf '%s' "-trimpath -tags small -gcflags=all=-l -gcflags=shuultuur/...="
	for warm in content/language event identity ingest intercept metric policy/pause policy/ruling state vote; do
		printf ' -gcflags=shuultuur/%s/...=-l' "$warm"
	done
else
	printf '%s' "-trimpath -pgo=$(dirname "$0")/default.pgo"
fi
for cold in \
	archive database/sql encoding/asn1 encoding/gob encoding/json encoding/xml html log/slog mime net/mail net/smtp regexp/syntax runtime/pprof text/template \
	github.com/DataDog github.com/coreos github.com/dlclark/regexp2/v2/syntax github.com/go-asn1-ber github.com/go-jose github.com/go-ldap github.com/google \
	github.com/HdrHistogram github.com/jackc github.com/jcmturner github.com/miekg github.com/nats-io github.com/oschwald github.com/yuin/gopher-lua/ast github.com/yuin/gopher-lua/parse \
	go.yaml.in golang.org/x/exp golang.org/x/net/icmp golang.org/x/oauth2 \
	golang.org/x/text/cases golang.org/x/text/internal golang.org/x/text/language golang.org/x/text/secure layeh.com rsc.io software.sslmate.com \
	shuultuur/admin shuultuur/cmd shuultuur/configuration shuultuur/doctor shuultuur/engine shuultuur/fleet shuultuur/gateway \
	shuultuur/handover shuultuur/helper shuultuur/importer shuultuur/list/source shuultuur/load shuultuur/portal \
	shuultuur/profile shuultuur/replay shuultuur/setting shuultuur/zone/redins shuultuur/zone/transfer \
	shuultuur/cache/simulate shuultuur/check/icap shuultuur/check/signature/rule shuultuur/check/signature/lua shuultuur/check/virus \
	shuultuur/event/clickhouse shuultuur/event/jsonl shuultuur/event/kafka shuultuur/event/otlp shuultuur/event/parquet \
	shuultuur/event/postgres shuultuur/event/record shuultuur/event/sqlite shuultuur/event/squid shuultuur/event/syslog shuultuur/identity/directory shuultuur/identity/kerberos shuultuur/identity/oidc \
	shuultuur/list/collection shuultuur/text shuultuur/vote/booth shuultuur/vote/store shuultuur/zone/authority shuultuur/zone/sign shuultuur/resolver/validate; do
	printf ' -gcflags=%s/...=-l' "$cold"
done
