#!/bin/sh
# The flags of "go build" for the program that people get: optimised by the
# profile, as far as the calls that make up 70 % of it (each further one would add
# code and gain little), and without inlining in packages that no request or query
# waits for, which makes the program 3 % smaller. What is measured stays as it is: the
# proxy, names, lists, phrases, content, cache, signatures, identities, the log.
#
# "flags.sh small" prints those of the small build, for devices with little
# storage: no profile, and nothing is inlined in what others wrote and in packages
# that requests use little.
set -eu
module=$(sed -n 's/^module //p' "$(dirname "$0")/../go.mod")
if [ "${1:-}" = small ]; then
	printf '%s' "-trimpath -tags small -gcflags=all=-l -gcflags=$module/...="
	for warm in cache check/signature content/charset content/language content/picture event identity ingest intercept list/adblock list/fold metric policy/pause policy/ruling proxy/edit proxy/page redis resolver state vote zone; do
		printf ' -gcflags=%s/%s/...=-l' "$module" "$warm"
	done
else
	printf '%s' "-trimpath -gcflags=all=-d=pgoinlinecdfthreshold=70 -pgo=$(dirname "$0")/default.pgo"
fi
for cold in \
	archive compress/bzip2 compress/lzw crypto/des crypto/dsa crypto/hpke crypto/x509 database/sql encoding/asn1 encoding/csv encoding/gob encoding/json encoding/xml fmt html flag image/png log math/big mime net/http net/mail net/textproto net/smtp os path regexp/syntax runtime/debug runtime/metrics runtime/pprof runtime/trace text/tabwriter text/template vendor/golang.org/x/net vendor/golang.org/x/text \
	github.com/Azure github.com/DataDog github.com/coreos github.com/dlclark/regexp2/v2/syntax github.com/go-asn1-ber github.com/go-jose github.com/go-ldap github.com/google \
	github.com/HdrHistogram github.com/jackc github.com/jcmturner github.com/klauspost/cpuid github.com/miekg github.com/nats-io github.com/oschwald github.com/quic-go github.com/yuin/gopher-lua/ast github.com/yuin/gopher-lua/parse \
	go.yaml.in golang.org/x/exp golang.org/x/net/icmp golang.org/x/net/idna golang.org/x/oauth2 \
	golang.org/x/text/cases golang.org/x/text/internal golang.org/x/text/language golang.org/x/text/secure golang.org/x/crypto/nacl golang.org/x/crypto/ocsp golang.org/x/net/bpf golang.org/x/text/unicode/bidi golang.org/x/text/width layeh.com rsc.io software.sslmate.com \
	"$module"/admin "$module"/cmd "$module"/configuration "$module"/doctor "$module"/engine "$module"/fleet "$module"/gateway \
	"$module"/handover "$module"/helper "$module"/importer "$module"/list/source "$module"/load "$module"/portal \
	"$module"/profile "$module"/replay "$module"/setting "$module"/zone/redins "$module"/zone/transfer \
	"$module"/cache/simulate "$module"/check/icap "$module"/check/signature/rule "$module"/check/signature/lua "$module"/check/virus \
	"$module"/check/certificate "$module"/datadir "$module"/event/clickhouse "$module"/event/dansguardian "$module"/event/jsonl "$module"/event/kafka "$module"/event/otlp "$module"/event/parquet \
	"$module"/event/postgres "$module"/event/record "$module"/event/sqlite "$module"/event/squid "$module"/event/syslog "$module"/identity/directory "$module"/identity/kerberos "$module"/identity/oidc \
	"$module"/identity/accounting "$module"/identity/seal "$module"/identity/session "$module"/list/collection "$module"/policy/timezone "$module"/postgres "$module"/text "$module"/vote/booth "$module"/vote/store "$module"/zone/authority "$module"/zone/sign "$module"/resolver/validate; do
	printf ' -gcflags=%s/...=-l' "$cold"
done
