#!/bin/sh
# load dns beside dnsperf, one core each, against the same name server.
#
#   sh bench/dns/run.sh [ROUNDS] [SECONDS]
#
# Needs nsd, dnsperf and taskset (apt-get install nsd dnsperf util-linux) and
# two cores: the server has the first, the generator the second. Rounds are
# interleaved. dnsperf runs with one socket (its default) and with four, and is
# credited with the better of the two in each round.
set -eu
rounds=${1:-5} seconds=${2:-3} port=${PORT:-5399}
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'kill "$nsd" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT INT TERM

(cd "$root" && CGO_ENABLED=0 go build -trimpath -o "$dir/shuultuur" ./cmd/shuultuur)
cat >"$dir/nsd.conf" <<EOF
server:
  server-count: 1
  ip-address: 127.0.0.1@$port
  zonesdir: "$dir"
  username: ""
  chroot: ""
  logfile: "$dir/nsd.log"
  pidfile: "$dir/nsd.pid"
  database: ""
  xfrdfile: "$dir/xfrd.state"
  zonelistfile: "$dir/zone.list"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: example.com
  zonefile: example.com.zone
EOF
awk 'BEGIN {
	print "$ORIGIN example.com.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1"
	for (i = 0; i < 1000; i++) printf "h%d A 192.0.2.%d\n", i, i % 250
}' >"$dir/example.com.zone"
awk 'BEGIN { for (i = 0; i < 1000; i++) printf "h%d.example.com A\n", i }' >"$dir/queries"

taskset -c 0 nsd -d -c "$dir/nsd.conf" >"$dir/out" 2>&1 &
nsd=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
	"$dir/shuultuur" load dns -count 1 -timeout 0.2 "127.0.0.1:$port" "$dir/queries" | grep -q NOERROR && break
done

# Each prints queries answered per second and, which other work on the machine
# changes less, microseconds of CPU per query.
cpu() { # of the children, from what times wrote
	awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, p, /[ms]/); s += 60 * p[1] + p[2] } print s }' "$dir/t"
}
theirs() { (
	taskset -c 1 dnsperf -s 127.0.0.1 -p "$port" -d "$dir/queries" -l "$seconds" -c "$1" >"$dir/o"
	times >"$dir/t"
	awk -v cpu="$(cpu)" '/Queries completed/ { n = $3 } /Queries per second/ { printf "%d %.2f\n", $4, cpu * 1e6 / n }' "$dir/o"
); }
ours() { (
	taskset -c 1 "$dir/shuultuur" load dns -seconds "$seconds" "127.0.0.1:$port" "$dir/queries" >"$dir/o"
	times >"$dir/t"
	awk -v cpu="$(cpu)" '$1 == "completed" { n = $2 } $1 == "rate" { printf "%d %.2f\n", $2, cpu * 1e6 / n }' "$dir/o"
); }

date -u '+%Y-%m-%d'
nsd -v 2>&1 | head -n 1
dnsperf -h 2>&1 | head -n 1
"$dir/shuultuur" version
printf '%6s %15s %15s %15s %8s %10s\n' round dnsperf 'dnsperf -c 4' 'load dns' ratio 'cpu ratio'
n=0
while [ "$n" -lt "$rounds" ]; do
	n=$((n + 1))
	echo "$n $(theirs 1) $(theirs 4) $(ours)" | awk '{
		best = $2 > $4 ? $2 : $4
		least = $3 < $5 ? $3 : $5
		printf "%6d %8d %4.2fµs %8d %4.2fµs %8d %4.2fµs %8.2f %10.2f\n", $1, $2, $3, $4, $5, $6, $7, $6 / best, least / $7
	}' | tee -a "$dir/table"
done
sort -k8n "$dir/table" | awk '{ r[NR] = $8 } END { printf "median ratio %.2f", r[int((NR + 1) / 2)] }'
sort -k9n "$dir/table" | awk '{ r[NR] = $9 } END { printf ", by CPU per query %.2f\n", r[int((NR + 1) / 2)] }'
